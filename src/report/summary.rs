//! Counts of a test run: the last line, the exit code, the JSON object.

use serde::Serialize;

use crate::compare::verdict::{Verdict, exit};
use crate::verify::report::CaseReport;

/// How many cases ended how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// everything demanded holds
    pub same: usize,
    /// something does not
    pub different: usize,
    /// could not be told
    pub unverified: usize,
    /// lacked what they need
    pub not_run: usize,
    /// met their `[expect]`
    pub expected: usize,
    /// planted faults that were caught and named
    pub mutants_caught: usize,
    /// cases left out by `--slow`
    pub slow_left_out: usize,
    /// why cases were not run
    pub reasons: Vec<String>,
}

impl Counts {
    /// Counts reports.
    pub fn of(reports: &[CaseReport], slow_left_out: usize) -> Self {
        let mut counts = Counts { slow_left_out, ..Counts::default() };
        for report in reports {
            match (&report.verdict, &report.expected, report.mutants) {
                (_, Some(_), _) => counts.expected += 1,
                (Verdict::Same, _, Some((caught, _))) => counts.mutants_caught += caught,
                (Verdict::Same, ..) => counts.same += 1,
                (Verdict::Different, ..) => counts.different += 1,
                (Verdict::Unverified { .. }, ..) => counts.unverified += 1,
                (Verdict::NotRun { detail }, ..) => {
                    counts.not_run += 1;
                    if !counts.reasons.contains(detail) {
                        counts.reasons.push(detail.clone());
                    }
                }
            }
        }
        counts
    }

    /// The last line.
    pub fn line(&self) -> String {
        let why = if self.reasons.is_empty() { String::new() } else { format!(" ({})", self.reasons.join(", ")) };
        let mut line = format!(
            "{} same · {} different · {} unverified · {} not run{why}",
            self.same, self.different, self.unverified, self.not_run
        );
        if self.mutants_caught > 0 {
            line.push_str(&format!(" · {} mutants caught", self.mutants_caught));
        }
        if self.expected > 0 {
            line.push_str(&format!(" · {} expected differences", self.expected));
        }
        if self.slow_left_out > 0 {
            line.push_str(&format!(" · {} slow left out (--slow)", self.slow_left_out));
        }
        line
    }

    /// The public exit code. `require` turns `not run` into 2.
    pub fn code(&self, require: bool) -> u8 {
        let ran = self.same + self.different + self.unverified + self.expected + self.mutants_caught;
        match self {
            c if c.different > 0 => exit::DIFFERENT,
            c if c.unverified > 0 => exit::UNVERIFIED,
            c if require && (c.not_run > 0 || ran == 0) => exit::UNVERIFIED,
            _ if ran == 0 => exit::NOTHING_RAN,
            _ => exit::SAME,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if "could not tell" or "not run" ever counted as "same".
    #[test]
    fn exit_codes() {
        let counts =
            |same, different, unverified, not_run| Counts { same, different, unverified, not_run, ..Counts::default() };
        assert_eq!(counts(3, 0, 0, 2).code(false), 0);
        assert_eq!(counts(3, 0, 0, 2).code(true), 2);
        assert_eq!(counts(3, 1, 1, 0).code(false), 1);
        assert_eq!(counts(3, 0, 1, 0).code(false), 2);
        assert_eq!(counts(0, 0, 0, 2).code(false), 3);
        assert_eq!(counts(0, 0, 0, 0).code(true), 2);
    }
}
