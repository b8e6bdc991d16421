//! Factors: what is varied around a command, and the proof that varying it took effect.
//!
//! The table [`table`] is the one place to add a factor. A factor that cannot be varied here is `not applied` with its
//! reason; one that changes nothing a process could see is `no effect here`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::scenario::factor::NAMES;
use crate::trace::record::Level;

use super::command;
use super::load::Load;
use super::slots::cores;
use super::surroundings::{Launch, Observed, Surroundings};

/// Variables that set how many threads a library uses.
pub const THREADS: [&str; 7] = [
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
];

/// One setting of a factor. The first of a factor is always "as is".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// in words: `as is`, `OMP_NUM_THREADS=1`
    pub word: String,
    /// what of the surroundings changes
    pub surroundings: Surroundings,
    /// bytes added to the working directory's path
    pub folder_padding: usize,
    /// no other run at the same time
    pub alone: bool,
    /// busy threads beside the run
    pub load: usize,
    /// values of `{knob.NAME}` in the command
    pub knobs: Vec<(String, String)>,
    /// another seed
    pub seed: Option<u64>,
    /// another trace level
    pub level: Option<Level>,
    /// share of the runs under it, against 1 for others
    pub weight: usize,
}

/// Something that is varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// readable slug
    pub name: String,
    /// settings, "as is" first
    pub settings: Vec<Setting>,
    /// whether it is varied
    pub state: State,
}

/// Whether a factor is varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum State {
    /// seen from inside a process
    Varied,
    /// it cannot be varied here
    NotApplied {
        /// why
        reason: String,
    },
    /// it is as the factor would make it already
    NoEffect {
        /// what was seen
        reason: String,
    },
}

fn as_is() -> Setting {
    Setting { word: "as is".to_owned(), weight: 1, ..Setting::default() }
}

fn factor(name: &str, settings: Vec<Setting>) -> Factor {
    let settings = [vec![as_is()], settings].concat();
    Factor { name: name.to_owned(), settings, state: State::Varied }
}

fn setting(word: &str, surroundings: Surroundings) -> Setting {
    Setting { word: word.to_owned(), surroundings, weight: 1, ..Setting::default() }
}

fn set(pairs: &[(&str, &str)]) -> Setting {
    let words: Vec<String> = pairs.iter().map(|(n, v)| format!("{n}={v}")).collect();
    let set = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    setting(&words.join(" "), Surroundings { set, ..Surroundings::default() })
}

/// The built-in factors that are wanted, for this machine; `jobs` runs go on at a time.
pub fn table(jobs: usize, wanted: impl Fn(&str) -> bool) -> Vec<Factor> {
    let mut all: Vec<Factor> = NAMES.iter().filter(|(name, _)| wanted(name)).map(|(name, _)| built_in(name)).collect();
    for factor in &mut all {
        factor.state = match factor.name.as_str() {
            "overlap" if jobs < 2 => not_applied("one run goes on at a time anyway (--jobs)"),
            "locale" if factor.settings.len() < 2 => not_applied("no other locale is installed (`locale -a`)"),
            _ => State::Varied,
        };
    }
    all
}

fn not_applied(reason: &str) -> State {
    State::NotApplied { reason: reason.to_owned() }
}

fn built_in(name: &str) -> Factor {
    let s = Surroundings::default;
    let settings = match name {
        "env-size" => vec![setting("4096 bytes more", Surroundings { env_padding: 4096, ..s() })],
        "env-order" => vec![setting("descending", Surroundings { env_reversed: true, ..s() })],
        "folder-length" => vec![Setting { folder_padding: 64, ..setting("64 bytes longer", s()) }],
        "argv-length" => vec![setting("64 bytes longer", Surroundings { argv_padding: 64, ..s() })],
        "threads" => {
            let n = if std::env::var("OMP_NUM_THREADS").is_ok_and(|v| v == "1") { "2" } else { "1" };
            vec![set(&THREADS.map(|v| (v, n)))]
        }
        "cpus" => vec![setting("1", Surroundings { cpus: Some(1), ..s() })],
        "load" => {
            let load = cores();
            vec![Setting { load, ..setting(&format!("{load} busy threads"), s()) }]
        }
        "overlap" => vec![Setting { alone: true, ..setting("alone", s()) }],
        "start" => vec![setting("40 ms late", Surroundings { delay_ms: 40, ..s() })],
        "locale" => other_locale().map(|l| set(&[("LC_ALL", &l)])).into_iter().collect(),
        "time-zone" => vec![set(&[("TZ", "IST-5:30")])],
        "aslr" => vec![setting("off", Surroundings { aslr_off: true, ..s() })],
        _ => vec![set(&[("PYTHONHASHSEED", "0")]), set(&[("PYTHONHASHSEED", "1")])],
    };
    let mut factor = factor(name, settings);
    // Runs that hold others up are the smaller part.
    if ["load", "overlap"].contains(&name) {
        factor.settings[0].weight = 3;
    }
    factor
}

/// An installed locale other than the one in use, one with other digits and letters if there is one.
fn other_locale() -> Option<String> {
    let output = std::process::Command::new("locale").arg("-a").output().ok()?;
    let now = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|n| std::env::var(n).ok().filter(|v| !v.is_empty()));
    let now = now.unwrap_or_else(|| "C".to_owned());
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut all: Vec<&str> = text.lines().filter(|l| plain(l) != plain(&now)).collect();
    let is_plain = |l: &&str| ["C", "POSIX"].contains(l) || l.starts_with("C.");
    all.sort_by_key(|l| (is_plain(l), !l.starts_with("tr_"), !l.starts_with("de_"), (*l).to_owned()));
    all.first().map(|l| (*l).to_owned())
}

/// A variable of the environment as a factor: `NAME=V1,V2`.
pub fn variable(text: &str) -> Result<Factor, String> {
    let expected = "expected NAME=VALUE[,VALUE...], such as MODE=fast,exact";
    let (name, values) = text.split_once('=').ok_or_else(|| format!("--env {text:?}: {expected}"))?;
    if name.is_empty() || name.contains(char::is_whitespace) || values.contains('\0') {
        return Err(format!("--env {text:?}: {expected}"));
    }
    if crate::trace::privacy::is_secret(name) {
        return Err(format!("--env {name}: a name like that of a secret is neither set nor written down"));
    }
    let settings = values.split(',').map(|value| set(&[(name, value)])).collect();
    Ok(factor(&format!("env.{name}"), settings))
}

/// A knob of a case as a factor; `values` without the case's own.
pub fn knob(name: &str, values: &[String]) -> Factor {
    let setting = |v: &String| Setting {
        knobs: vec![(name.to_owned(), v.clone())],
        ..setting(&format!("{name}={v}"), Surroundings::default())
    };
    factor(&format!("knob.{name}"), values.iter().map(setting).collect())
}

/// The surroundings of several settings at once.
pub fn together<'a>(settings: impl Iterator<Item = &'a Setting>) -> Setting {
    let mut all = Setting::default();
    for s in settings {
        let (to, from) = (&mut all.surroundings, &s.surroundings);
        to.set.extend(from.set.clone());
        to.env_padding += from.env_padding;
        to.argv_padding += from.argv_padding;
        to.delay_ms += from.delay_ms;
        to.env_reversed |= from.env_reversed;
        to.aslr_off |= from.aslr_off;
        to.cpus = to.cpus.or(from.cpus);
        all.folder_padding += s.folder_padding;
        all.alone |= s.alone;
        all.load += s.load;
        all.knobs.extend(s.knobs.clone());
        all.seed = s.seed.or(all.seed);
        all.level = s.level.or(all.level);
    }
    all
}

/// Looks at each factor from inside a process, and says which cannot be varied here. `place` is an empty folder.
pub fn prove(factors: &mut [Factor], samebits: &std::path::Path, place: &std::path::Path) -> Result<(), String> {
    let look = |s: &Setting| -> Result<Observed, String> {
        let folder = padded(place, s.folder_padding);
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let launch = Launch { folder, surroundings: s.surroundings.clone(), ..Launch::default() };
        command::observe(samebits, &launch)
    };
    if factors.iter().all(|f| f.state != State::Varied) {
        return Ok(());
    }
    let plain = look(&as_is())?;
    for factor in factors.iter_mut().filter(|f| f.state == State::Varied) {
        for setting in &factor.settings[1..] {
            let state = match (look(setting), look(setting)) {
                (Ok(one), Ok(two)) => judge(&factor.name, setting, &plain, &one, &two),
                (Err(e), _) | (_, Err(e)) => not_applied(&e),
            };
            if state != State::Varied {
                factor.state = state;
                break;
            }
        }
    }
    Ok(())
}

/// A folder whose path is longer by so many bytes.
pub fn padded(folder: &std::path::Path, bytes: usize) -> PathBuf {
    if bytes == 0 { folder.join("w") } else { folder.join("w".repeat(1 + bytes)) }
}

fn judge(name: &str, setting: &Setting, plain: &Observed, one: &Observed, two: &Observed) -> State {
    let no_effect = |reason: &str| State::NoEffect { reason: reason.to_owned() };
    let s = &setting.surroundings;
    let value = |o: &Observed, name: &str| o.env.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    if let Some((variable, v)) = s.set.iter().find(|(n, v)| value(one, n).as_ref() != Some(*v)) {
        return not_applied(&format!("{variable} is not {v} in the process"));
    }
    if !s.set.is_empty() && s.set.iter().all(|(n, v)| value(plain, n).as_ref() == Some(v)) {
        return no_effect("the environment says so already");
    }
    let size = |o: &Observed| o.env.iter().fold(0, |sum, (n, v)| sum + n.len() + v.len());
    let descending = |o: &Observed| o.env.windows(2).all(|w| w[0].0 >= w[1].0);
    let seen = match name {
        "env-size" => size(one) >= size(plain) + s.env_padding,
        "env-order" => descending(one) && !descending(plain),
        "folder-length" => one.folder_bytes == plain.folder_bytes + setting.folder_padding,
        "argv-length" => one.argv_bytes >= plain.argv_bytes + s.argv_padding,
        "cpus" if plain.cpus == 1 => return no_effect("one processor is allowed anyway"),
        "cpus" => s.cpus == Some(one.cpus),
        "aslr" if plain.aslr_off => return no_effect("addresses are not randomised anyway"),
        "aslr" => one.aslr_off && one.stack == two.stack,
        "load" => Load::start(setting.load).stop().iter().all(|turns| *turns > 0),
        _ => true,
    };
    if seen { State::Varied } else { not_applied("it was set, and a process started under it did not see it") }
}
