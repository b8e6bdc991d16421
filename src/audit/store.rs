//! The folder of an audit: its plan, and one folder a run, so that nothing is lost when it is interrupted.
//!
//! `audit.json` is written first. A run is done when its `outcome.json` is there, which is written last, whole or not at
//! all; what a killed audit left unfinished is cleared and run again. One audit at a time has the folder.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use crate::digest::sha::Digest;
use crate::launch::factors::Factor;
use crate::launch::job::end_strays;
use crate::trace::writer::write_atomically;

/// Name and version of an audit's files.
pub const SCHEMA: &str = "samebits-audit/1";

/// What an audit was started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`SCHEMA`]
    pub schema: String,
    /// digest of the command and of all options; the command itself may hold secrets
    pub of: Digest,
    /// the command, secrets masked
    pub command: String,
    /// runs before any confirmation
    pub runs: usize,
    /// seed of the design
    pub seed: u64,
    /// declared outputs
    pub outputs: Vec<String>,
    /// factors as they were found on this machine
    pub factors: Vec<Factor>,
}

/// An open folder of an audit.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    _lock: File,
}

const MANIFEST: &str = "audit.json";
const OUTCOME: &str = "outcome.json";
const REPORT: &str = "report.json";
/// Largest `outcome.json` or `audit.json` that is read.
const LIMIT: u64 = 256 << 20;

fn named(path: &Path, e: impl std::fmt::Display) -> String {
    format!("{}: {e}", path.display())
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    let bytes = crate::trace::files::read(path, LIMIT).map_err(|e| named(path, e))?;
    serde_json::from_slice(&bytes).map_err(|e| named(path, e))
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|e| named(path, e))?;
    bytes.push(b'\n');
    write_atomically(path, &bytes).map_err(|e| named(path, e))
}

impl Store {
    /// A new folder for an audit; one that is there already is refused.
    pub fn create(folder: &Path, manifest: &Manifest) -> Result<Self, String> {
        if folder.join(MANIFEST).exists() {
            return Err(named(
                folder,
                "an audit is here already; --continue goes on with it, another --dir starts anew",
            ));
        }
        let occupied = folder.read_dir().is_ok_and(|mut d| d.next().is_some());
        if occupied {
            return Err(named(folder, "not empty; give an empty or a new folder"));
        }
        let store = Store::lock(folder)?;
        write(&folder.join(MANIFEST), manifest)?;
        Ok(store)
    }

    /// Opens the folder of an audit to go on with it.
    pub fn open(folder: &Path) -> Result<(Self, Manifest), String> {
        let path = folder.join(MANIFEST);
        if !path.is_file() {
            return Err(named(folder, format!("no audit here ({MANIFEST} is missing)")));
        }
        let store = Store::lock(folder)?;
        let manifest: Manifest = read(&path)?;
        match manifest.schema == SCHEMA {
            true => Ok((store, manifest)),
            false => Err(named(&path, format!("schema {:?}, expected {SCHEMA:?}", manifest.schema))),
        }
    }

    fn lock(folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder.join("runs")).map_err(|e| named(folder, e))?;
        let path = folder.join("lock");
        let lock = File::options().write(true).create(true).truncate(false).open(&path).map_err(|e| named(&path, e))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| named(folder, "another audit is at work here"))?;
        Ok(Store { folder: folder.to_owned(), _lock: lock })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Folder of a run.
    pub fn run(&self, run: usize) -> PathBuf {
        self.folder.join("runs").join(format!("{run:05}"))
    }

    /// A run that is done.
    pub fn outcome(&self, run: usize) -> Result<Option<Outcome>, String> {
        let path = self.run(run).join(OUTCOME);
        if !path.exists() {
            return Ok(None);
        }
        let outcome: Outcome = match read(&path) {
            Ok(outcome) => outcome,
            // Outcomes appear whole, so something damaged it; it stays beside the run that is made again.
            Err(_) => {
                let folder = self.folder.join("damaged");
                fs::create_dir_all(&folder).map_err(|e| named(&folder, e))?;
                fs::rename(&path, folder.join(format!("{run:05}.json"))).map_err(|e| named(&path, e))?;
                return Ok(None);
            }
        };
        match outcome.run == run {
            true => Ok(Some(outcome)),
            false => Err(named(&path, format!("it is of run {}", outcome.run))),
        }
    }

    /// Puts a run aside that was killed from outside, so that it can be made again; its outcome stays beside the new one.
    pub fn set_aside(&self, outcome: &Outcome) -> Result<(), String> {
        let folder = self.folder.join("killed");
        fs::create_dir_all(&folder).map_err(|e| named(&folder, e))?;
        write(&folder.join(format!("{:05}-{}.json", outcome.run, outcome.volatile.killed_before)), outcome)
    }

    /// An empty folder for a run; what an interrupted audit left there is ended and cleared.
    pub fn begin(&self, run: usize) -> Result<PathBuf, String> {
        let folder = self.run(run);
        if folder.exists() {
            end_strays(&folder);
            fs::remove_dir_all(&folder).map_err(|e| named(&folder, e))?;
        }
        fs::create_dir_all(&folder).map_err(|e| named(&folder, e))?;
        Ok(folder)
    }

    /// Keeps how a run ended.
    pub fn done(&self, outcome: &Outcome) -> Result<(), String> {
        write(&self.run(outcome.run).join(OUTCOME), outcome)
    }

    /// Keeps the report.
    pub fn report(&self, report: &impl Serialize) -> Result<PathBuf, String> {
        let path = self.folder.join(REPORT);
        write(&path, report)?;
        Ok(path)
    }

    /// True when its report was written.
    pub fn is_finished(folder: &Path) -> bool {
        folder.join(REPORT).exists()
    }

    /// Deletes what a run left beside its outcome; its digests stay.
    pub fn drop_files(&self, run: usize) -> Result<(), String> {
        let folder = self.run(run);
        for entry in fs::read_dir(&folder).map_err(|e| named(&folder, e))? {
            let path = entry.map_err(|e| named(&folder, e))?.path();
            let keep = path.file_name().is_some_and(|n| n == OUTCOME);
            let gone = |e: io::Result<()>| e.map_err(|e| named(&path, e));
            match (keep, path.is_dir() && !path.is_symlink()) {
                (true, _) => {}
                (false, true) => gone(fs::remove_dir_all(&path))?,
                (false, false) => gone(fs::remove_file(&path))?,
            }
        }
        Ok(())
    }
}

/// The newest unfinished audit of a command below a folder, or the name for a new one.
pub fn place(folder: &Path, of: &Digest, go_on: bool) -> Result<PathBuf, String> {
    let stem = of.to_string()[..12].to_owned();
    let numbered = |i: usize| folder.join(format!("{stem}-{i}"));
    let used = (1..).take_while(|i| numbered(*i).exists()).last().unwrap_or(0);
    if !go_on {
        fs::create_dir_all(folder).map_err(|e| named(folder, e))?;
        // Made here, so that two audits that begin at once do not take one folder.
        let mut free = (used + 1..).map(|i| (numbered(i), fs::create_dir(numbered(i))));
        return free.find(|(_, made)| !matches!(made, Err(e) if e.kind() == io::ErrorKind::AlreadyExists)).map_or_else(
            || Err("no folder is free".to_owned()),
            |(path, made)| made.map(|()| path.clone()).map_err(|e| named(&path, e)),
        );
    }
    (1..=used).rev().map(numbered).find(|f| f.join(MANIFEST).is_file() && !Store::is_finished(f)).ok_or_else(|| {
        format!("--continue: no unfinished audit of this command with these options below {}", folder.display())
    })
}
