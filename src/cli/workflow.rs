//! The workflow that `samebits init` writes: what a runner installs first, from the files that say so.
//!
//! Looked at, the first that is there: `uv.lock`, `environment.yml`, `requirements.txt`, `pyproject.toml` or `setup.py`. The
//! Python is the one that they, or `.python-version`, name: the lowest that is allowed. That the installed packages make
//! the program run is not verified here; the workflow's first run tells.

use std::io::ErrorKind;
use std::path::Path;

/// The Python of a workflow where no file names one.
const PYTHON: &str = "3.11";

/// How packages get onto the runner.
enum Install {
    /// `uv sync`, from a lock file
    Uv,
    /// `conda env create`, which brings its own Python
    Conda(&'static str),
    /// `pip install`, with these arguments
    Pip(&'static str),
    /// none
    Nothing,
}

/// The text of a file of the repository; None when there is none.
fn text(here: &Path, name: &str) -> Result<Option<String>, String> {
    match std::fs::read_to_string(here.join(name)) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == ErrorKind::InvalidData => Err(format!("{name}: not UTF-8; save it as UTF-8")),
        Err(e) => Err(format!("{name}: cannot be read: {e}")),
    }
}

fn table(here: &Path, name: &str) -> Result<Option<toml::Table>, String> {
    let parse = |text: String| text.parse().map_err(|e: toml::de::Error| format!("{name}: {}", e.message()));
    text(here, name)?.map(parse).transpose()
}

/// The workflow; `python` tells that the command is a Python program.
pub fn text_for(here: &Path, python: bool) -> Result<String, String> {
    let project = table(here, "pyproject.toml")?;
    let conda = ["environment.yml", "environment.yaml"].into_iter().find(|name| here.join(name).exists());
    // A pyproject.toml that holds nothing but settings of tools is no package.
    let poetry = project.as_ref().and_then(|p| p.get("tool")?.get("poetry")).is_some();
    let package =
        project.as_ref().is_some_and(|p| p.contains_key("project") || p.contains_key("build-system")) || poetry;
    let install = if here.join("uv.lock").is_file() {
        Install::Uv
    } else if let Some(name) = conda {
        Install::Conda(name)
    } else if here.join("requirements.txt").is_file() {
        Install::Pip("-r requirements.txt")
    } else if package || here.join("setup.py").is_file() {
        Install::Pip(".")
    } else {
        Install::Nothing
    };
    let version = version(here, project.as_ref())?;
    Ok(workflow(&steps(&install, &version, python)))
}

/// The lines that bring Python and its packages.
fn steps(install: &Install, version: &str, python: bool) -> String {
    let setup = format!("      - uses: actions/setup-python@v5\n        with: {{ python-version: \"{version}\" }}\n");
    match install {
        Install::Uv => format!(
            "{setup}      - run: pip install uv\n      - run: uv sync --locked\n\
             \x20     - run: echo \"$PWD/.venv/bin\" >> \"$GITHUB_PATH\"\n"
        ),
        Install::Conda(file) => format!(
            "      - run: '\"$CONDA/bin/conda\" env create --quiet --prefix \"$RUNNER_TEMP/python\" --file {file}'\n\
             \x20     - run: echo \"$RUNNER_TEMP/python/bin\" >> \"$GITHUB_PATH\"\n"
        ),
        Install::Pip(what) => format!("{setup}      - run: pip install {what}\n"),
        Install::Nothing if python => setup,
        Install::Nothing => String::new(),
    }
}

fn workflow(python: &str) -> String {
    format!(
        "# Fails when two runs of the same code differ, or differ from the accepted snapshot. Needs no GPU.\n\
         name: samebits\non: [push, pull_request]\njobs:\n  same-bits:\n    runs-on: ubuntu-latest\n    steps:\n\
         \x20     - uses: actions/checkout@v4\n{python}\
         \x20     - run: cargo install --locked --git {}\n\
         \x20     - run: samebits test --junit samebits.xml --pending pending | tee -a \"$GITHUB_STEP_SUMMARY\"\n\
         \x20       shell: bash # with pipefail, so that a red verdict fails the job\n\
         \x20     - uses: actions/upload-artifact@v4\n        if: failure()\n        with:\n          name: samebits\n\
         \x20         path: |\n            samebits.xml\n            pending\n",
        env!("CARGO_PKG_REPOSITORY")
    )
}

/// The Python that the repository's files name.
fn version(here: &Path, project: Option<&toml::Table>) -> Result<String, String> {
    let pinned = text(here, ".python-version")?.and_then(|text| first_version(text.lines().next()?));
    let required = |table: &toml::Table| -> Option<String> {
        let poetry = || table.get("tool")?.get("poetry")?.get("dependencies")?.get("python");
        let asked = table.get("project").and_then(|p| p.get("requires-python")).or_else(poetry)?;
        lowest(asked.as_str()?)
    };
    let locked = table(here, "uv.lock")?.and_then(|lock| lowest(lock.get("requires-python")?.as_str()?));
    let found = pinned.or_else(|| project.and_then(required)).or(locked);
    Ok(found.unwrap_or_else(|| PYTHON.to_owned()))
}

/// The lowest version that a range allows: `>=3.10,<3.13`, `^3.10`, `==3.11.*`.
fn lowest(range: &str) -> Option<String> {
    let bound =
        range.split([',', ' ']).find(|part| !part.trim_start().starts_with(['<', '!']) && part.contains('3'))?;
    first_version(bound)
}

/// `3.10` or `3.10.2` of a text that holds it.
fn first_version(text: &str) -> Option<String> {
    let start = text.find("3.")?;
    let digits: String = text[start..].chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let version = digits.trim_end_matches('.');
    (version.len() > 2 && version.len() <= 8).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a version were taken from an upper bound, or anything but a version reached the workflow.
    #[test]
    fn the_lowest_version_is_named() {
        for (range, version) in [
            (">=3.10", Some("3.10")),
            (">=3.10,<3.13", Some("3.10")),
            ("<3.13, >=3.10.2", Some("3.10.2")),
            ("^3.9", Some("3.9")),
            ("==3.11.*", Some("3.11")),
            ("~=3.12.1", Some("3.12.1")),
            ("!=3.9.0,>=3.8", Some("3.8")),
            ("<4", None),
            ("3.", None),
            ("\"; rm -rf", None),
        ] {
            assert_eq!(lowest(range).as_deref(), version, "{range}");
        }
        assert_eq!(first_version("cpython-3.12.4\""), Some("3.12.4".to_owned()));
    }
}
