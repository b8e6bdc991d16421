//! The table of kinds, and one runner for each.

use super::engine::Engine;
use super::environment_kinds::{environment, not_finite};
use super::fields::{Fields, Outputs};
use super::learner_kinds::*;
use super::network_kinds::*;
use super::random_kinds::*;
use super::replay_kinds::*;
use super::update_kinds::whole_update;
use crate::engine::cpu::rules::Operation;

/// Computes `out` from `in` on an engine; `out` itself says only how many elements are asked for.
pub(crate) type Runner = fn(&Fields, &Fields, &dyn Engine) -> Outputs;

/// The one place to add a kind.
pub(crate) const KINDS: &[(&str, Runner)] = &[
    // Rule 1
    ("add", |i, _, engine| operation(i, engine, Operation::Add)),
    ("sub", |i, _, engine| operation(i, engine, Operation::Sub)),
    ("mul", |i, _, engine| operation(i, engine, Operation::Mul)),
    ("div", |i, _, engine| operation(i, engine, Operation::Div)),
    ("sqrt", |i, _, engine| operation(i, engine, Operation::Sqrt)),
    ("fma", |i, _, engine| operation(i, engine, Operation::Fma)),
    // Rule 2
    ("dot", dot),
    ("layer", layer),
    ("relu", relu),
    ("relu_backward", relu_backward),
    ("input_gradient", input_gradient),
    ("trunk2_input_gradient", trunk2_input_gradient),
    ("weight_gradient", weight_gradient),
    // Rules 3 and 4
    ("bias_gradient", bias_gradient),
    ("reduce", reduce),
    ("reduce_fill", reduce_fill),
    // Rule 5
    ("dueling", dueling),
    ("argmax", argmax),
    ("n_step", n_step),
    ("target", target),
    ("huber", huber),
    ("heads_backward", heads_backward),
    // Rule 6
    ("clip", clip),
    ("adam", adam),
    ("adam_dead_unit", adam_dead_unit),
    ("polyak", polyak),
    // Rule 7
    ("philox", philox_block),
    ("key", key),
    ("block", block),
    ("uniform", uniform),
    ("index_below", index_below),
    ("threshold", threshold),
    ("explore", explore),
    ("initial_weight", initial_weight),
    // Rule 8
    ("priority", priority_of),
    ("draw", draw),
    ("sample", sample),
    ("write", write),
    ("new_row", new_row),
    ("importance", importance),
    // Rules 10 and 11
    ("environment", environment),
    ("not_finite", not_finite),
    // Whole updates
    ("whole_update", whole_update),
    // Fingerprint
    ("mix64", mix64),
    ("keys", keys),
    ("fingerprint", fingerprint_of),
];
