//! How work reaches the pool's threads: sessions that keep them awake, tasks shared among them.
//!
//! An update is a handful of phases of some hundred microseconds. A sleeping thread takes tens of microseconds to wake,
//! so during a session idle threads wait awake, giving way to anything else that wants the core. Which thread runs a
//! task never shows in a result: tasks own disjoint rows or elements.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::Yield;

use super::Cpu;

/// Polls between two offers of the core to other threads.
const SPINS: usize = 32;
/// Batch rows of one task: few enough that threads finish together, enough to reuse the weights in the caches.
const RUN_ROWS: std::ops::RangeInclusive<usize> = 64..=192;
/// Tasks for each thread, where row limits allow.
const RUNS: usize = 4;

/// Runs of rows for a batch: one a thread at least, if there are rows enough.
pub(super) fn runs(rows: usize, threads: usize) -> usize {
    let each = rows.div_ceil(RUNS * threads).clamp(*RUN_ROWS.start(), *RUN_ROWS.end());
    if threads == 1 || rows < each * threads { threads } else { rows.div_ceil(each).next_multiple_of(threads) }
}

/// Counts a task as done, also when it panics.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Ends a session, also when its work panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs tasks of the pool, on one of its threads, until `done`.
fn help_until(done: impl Fn() -> bool) {
    while !done() {
        if rayon::yield_now() != Some(Yield::Executed) {
            let mut spins = 0;
            while spins < SPINS && !done() {
                std::hint::spin_loop();
                spins += 1;
            }
            std::thread::yield_now();
        }
    }
}

impl Cpu {
    /// Runs `work` on a thread of the pool, in its floating-point mode.
    pub fn on_pool<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }

    /// Runs `work` on a thread of the pool while the others wait awake for its tasks.
    pub(super) fn session<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        // One session at a time: two leaders could each wait inside the other's.
        let Ok(_one) = self.awake.try_lock() else { return self.pool.install(work) };
        self.pool.install(|| {
            let (leader, over) = (rayon::current_thread_index(), &AtomicBool::new(false));
            rayon::scope(|scope| {
                let _over = Over(over);
                for _ in 1..self.threads() {
                    scope.spawn(move |_| {
                        // The leader may come upon this task while it waits for others: it must not stay.
                        if rayon::current_thread_index() != leader {
                            help_until(|| over.load(Ordering::Acquire));
                        }
                    });
                }
                work()
            })
        })
    }

    /// Runs tasks on the pool's threads and waits for all; called on one of them.
    pub(super) fn share<T: Send>(&self, tasks: impl IntoIterator<Item = T>, run: impl Fn(T) + Sync) {
        let left = AtomicUsize::new(0);
        let (run, left) = (&run, &left);
        rayon::in_place_scope(|scope| {
            for task in tasks {
                left.fetch_add(1, Ordering::Relaxed);
                scope.spawn(move |_| {
                    let _done = Done(left);
                    run(task);
                });
            }
            help_until(|| left.load(Ordering::Acquire) == 0);
        });
    }
}
