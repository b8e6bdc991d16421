//! A multiplication and an addition fused into one rounding where the contract has two.

use super::Detector;
use super::evidence::{ArmEvidence, Evidence, Finding, f32_values};
use crate::bits::fma::fma_soft;
use crate::scenario::plan::ArmKind;
use crate::trace::reader::Trace;
use crate::trace::record::Body;

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "fma-contraction",
    catches: "a Polyak update on one SIMD path whose bits are those of fma(tau, w - target, target)",
    misses: "contraction in other operations (reported as a difference between paths, without a cause)",
    costs: "a run for each SIMD path; values of small tensors",
    mutants: &["contracted-polyak"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    if !evidence.is_stable() {
        return None;
    }
    let base = evidence.base()?;
    let tau = base.open.settings["training"]["tau"].as_f64()? as f32;
    // Some path differs from the base's, so one of the two is contracted.
    let arm = evidence.of(|k| matches!(k, ArmKind::Simd { .. })).find(|a| a.differs())?;
    let contracted = [base, arm.traces.first()?].map(|trace| contracted_tensor(trace, tau));
    let [(Some((place, tensor)), None) | (None, Some((place, tensor)))] = [contracted.into()] else { return None };
    let what = format!("{tensor} at {place}: tau*(w - target) + target has one rounding on one path, two on the other");
    let names = vec!["target".to_owned(), tensor];
    Finding::new(names, what, paths(evidence.of(|k| matches!(k, ArmKind::Simd { .. }))))
}

/// The first place and tensor of a trace whose new values are those of the contracted expression only.
fn contracted_tensor(trace: &Trace, tau: f32) -> Option<(String, String)> {
    let steps = trace.bodies.iter().filter(|(kind, _)| *kind == "step").map(|(_, body)| body);
    for body in steps {
        let names = body.values.iter().map(|(n, _)| n).filter(|n| n.starts_with("target.") && *n != "target.q_next");
        for name in names {
            if is_contracted(trace, body, name, tau) == Some(true) {
                return Some((body.place.to_string(), name.to_owned()));
            }
        }
    }
    None
}

fn paths<'e, 'a: 'e>(arms: impl Iterator<Item = &'e ArmEvidence<'a>>) -> Vec<String> {
    arms.filter(|a| a.differs()).map(|a| a.name.to_owned()).collect()
}

/// Whether a target tensor's new values are those of the contracted expression (true) or the contract's (false); None
/// when values are missing or neither fits.
fn is_contracted(trace: &Trace, body: &Body, name: &str, tau: f32) -> Option<bool> {
    let w = f32_values(body, &name.replacen("target.", "q.", 1))?;
    let new = f32_values(body, name)?;
    let old = previous(trace, body).and_then(|b| f32_values(b, name))?;
    let of = |f: &dyn Fn(f32, f32) -> f32| {
        old.iter().zip(&w).zip(&new).all(|((t, w), n)| f(*t, *w).to_bits() == n.to_bits())
    };
    match (of(&|t, w| fma_soft(tau, w - t, t)), of(&|t, w| t + (tau * (w - t)))) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}

/// The step before, in the same fold.
fn previous<'t>(trace: &'t Trace, body: &Body) -> Option<&'t Body> {
    let step = body.place.step?.checked_sub(1)?;
    let bodies = trace.bodies.iter().filter(|(kind, _)| *kind == "step").map(|(_, b)| b);
    bodies.into_iter().find(|b| b.place.fold == body.place.fold && b.place.step == Some(step))
}
