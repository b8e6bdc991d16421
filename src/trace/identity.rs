//! The identity of a run: what may change bits, and what is only noted.

use std::collections::BTreeMap;
use std::fs;

use super::privacy;
use super::record::Identity;

/// Identity of a run of the CPU engine: keyed by the contract only, since tier `chain` gives one set of bits everywhere.
pub fn cpu(contract: &str, simd: &str, threads: usize) -> Identity {
    let mut noted = BTreeMap::from([
        ("arch".to_owned(), std::env::consts::ARCH.to_owned()),
        ("cpu".to_owned(), cpu_model()),
        ("simd".to_owned(), simd.to_owned()),
        ("threads".to_owned(), threads.to_string()),
        ("samebits".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("os".to_owned(), std::env::consts::OS.to_owned()),
    ]);
    noted.extend(privacy::environment().into_iter().map(|(n, v)| (format!("env.{n}"), v)));
    Identity { keyed: BTreeMap::from([("contract".to_owned(), contract.to_owned())]), noted }
}

/// Model name of the first CPU, or `unavailable`.
pub fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name =
        text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, n)| n.to_owned()));
    name.unwrap_or_else(|| "unavailable".to_owned())
}
