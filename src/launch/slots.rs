//! How much runs at a time: slots shared by all cases and arms of a test run.

use std::sync::{Condvar, Mutex};

/// Cores of this machine that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A number of slots, one a core as a rule.
#[derive(Debug)]
pub struct Slots {
    all: usize,
    free: Mutex<usize>,
    changed: Condvar,
}

/// Slots taken; given back when dropped.
#[derive(Debug)]
pub struct Taken<'a> {
    slots: &'a Slots,
    n: usize,
}

impl Slots {
    /// At least one.
    pub fn new(n: usize) -> Self {
        let all = if n == 0 { 1 } else { n };
        Slots { all, free: Mutex::new(all), changed: Condvar::new() }
    }

    /// How many there are.
    pub fn all(&self) -> usize {
        self.all
    }

    /// Waits for `weight` slots; one that asks for more than there are gets all.
    pub fn take(&self, weight: usize) -> Taken<'_> {
        let n = weight.clamp(1, self.all);
        let mut free = self.free.lock().unwrap_or_else(|e| e.into_inner());
        while *free < n {
            free = self.changed.wait(free).unwrap_or_else(|e| e.into_inner());
        }
        *free -= n;
        Taken { slots: self, n }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.slots.free.lock().unwrap_or_else(|e| e.into_inner()) += self.n;
        self.slots.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Would fail if more could run at once than there are slots, or a heavy job could starve or deadlock.
    #[test]
    fn never_more_than_the_slots() {
        let (slots, now, most) = (Slots::new(3), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for weight in [1, 2, 9, 1, 3, 1, 2] {
                let (slots, now, most) = (&slots, &now, &most);
                scope.spawn(move || {
                    let taken = slots.take(weight);
                    most.fetch_max(now.fetch_add(taken.n, Ordering::SeqCst) + taken.n, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    now.fetch_sub(taken.n, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.into_inner(), 3);
    }
}
