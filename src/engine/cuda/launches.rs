//! Whole cycles as one graph launch, and the log that the host reads once the launch's last word was seen.
//!
//! The steady state is one launch and a look at mapped memory for K cycles: no synchronising call, no allocation, no event.

use super::buffer::Buffer;
use super::error::CudaError;
use super::graph::Graph;
use super::held::Held;
use super::log::Entry;
use super::pinned::Pinned;
use super::steps::Ground;
use crate::digest::fingerprint::Fingerprint;

/// A captured stretch of cycles with its log.
#[derive(Debug)]
pub(super) struct Launches {
    graph: Graph,
    /// updates of a launch
    pub steps: usize,
    prints: Pinned<[u64; 2]>,
    entries: Pinned<Entry>,
    word: Pinned<u32>,
    number: u32,
    /// where the graph writes; kept for it
    _written: Buffer<Entry>,
}

/// What one step of a launch left.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub entry: Entry,
    /// of state and results; empty where the launch takes none
    pub prints: Vec<Fingerprint>,
}

impl Launches {
    /// Captures `cycles` cycles. `held` has slots for their steps and outlives this; its addresses are the graph's.
    pub fn capture(ground: &Ground<'_>, held: &mut Held, cycles: u64, with_prints: bool) -> Result<Self, CudaError> {
        let (device, t) = (&ground.gpu.device, &ground.settings.training);
        let steps = (cycles * t.updates_per_cycle) as usize;
        let mut written = Buffer::zeroed(device, steps)?;
        let mut prints = Pinned::zeroed(device, if with_prints { held.prints.sums().len() } else { 0 })?;
        let (mut entries, word) = (Pinned::zeroed(device, steps)?, Pinned::zeroed(device, 1)?);
        let number = held.counters.read()?.launch;
        let graph = Graph::capture(device, || {
            for slot in 0..steps {
                if (slot as u64).is_multiple_of(t.updates_per_cycle) {
                    (0..t.env_steps_per_cycle).try_for_each(|_| held.collect(ground))?;
                }
                held.update(ground)?;
                if with_prints {
                    held.take_prints(ground, slot)?;
                }
                let numbers = [held.learner.ws.loss.scaled(), held.learner.ws.norm.norm()];
                ground.gpu.kernels.log.step(&held.counters, numbers, &mut written, slot)?;
            }
            if with_prints {
                prints.copy_from(held.prints.sums())?;
            }
            entries.copy_from(&written)?;
            ground.gpu.kernels.log.end(&held.counters, &word)
        })?;
        Ok(Launches { graph, steps, prints, entries, word, number, _written: written })
    }

    /// Launches the cycles and waits for their last word by looking at memory. A device that fails writes no word, so the
    /// driver is asked once a second.
    pub fn run(&mut self, ground: &Ground<'_>, held: &Held) -> Result<Vec<Logged>, CudaError> {
        self.graph.launch()?;
        self.number = self.number.wrapping_add(1);
        let (start, mut asked) = (std::time::Instant::now(), 1);
        while self.word.now(0) != self.number {
            if start.elapsed().as_secs() >= asked {
                asked += 1;
                ground.gpu.device.poll("graph launch")?;
            }
            std::hint::spin_loop();
        }
        let (entries, sums) = (self.entries.read(), self.prints.read());
        let each = sums.len() / self.steps;
        let prints = |slot: usize| match each {
            0 => Vec::new(),
            _ => held.prints.listed(&sums[slot * each..(slot + 1) * each]),
        };
        Ok(entries.into_iter().enumerate().map(|(slot, entry)| Logged { entry, prints: prints(slot) }).collect())
    }
}
