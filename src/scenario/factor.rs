//! Names of what may be varied around a command; `launch/factors.rs` says how.

/// Names and descriptions of the built-in factors, in their order.
pub const NAMES: [(&str, &str); 13] = [
    ("env-size", "4 KiB more of environment variables"),
    ("env-order", "environment variables in descending order"),
    ("folder-length", "a working directory whose path is 64 bytes longer"),
    ("argv-length", "the program named by a path that is 64 bytes longer"),
    ("threads", "thread counts of OpenMP, MKL, OpenBLAS, BLIS, NumExpr, Accelerate and rayon"),
    ("cpus", "one processor in the affinity mask"),
    ("load", "a busy thread on every processor beside the run"),
    ("overlap", "no other run at the same time"),
    ("start", "a start some milliseconds late, so that runs begin in another order"),
    ("locale", "another locale"),
    ("time-zone", "another time zone"),
    ("aslr", "addresses that are not randomised"),
    ("hash-seed", "PYTHONHASHSEED fixed"),
];
