//! Jobs with needs and weights, several at a time within a number of slots.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex};

/// One job: `weight` slots, after the jobs in `after`.
pub struct Job<'a> {
    /// slots it takes; more than there are: all
    pub weight: usize,
    /// indices of jobs that must be done before
    pub after: Vec<usize>,
    /// the work
    pub work: Box<dyn FnOnce() + Send + 'a>,
}

struct Board {
    free: usize,
    done: BTreeSet<usize>,
}

/// Runs all jobs within `slots`; returns when the last is done. A job whose need comes later in the list would never
/// start, so needs must point backwards.
pub fn run(jobs: Vec<Job<'_>>, slots: usize) {
    let slots = if slots == 0 { 1 } else { slots };
    let (board, changed) = (Mutex::new(Board { free: slots, done: BTreeSet::new() }), Condvar::new());
    std::thread::scope(|scope| {
        let mut waiting: Vec<(usize, Job<'_>)> = jobs.into_iter().enumerate().collect();
        while !waiting.is_empty() {
            let mut state = board.lock().unwrap_or_else(|e| e.into_inner());
            let next = loop {
                let fits = |j: &Job<'_>| weight(j, slots) <= state.free && j.after.iter().all(|a| state.done.contains(a));
                match waiting.iter().position(|(_, job)| fits(job)) {
                    Some(at) => break at,
                    None => state = changed.wait(state).unwrap_or_else(|e| e.into_inner()),
                }
            };
            let (index, job) = waiting.remove(next);
            let taken = weight(&job, slots);
            state.free -= taken;
            drop(state);
            let (board, changed) = (&board, &changed);
            scope.spawn(move || {
                (job.work)();
                let mut state = board.lock().unwrap_or_else(|e| e.into_inner());
                state.free += taken;
                state.done.insert(index);
                changed.notify_all();
            });
        }
    });
}

fn weight(job: &Job<'_>, slots: usize) -> usize {
    job.weight.clamp(1, slots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Would fail if a job could start before its need, or more run at once than there are slots.
    #[test]
    fn needs_and_slots_are_kept() {
        let (running, most, order) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
        let job = |i: usize, weight, after| Job {
            weight,
            after,
            work: Box::new({
                let (running, most, order) = (&running, &most, &order);
                move || {
                    let now = running.fetch_add(weight, Ordering::SeqCst) + weight;
                    most.fetch_max(now, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    order.lock().unwrap().push(i);
                    running.fetch_sub(weight, Ordering::SeqCst);
                }
            }),
        };
        run(vec![job(0, 1, vec![]), job(1, 2, vec![]), job(2, 1, vec![0]), job(3, 1, vec![1, 2])], 2);
        let order = order.into_inner().unwrap();
        let at = |i| order.iter().position(|x| *x == i).unwrap();
        assert!(most.into_inner() <= 2 && at(0) < at(2) && at(1) < at(3) && at(2) < at(3));
    }
}
