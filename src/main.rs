//! The `samebits` command.

fn main() {}
