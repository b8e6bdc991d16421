//! The command line: one file a subcommand.

pub mod accept;
pub mod arm;
pub mod audit;
pub mod command;
pub mod demo;
pub mod diff;
pub mod doctor;
pub mod init;
pub mod interpreter;
pub mod kernels;
pub mod mutants;
pub mod output;
pub mod run;
pub mod show;
pub mod table;
pub mod test;
pub mod validate;
pub mod vectors;
mod waiting;
mod workflow;
pub mod workspace;

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::{Parser, Subcommand};

use crate::compare::verdict::exit;
use crate::launch::process::INTERRUPTED;

/// Determinism and reproducibility test harness for GPU training: are the bits the same?
#[derive(Debug, Parser)]
#[command(name = "samebits", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 all that ran are same · 1 any different · 2 none different but any unverified · \
3 nothing ran · 64 refused flag or case · 101 panic.\nFiles live under SAMEBITS_DIR (default: .samebits beside cases/)."
)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train and evaluate a case fold by fold, writing a trace
    Run(run::Args),
    /// Verify cases: arms in fresh processes, against each other and the goldens
    Test(test::Args),
    /// Compare two runs: traces, exports, checkpoints, files of tensors or whole folders
    Diff(diff::Args),
    /// Say whether traces are whole and valid, what each lack costs and how to mend it
    Validate(validate::Args),
    /// Run any command many times and name what makes its results differ
    Audit(audit::Args),
    /// Write a first case for the repository at hand, and a workflow that gates it
    Init(init::Args),
    /// Take pending goldens over, with a reason
    Accept(accept::Args),
    /// Say what this machine has and lacks, and the next command
    Doctor(doctor::Args),
    /// One green and one red verdict in ten seconds, without a checkout
    Demo,
    /// The matrix of planted faults and the detectors that name them
    Mutants(mutants::Args),
    /// Run the contract's vectors on every SIMD path of this machine, or on a GPU
    Vectors(vectors::Args),
    /// Compile every kernel for every architecture, without a GPU, and hold its instructions against the contract
    Kernels(kernels::Args),
    /// Show what a case resolves to: settings, arms, golden, trace size
    Show(show::Args),
    /// List the cases, one a line
    List(show::ListArgs),
    /// Run one request from standard input (used by `test`)
    #[command(hide = true)]
    Arm,
    /// Become a command, under surroundings given on standard input
    #[command(hide = true)]
    Launch,
    /// Print what this process sees of its surroundings
    #[command(hide = true)]
    Observe,
}

/// Subcommands and what they do, as a Markdown table.
pub fn help_table() -> String {
    use clap::CommandFactory;
    let mut text = String::from("| command | what it does |\n|---|---|\n");
    for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!("| `samebits {}` | {about} |\n", command.get_name()));
    }
    text
}

/// An error for people, with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// one of [`exit`]
    pub code: u8,
    /// one clear message
    pub message: String,
}

impl Failure {
    /// A refused flag or case.
    pub fn usage(message: impl ToString) -> Self {
        Failure { code: exit::USAGE, message: message.to_string() }
    }

    /// Evidence, a market file or a run that failed.
    pub fn unverified(message: impl ToString) -> Self {
        Failure { code: exit::UNVERIFIED, message: message.to_string() }
    }
}

/// The first signal lets what is running end and be told; a second ends the program at once.
fn interruptible() {
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // Known before anything is parsed, since git reads an unknown code as "bad".
    let git_bisect = std::env::args_os().any(|a| a == "--git-bisect");
    let code = std::panic::catch_unwind(run).unwrap_or(exit::PANIC);
    let code = output::finish(code);
    ExitCode::from(if git_bisect { for_git(code) } else { code })
}

/// What `git bisect run` reads: 0 good, 1 bad, 125 cannot tell, 128 stop.
fn for_git(code: u8) -> u8 {
    match code {
        exit::SAME | exit::DIFFERENT => code,
        exit::UNVERIFIED | exit::NOTHING_RAN => 125,
        _ => 128,
    }
}

fn run() -> u8 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            let _ = e.print();
            return if e.use_stderr() { exit::USAGE } else { exit::SAME };
        }
    };
    let result = match cli.command {
        Command::Run(args) => run::main(args),
        Command::Test(args) => test::main(args),
        Command::Diff(args) => diff::main(args),
        Command::Validate(args) => validate::main(args),
        Command::Audit(args) => audit::main(args),
        Command::Init(args) => init::main(args),
        Command::Accept(args) => accept::main(args),
        Command::Doctor(args) => doctor::main(args),
        Command::Demo => demo::main(),
        Command::Mutants(args) => mutants::main(args),
        Command::Vectors(args) => vectors::main(args),
        Command::Kernels(args) => kernels::main(args),
        Command::Show(args) => show::main(args),
        Command::List(args) => show::list(args),
        Command::Arm => arm::main(),
        Command::Launch => arm::launch(),
        Command::Observe => arm::observe(),
    };
    result.unwrap_or_else(|failure| {
        output::complain(&failure.message);
        failure.code
    })
}
