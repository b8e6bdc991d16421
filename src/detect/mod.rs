//! One file per cause of divergence, and the table [`DETECTORS`].
//!
//! A detector reads traces and what was varied between them, nothing else: no command lines, no names of cases, and
//! nothing that would tell it which fault was planted. Verified: each names the mutants that it must report and stays
//! silent on their clean twin (`samebits mutants`). Not verified: faults of other kinds than those planted.

pub mod aliased_replay_state;
pub mod batch_dependence;
pub mod evaluation_disturbs_training;
pub mod evidence;
pub mod flush_to_zero;
pub mod fma_contraction;
pub mod fold_leakage;
pub mod hash_order;
pub mod observer_effect;
pub mod resume_draws_again;
pub mod resume_incomplete_state;
pub mod sample_out_of_range;
pub mod seed_ignored;
pub mod thread_count_dependence;
pub mod unordered_accumulation;
pub mod unseeded_generator;

use evidence::{Evidence, Finding};

/// One detector.
pub struct Detector {
    /// readable name, in every kind of output
    pub slug: &'static str,
    /// what it catches
    pub catches: &'static str,
    /// what it misses
    pub misses: &'static str,
    /// what it needs and costs
    pub costs: &'static str,
    /// mutants that it must report
    pub mutants: &'static [&'static str],
    /// looks at the arms of one case
    pub look: fn(&Evidence<'_>) -> Option<Finding>,
}

/// All detectors.
pub static DETECTORS: [Detector; 15] = [
    flush_to_zero::DETECTOR,
    unseeded_generator::DETECTOR,
    hash_order::DETECTOR,
    unordered_accumulation::DETECTOR,
    thread_count_dependence::DETECTOR,
    fma_contraction::DETECTOR,
    seed_ignored::DETECTOR,
    sample_out_of_range::DETECTOR,
    aliased_replay_state::DETECTOR,
    evaluation_disturbs_training::DETECTOR,
    resume_incomplete_state::DETECTOR,
    resume_draws_again::DETECTOR,
    fold_leakage::DETECTOR,
    batch_dependence::DETECTOR,
    observer_effect::DETECTOR,
];

/// Runs every detector.
pub fn look(evidence: &Evidence<'_>) -> Vec<Finding> {
    DETECTORS.iter().filter_map(|d| (d.look)(evidence).map(|f| Finding { detector: d.slug, ..f })).collect()
}
