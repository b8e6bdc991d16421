//! The `samebits` command.

fn main() -> std::process::ExitCode {
    samebits::cli::main()
}
