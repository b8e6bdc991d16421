//! One run in a fresh process: request on standard input, a time limit, its own process group, stderr kept.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::scenario::request::RunRequest;
use crate::trace::privacy::Mask;

/// Set by a signal: running processes are ended and no more are started.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Most bytes of a process's stderr that are kept (the last ones).
pub const STDERR_LIMIT: usize = 64 * 1024;

/// Characters dropped from the beginning of standard error that was cut: more than a secret has.
const CUT: usize = 8 * 1024;

/// How an end by SIGKILL is told. Where nothing here sent it, something outside did: a person, or the kernel out of memory.
pub const KILLED: &str = "killed by signal 9";

/// How a process ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// exit code 0
    Ok,
    /// another exit code, or a signal
    Failed(String),
    /// its limit in seconds; the whole group was ended
    TimedOut(u64),
    /// the test run was interrupted
    Interrupted,
}

/// A finished process.
#[derive(Clone, Debug)]
pub struct Finished {
    /// how it ended
    pub end: End,
    /// what it wrote to stderr, secrets masked, the last part if it was long
    pub stderr: String,
    /// how long it took
    pub elapsed: Duration,
}

/// Runs one request in a fresh process of the program `program`.
pub fn run(program: &Path, request: &RunRequest, limit: Duration) -> std::io::Result<Finished> {
    let mut command = Command::new(program);
    command.arg("arm").stdout(Stdio::null());
    supervise(command, &(serde_json::to_string(request)? + "\n"), limit)
}

/// Starts a process in a group of its own, hands it `text`, and waits for its end or the limit's.
pub(super) fn supervise(mut command: Command, text: &str, limit: Duration) -> std::io::Result<Finished> {
    use std::os::unix::process::CommandExt;
    let start = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn()?;
    // Held open: the child ends itself when this end closes, so that it does not outlive a killed test run.
    let mut stdin = child.stdin.take();
    if let Some(stdin) = &mut stdin {
        // A child that ended early closed its end; how it ended is told by its exit code.
        let _ = stdin.write_all(text.as_bytes());
    }
    let tail = child.stderr.take().map(Tail::start);
    let end = wait(&mut child, start, limit)?;
    drop(stdin);
    let (stderr, is_cut) = tail.map(Tail::end).unwrap_or_default();
    // Masked first, and only then freed of its beginning, where half a secret may stand.
    let stderr = Mask::from_environment().apply(&stderr);
    let stderr = if is_cut { stderr.chars().skip(CUT).collect() } else { stderr };
    Ok(Finished { end, stderr, elapsed: start.elapsed() })
}

fn wait(child: &mut Child, start: Instant, limit: Duration) -> std::io::Result<End> {
    let mut pause = Duration::from_micros(500);
    loop {
        if has_ended(child)? {
            // What it started ends with it: it would go on beside the next runs, and hold standard error open.
            let status = end_group(child)?;
            return Ok(if status.success() { End::Ok } else { End::Failed(describe(status)) });
        }
        if INTERRUPTED.load(Ordering::Relaxed) {
            end_group(child)?;
            return Ok(End::Interrupted);
        }
        if start.elapsed() > limit {
            end_group(child)?;
            return Ok(End::TimedOut(limit.as_secs()));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Whether a process has ended. Its id, which is its group's, stays taken until [`end_group`] has used it.
fn has_ended(child: &Child) -> std::io::Result<bool> {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(Pid::from_child(child)), look)?.is_some())
}

/// Ends a process and everything of its group.
fn end_group(child: &mut Child) -> std::io::Result<ExitStatus> {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
        // The group may be gone already.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    child.wait()
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        _ => "ended without a code".to_owned(),
    }
}

/// The last part of what a process writes to a pipe.
struct Tail {
    /// what is kept, and whether anything before it was dropped
    kept: Arc<Mutex<(Vec<u8>, bool)>>,
    ended: Receiver<()>,
}

impl Tail {
    fn start(mut pipe: impl Read + Send + 'static) -> Self {
        let (kept, (end, ended)) = (Arc::default(), std::sync::mpsc::channel());
        let shared: Arc<Mutex<(Vec<u8>, bool)>> = Arc::clone(&kept);
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(n @ 1..) = pipe.read(&mut buffer) {
                let mut kept = shared.lock().unwrap_or_else(|e| e.into_inner());
                kept.0.extend_from_slice(&buffer[..n]);
                if kept.0.len() > 2 * STDERR_LIMIT {
                    let more = kept.0.len() - STDERR_LIMIT;
                    kept.0.drain(..more);
                    kept.1 = true;
                }
            }
            // Whoever waits for it may have given up.
            let _ = end.send(());
        });
        Tail { kept, ended }
    }

    /// What was written. A daemon that left the process's group may hold the pipe open for ever, so the wait has an end.
    fn end(self) -> (String, bool) {
        let _ = self.ended.recv_timeout(Duration::from_secs(2));
        let kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        (String::from_utf8_lossy(&kept.0).into_owned(), kept.1)
    }
}

/// One line of JSON from standard input.
pub fn read_request<T: serde::de::DeserializeOwned>() -> Result<T, String> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|e| format!("standard input: {e}"))?;
    serde_json::from_str(&line).map_err(|e| format!("standard input: not a request of samebits: {e}"))
}

/// Reads a request from standard input, and ends this process when the other end closes.
pub fn receive() -> Result<RunRequest, String> {
    let request = read_request()?;
    std::thread::spawn(|| {
        let mut rest = [0; 64];
        loop {
            match std::io::stdin().read(&mut rest) {
                Ok(0) | Err(_) => std::process::exit(2),
                Ok(_) => {}
            }
        }
    });
    Ok(request)
}
