//! A line now and then while nothing else is told, so that a log without a terminal says what is being waited for.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long nothing is told before a line is.
pub const QUIET: Duration = Duration::from_secs(30);

/// Most names in a line.
const NAMES: usize = 4;

/// What runs, and since when.
#[derive(Debug, Default)]
pub struct Running(Mutex<BTreeMap<String, Instant>>);

impl Running {
    /// Something begins.
    pub fn begin(&self, name: &str) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).insert(name.to_owned(), Instant::now());
    }

    /// Something has ended.
    pub fn end(&self, name: &str) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).remove(name);
    }

    /// Names and seconds, the longest first.
    pub fn list(&self) -> Vec<(String, u64)> {
        let running = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let mut list: Vec<(String, u64)> = running.iter().map(|(n, t)| (n.clone(), t.elapsed().as_secs())).collect();
        list.sort_by_key(|(_, seconds)| std::cmp::Reverse(*seconds));
        list
    }
}

/// Waits until all senders are gone; `tell` is called whenever nothing was sent for `quiet`.
pub fn watch(ended: &Receiver<()>, quiet: Duration, mut tell: impl FnMut()) {
    loop {
        match ended.recv_timeout(quiet) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => tell(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// `waiting: 3 of 18 cases done; running a/b (95 s), c/d (31 s)`
pub fn words(done: usize, all: usize, running: &[(String, u64)]) -> String {
    let names: Vec<String> =
        running.iter().take(NAMES).map(|(name, seconds)| format!("{name} ({seconds} s)")).collect();
    let more = if running.len() > NAMES { format!(" and {} more", running.len() - NAMES) } else { String::new() };
    let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    format!("waiting: {done} of {all} cases done; running {names}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Would fail if silence were not told, or the watch went on when all had ended.
    #[test]
    fn silence_is_told_until_all_have_ended() {
        let (sender, receiver) = channel();
        let (mut held, mut told) = (Some(sender), 0);
        watch(&receiver, Duration::ZERO, || {
            told += 1;
            held = None;
        });
        assert_eq!(told, 1);
        let (sender, receiver) = channel();
        sender.send(()).unwrap();
        drop(sender);
        watch(&receiver, Duration::ZERO, || panic!("something had ended"));
    }

    /// Would fail if the line lost what runs, how long, or how much is left, or grew with the number of cases.
    #[test]
    fn the_line_says_what_is_waited_for() {
        let running = Running::default();
        ["a/b", "a/c"].iter().for_each(|name| running.begin(name));
        running.end("a/c");
        assert_eq!(running.list().into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a/b"]);
        let list: Vec<(String, u64)> = (0..6).map(|i| (format!("a/{i}"), 90 - i)).collect();
        let expected = "waiting: 3 of 18 cases done; running a/0 (90 s), a/1 (89 s), a/2 (88 s), a/3 (87 s) and 2 more";
        assert_eq!(words(3, 18, &list), expected);
        assert_eq!(words(0, 1, &[]), "waiting: 0 of 1 cases done; running nothing");
    }
}
