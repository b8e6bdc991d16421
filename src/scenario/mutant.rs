//! Planted faults. A fault reaches only the code that plants it: it stands in no trace, identity, environment, command
//! line or log that a detector reads.

use serde::{Deserialize, Serialize};

/// One planted fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// the gradient norm is summed by threads in arrival order
    UnorderedSum,
    /// the gradient norm is summed in one chunk a thread
    ThreadChunkedSum,
    /// the Polyak update is one FMA instead of two roundings, on paths that have FMA
    ContractedPolyak,
    /// one worker thread flushes subnormals to zero
    FlushToZero,
    /// each evaluation draws from the exploration generator
    EvaluationDraws,
    /// after a resume the sampler draws once more
    SamplerRedraws,
    /// a state tensor is left out of the checkpoint
    CheckpointOmits {
        /// its name or the prefix that it shares with others
        field: String,
    },
    /// replay rows keep a reference to the live position state
    AliasedReplay,
    /// one generator does not see the seed
    SeedIgnored,
    /// tensors are reduced in the order of a hash table
    HashOrder,
    /// the sampler counts one environment step that is not written yet
    SamplePastHead,
    /// one generator is keyed by the clock
    TimeSeeded,
    /// a fold starts with the moments of the fold before
    FoldLeak,
    /// an evaluation's first row depends on how many rows stand beside it
    RowNeighbours,
    /// full tracing moves a weight
    TraceDisturbs,
    /// one bit of one element flips after one update
    FlipBit(Flip),
}

/// Which bit flips, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flip {
    /// tensor, as in the trace
    pub tensor: String,
    /// element
    pub element: usize,
    /// bit of the element's bytes, 0 is the lowest
    pub bit: u32,
    /// fold
    pub fold: u32,
    /// update of that fold
    pub step: u64,
}

/// The mutant that is no fault of a kind but a tool: it needs a `[mutant.flip]` table, and no detector names it.
pub const FLIP_BIT: &str = "flip-bit";

/// Every mutant of the matrix by name; `checkpoint-omits` stands once and is planted for each state field in turn.
pub const NAMES: [&str; 15] = [
    "unordered-sum",
    "evaluation-draws",
    "sampler-redraws",
    "checkpoint-omits",
    "aliased-replay",
    "seed-ignored",
    "thread-chunked-sum",
    "hash-order",
    "sample-past-head",
    "time-seeded",
    "contracted-polyak",
    "flush-to-zero",
    "fold-leak",
    "row-neighbours",
    "trace-disturbs",
];

/// State fields for `checkpoint-omits`: each a tensor or the common prefix of the tensors of one kind.
pub const STATE_FIELDS: [&str; 25] = [
    "q.",
    "target.",
    "adam.m.",
    "adam.v.",
    "learner.t",
    "fold.updates",
    "replay.asset",
    "replay.time",
    "replay.before",
    "replay.after",
    "replay.actions",
    "replay.done",
    "replay.reward",
    "replay.priority",
    "replay.priority_max",
    "env.time",
    "env.position",
    "env.open",
    "env.bars",
    "env.equity",
    "env.peak",
    "env.episode_bars",
    "env.steps",
    "rng.env.",
    "rng.replay.",
];

impl Fault {
    /// The fault of a name; `field` is for `checkpoint-omits`.
    pub fn named(name: &str, field: Option<&str>) -> Option<Fault> {
        Some(match name {
            "unordered-sum" => Fault::UnorderedSum,
            "evaluation-draws" => Fault::EvaluationDraws,
            "sampler-redraws" => Fault::SamplerRedraws,
            "checkpoint-omits" => Fault::CheckpointOmits { field: field?.to_owned() },
            "aliased-replay" => Fault::AliasedReplay,
            "seed-ignored" => Fault::SeedIgnored,
            "thread-chunked-sum" => Fault::ThreadChunkedSum,
            "hash-order" => Fault::HashOrder,
            "sample-past-head" => Fault::SamplePastHead,
            "time-seeded" => Fault::TimeSeeded,
            "contracted-polyak" => Fault::ContractedPolyak,
            "flush-to-zero" => Fault::FlushToZero,
            "fold-leak" => Fault::FoldLeak,
            "row-neighbours" => Fault::RowNeighbours,
            "trace-disturbs" => Fault::TraceDisturbs,
            _ => return None,
        })
    }

    /// The name of this fault in [`NAMES`]; a flipped bit has none.
    pub fn name(&self) -> Option<&'static str> {
        let named = |name: &&str| {
            Fault::named(name, Some("")).is_some_and(|f| std::mem::discriminant(&f) == std::mem::discriminant(self))
        };
        NAMES.into_iter().find(|n| named(n))
    }

    /// The fault that is planted under this one's name when names are dealt out under a seed, and that fault's own name.
    /// Faults of checkpoints keep theirs among themselves: each field stands for the next one.
    pub fn dealt(&self, seed: u64) -> Option<(&'static str, Fault)> {
        let next = |list: &[&'static str], name: &str| {
            let at = list.iter().position(|n| *n == name)?;
            Some(list[(at + 1 + (seed as usize % (list.len() - 1))) % list.len()])
        };
        if let Fault::CheckpointOmits { field } = self {
            let field = next(&STATE_FIELDS, field)?.to_owned();
            return Some(("checkpoint-omits", Fault::CheckpointOmits { field }));
        }
        let others: Vec<&'static str> = NAMES.into_iter().filter(|n| *n != "checkpoint-omits").collect();
        let name = next(&others, self.name()?)?;
        Some((name, Fault::named(name, None)?))
    }
}
