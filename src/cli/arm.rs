//! Hidden subcommands: what a test run or an audit starts in fresh processes.

use super::Failure;
use crate::compare::verdict::exit;
use crate::engine::session::Session;
use crate::launch::{process, surroundings};
use crate::say;
use crate::scenario::request::{RunRequest, repeat_name};
use crate::trace::observer::{Observer, Silent};
use crate::trace::recorder::Recorder;

/// Runs it.
pub fn main() -> Result<u8, Failure> {
    let request = process::receive().map_err(Failure::usage)?;
    execute(&request, &mut |_| {})?;
    Ok(exit::SAME)
}

/// Becomes the command of a request from standard input.
pub fn launch() -> Result<u8, Failure> {
    let launch = process::read_request().map_err(Failure::usage)?;
    let error = surroundings::become_command(&launch);
    Err(Failure::unverified(error))
}

/// Prints what this process sees of its surroundings.
pub fn observe() -> Result<u8, Failure> {
    let seen = surroundings::observe().map_err(Failure::unverified)?;
    say!("{}", serde_json::to_string(&seen).map_err(Failure::unverified)?);
    Ok(exit::SAME)
}

/// Runs a request and its repeats in this process; gives the last outcome.
pub fn execute(
    request: &RunRequest,
    progress: &mut dyn FnMut(crate::engine::run::Progress),
) -> Result<crate::engine::run::Outcome, Failure> {
    let session = Session::new(request.clone()).map_err(Failure::unverified)?;
    run_session(&session, request, progress)
}

/// The same for a session that is loaded.
pub fn run_session(
    session: &Session,
    request: &RunRequest,
    progress: &mut dyn FnMut(crate::engine::run::Progress),
) -> Result<crate::engine::run::Outcome, Failure> {
    let mut last = None;
    for i in 0..request.repeat.max(1) {
        let mut observer: Box<dyn Observer> = match &request.trace {
            Some(path) => {
                let path = repeat_name(path, i);
                let recorder = Recorder::create(&path, request.level, request.values, request.trace_limit);
                Box::new(recorder.map_err(Failure::unverified)?)
            }
            None => Box::new(Silent),
        };
        let outcome = session.run(observer.as_mut(), progress).map_err(Failure::unverified)?;
        last = Some(outcome);
    }
    last.ok_or_else(|| Failure::unverified("no run was asked for"))
}
