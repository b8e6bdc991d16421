//! JUnit: one test case an arm, stable names `suite.case.arm`, complete also when the run was interrupted.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::compare::verdict::Verdict;
use crate::verify::report::{ArmReport, CaseReport};

/// A planned case: its name and arms.
pub type Planned = (String, Vec<String>);

/// The XML of a run. Arms that were planned and have no report are skipped.
pub fn render(planned: &[Planned], reports: &[CaseReport]) -> Result<String, String> {
    let mut report = Report::new("samebits");
    for (case, arms) in planned {
        let mut suite = TestSuite::new(case.replace('/', "."));
        let found = reports.iter().find(|r| r.case == *case);
        for arm in arms {
            suite.add_test_case(test_case(case, arm, found));
        }
        let more = found.into_iter().flat_map(|r| &r.arms).filter(|a| !arms.contains(&a.name));
        for arm in more {
            suite.add_test_case(test_case(case, &arm.name, found));
        }
        report.add_test_suite(suite);
    }
    report.to_string().map_err(|e| e.to_string())
}

fn test_case(case: &str, arm: &str, report: Option<&CaseReport>) -> TestCase {
    let found: Option<&ArmReport> = report.and_then(|r| r.arms.iter().find(|a| a.name == arm));
    let status = match (found, report) {
        (Some(a), Some(r)) => status(&a.verdict, r),
        (None, Some(r)) => status(&r.verdict, r),
        _ => skipped("it did not run: the test run ended before"),
    };
    let mut test = TestCase::new(format!("{}.{arm}", case.replace('/', ".")), status);
    test.set_classname(case.replace('/', "."));
    if let Some(a) = found {
        test.set_time(std::time::Duration::from_secs_f64(a.seconds));
    }
    test
}

fn status(verdict: &Verdict, report: &CaseReport) -> TestCaseStatus {
    let text = super::text::details(report);
    let bad = |kind, word: &str| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_message(word.to_owned()).set_description(text.clone());
        status
    };
    match verdict {
        Verdict::Same => TestCaseStatus::success(),
        Verdict::Different if report.expected.is_some() => TestCaseStatus::success(),
        Verdict::Different => bad(NonSuccessKind::Failure, "different"),
        Verdict::Unverified { reason, .. } => bad(NonSuccessKind::Error, &format!("unverified: {}", reason.word())),
        Verdict::NotRun { detail } => skipped(&format!("not run: {detail}")),
    }
}

fn skipped(why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(why.to_owned());
    status
}
