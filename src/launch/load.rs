//! Busy threads beside a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Threads that are busy until stopped.
#[derive(Debug)]
pub struct Load {
    on: Arc<AtomicBool>,
    threads: Vec<(Arc<AtomicU64>, JoinHandle<()>)>,
}

impl Load {
    /// Starts `n` threads and waits until each has done something.
    pub fn start(n: usize) -> Self {
        let on = Arc::new(AtomicBool::new(true));
        let spawn = |_| {
            let (on, turns) = (Arc::clone(&on), Arc::new(AtomicU64::new(0)));
            let count = Arc::clone(&turns);
            let work = move || {
                while on.load(Ordering::Relaxed) {
                    (0..1000).for_each(|_| std::hint::spin_loop());
                    count.fetch_add(1, Ordering::Relaxed);
                }
            };
            (turns, std::thread::spawn(work))
        };
        let threads: Vec<_> = (0..n).map(spawn).collect();
        let busy = |(turns, _): &(Arc<AtomicU64>, JoinHandle<()>)| turns.load(Ordering::Relaxed) > 0;
        while !threads.iter().all(busy) {
            std::thread::yield_now();
        }
        Load { on, threads }
    }

    /// Stops them; gives how often each went round.
    pub fn stop(self) -> Vec<u64> {
        self.on.store(false, Ordering::Relaxed);
        let end = |(turns, thread): (Arc<AtomicU64>, JoinHandle<()>)| {
            // A thread that only counts does not panic.
            let _ = thread.join();
            turns.load(Ordering::Relaxed)
        };
        self.threads.into_iter().map(end).collect()
    }
}
