//! Any command in a fresh process: its surroundings set, its output kept, a time limit, its process group ended with it.
//!
//! The command is started through this program's hidden subcommand `launch`, which sets the surroundings, looks at them
//! and then becomes the command.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::process::{self, Finished};
use super::surroundings::{Launch, Observed};

/// Most bytes of standard output that are kept.
pub const STDOUT_LIMIT: u64 = 1 << 30;

/// Runs a command; gives how it ended and what it wrote to standard output.
pub fn run(samebits: &Path, launch: &Launch, limit: Duration) -> std::io::Result<(Finished, Vec<u8>)> {
    let mut stdout = tempfile::tempfile()?;
    let mut command = Command::new(samebits);
    command.arg("launch").stdout(Stdio::from(stdout.try_clone()?));
    let text = request(launch)?;
    let mut finished = process::supervise(command, &text, limit)?;
    let size = stdout.seek(SeekFrom::End(0))?;
    if size > STDOUT_LIMIT {
        let what = format!("{size} bytes of standard output; at most {STDOUT_LIMIT} are kept");
        finished.end = process::End::Failed(what);
        return Ok((finished, Vec::new()));
    }
    Ok((finished, whole(&mut stdout)?))
}

/// Looks at the surroundings from inside a process started under them.
pub fn observe(samebits: &Path, launch: &Launch) -> Result<Observed, String> {
    let own = samebits.to_str().ok_or("the path of this program is not UTF-8")?.to_owned();
    let launch = Launch { argv: vec![own, "observe".to_owned()], ..launch.clone() };
    let (finished, stdout) = run(samebits, &launch, Duration::from_secs(20)).map_err(|e| e.to_string())?;
    match finished.end {
        process::End::Ok => serde_json::from_slice(&stdout).map_err(|e| e.to_string()),
        _ => Err(finished.stderr.trim().trim_start_matches("error: ").to_owned()),
    }
}

fn request(launch: &Launch) -> std::io::Result<String> {
    let launch = Launch { parent: std::process::id(), ..launch.clone() };
    Ok(serde_json::to_string(&launch)? + "\n")
}

fn whole(file: &mut File) -> std::io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
