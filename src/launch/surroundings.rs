//! What of a process's surroundings a launch sets, and what a process sees of them.
//!
//! Verified: each setting is looked at from inside a process started under it ([`observe`]), by the audit on the machine
//! at hand and by tests. Not attempted: anything that needs root, and anything of another system than Linux.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Variable that holds the padding of a larger environment.
pub const PADDING: &str = "SAMEBITS_PADDING";

/// A command and the surroundings it is started in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// program and arguments
    pub argv: Vec<String>,
    /// working directory
    pub folder: PathBuf,
    /// variables set, beyond those inherited
    pub env: BTreeMap<String, String>,
    /// the rest
    pub surroundings: Surroundings,
    /// process that started it: its death ends the command
    pub parent: u32,
}

/// Deviations from how the surroundings are anyway; the default has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Surroundings {
    /// variables set
    pub set: BTreeMap<String, String>,
    /// bytes added to the environment
    pub env_padding: usize,
    /// variables in descending order of name
    pub env_reversed: bool,
    /// bytes added to the program's name in the argument list
    pub argv_padding: usize,
    /// processors of the affinity mask, the first so many of those allowed
    pub cpus: Option<usize>,
    /// addresses are not randomised
    pub aslr_off: bool,
    /// pause before the start
    pub delay_ms: u64,
}

/// What a process sees of its surroundings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// names and values of the environment, in its order
    pub env: Vec<(String, String)>,
    /// bytes of the argument list
    pub argv_bytes: usize,
    /// bytes of the working directory's path
    pub folder_bytes: usize,
    /// processors allowed
    pub cpus: usize,
    /// whether the kernel was told not to randomise addresses
    pub aslr_off: bool,
    /// address of a variable on the stack
    pub stack: usize,
}

/// Looks at this process's surroundings.
pub fn observe() -> io::Result<Observed> {
    let text = |s: OsString| s.to_string_lossy().into_owned();
    let local = 0u8;
    Ok(Observed {
        env: std::env::vars_os().map(|(n, v)| (text(n), text(v))).collect(),
        argv_bytes: std::fs::read("/proc/self/cmdline")?.len(),
        folder_bytes: std::env::current_dir()?.as_os_str().len(),
        cpus: allowed()?.len(),
        aslr_off: nix::sys::personality::get()?.contains(nix::sys::personality::Persona::ADDR_NO_RANDOMIZE),
        stack: std::ptr::from_ref(&local) as usize,
    })
}

/// Processors that this process may run on.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Sets the surroundings of this process and becomes the command. Comes back with the error only.
pub fn become_command(launch: &Launch) -> io::Error {
    match try_become(launch) {
        Ok(never) => match never {},
        Err(e) => e,
    }
}

fn try_become(launch: &Launch) -> io::Result<std::convert::Infallible> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    if rustix::process::getppid().map(|p| p.as_raw_nonzero().get().unsigned_abs()) != Some(launch.parent) {
        return Err(io::Error::other("the process that started this run is gone"));
    }
    let s = &launch.surroundings;
    if let Some(n) = s.cpus {
        restrict(n)?;
    }
    if s.aslr_off {
        let now = nix::sys::personality::get()?;
        nix::sys::personality::set(now | nix::sys::personality::Persona::ADDR_NO_RANDOMIZE)?;
    }
    std::env::set_current_dir(&launch.folder)?;
    let program = find(&launch.argv[0], &launch.folder)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{:?}: no such program", launch.argv[0])))?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    std::thread::sleep(std::time::Duration::from_millis(s.delay_ms));
    let argv = arguments(launch, &program)?;
    let env = environment(launch)?;
    Ok(nix::unistd::execve(&c(program.as_os_str().as_bytes())?, &argv, &env)?)
}

fn restrict(n: usize) -> io::Result<()> {
    let all = allowed()?;
    if all.len() < n {
        return Err(io::Error::other(format!("{} processors are allowed, {n} are asked for", all.len())));
    }
    let mut set = rustix::thread::CpuSet::new();
    all[..n].iter().for_each(|cpu| set.set(*cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

fn c(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
}

/// The program's name is made longer by steps that lead nowhere: `/usr/bin/./././python`.
fn arguments(launch: &Launch, program: &Path) -> io::Result<Vec<CString>> {
    let mut argv = launch.argv.iter().map(|a| c(a.as_bytes())).collect::<io::Result<Vec<CString>>>()?;
    let padding = launch.surroundings.argv_padding;
    if padding > 0 {
        let folder = program.parent().unwrap_or(Path::new("/")).join("./".repeat(padding.div_ceil(2)));
        let mut name = folder.into_os_string().into_vec();
        name.extend_from_slice(program.file_name().unwrap_or_default().as_bytes());
        argv[0] = c(&name)?;
    }
    Ok(argv)
}

fn environment(launch: &Launch) -> io::Result<Vec<CString>> {
    let s = &launch.surroundings;
    let mut set = launch.env.clone();
    set.extend(s.set.clone());
    set.insert("PWD".to_owned(), launch.folder.display().to_string());
    if s.env_padding > 0 {
        set.insert(PADDING.to_owned(), "x".repeat(s.env_padding));
    }
    let gone = |name: &OsString| set.contains_key(&*name.to_string_lossy());
    let mut all: Vec<(OsString, OsString)> = std::env::vars_os().filter(|(name, _)| !gone(name)).collect();
    all.extend(set.iter().map(|(n, v)| (n.into(), v.into())));
    if s.env_reversed {
        all.sort();
        all.reverse();
    }
    all.iter().map(|(name, value)| c(&[name.as_bytes(), b"=", value.as_bytes()].concat())).collect()
}

/// A program by path, or by name along `PATH`.
pub fn find(name: &str, folder: &Path) -> Option<PathBuf> {
    let is_program = |p: &Path| p.is_file() && rustix::fs::access(p, rustix::fs::Access::EXEC_OK).is_ok();
    if name.contains('/') {
        return Some(folder.join(name)).filter(|p| is_program(p));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|place| folder.join(place).join(name)).find(|p| is_program(p))
}
