//! `samebits audit` and cases of commands from the command line, on small Python programs that depend on one thing only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A project of one Python program, and a folder for the files of samebits outside it.
struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(program: &str) -> Self {
        let python = Command::new("python3").arg("--version").output();
        assert!(python.is_ok_and(|o| o.status.success()), "python3 along PATH is needed by these tests");
        let project = Project { folder: tempfile::tempdir().unwrap() };
        project.write("project/run.py", &format!("import os, sys\nos.makedirs('out', exist_ok=True)\n{program}\n"));
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_samebits"));
        command.args(arguments.split_whitespace()).current_dir(self.path("project"));
        command.env("SAMEBITS_DIR", self.path("files")).stdin(Stdio::null());
        for name in ["PYTHONHASHSEED", "OMP_NUM_THREADS", "RAYON_NUM_THREADS", "SAMEBITS_SEED", "MODE", "OTHER"] {
            command.env_remove(name);
        }
        command
    }

    fn samebits(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// An audit of the program as JSON, and its exit code.
    fn audit(&self, options: &str) -> (Value, i32) {
        let output = self.samebits(&format!("audit --json {options} -- python3 run.py"));
        let report = serde_json::from_str(&out(&output));
        (report.unwrap_or_else(|e| panic!("{e}: {} {}", out(&output), err(&output))), code(&output))
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Names and ways of the confirmed causes: `MODE switches`.
fn causes(report: &Value) -> Vec<String> {
    let confirmed = |c: &&Value| c["alone"] == true && c["without"] == true;
    let name = |c: &Value| c["variable"].as_str().or(c["factor"].as_str()).unwrap_or("?").to_owned();
    let list = report["causes"].as_array().unwrap();
    list.iter().filter(confirmed).map(|c| format!("{} {}", name(c), c["how"].as_str().unwrap())).collect()
}

/// All files below a folder; links are not followed.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap());
    let inside = |e: fs::DirEntry| if e.file_type().unwrap().is_dir() { files(&e.path()) } else { vec![e.path()] };
    entries.flat_map(inside).filter(|p| p.symlink_metadata().unwrap().is_file()).collect()
}

/// Waits until something is there; how long is up to the machine.
fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} never came");
}

const WRITES: &str = "open('out/a.bin', 'wb').write(bytes(range(32)))";
const MODES: &str = "print(os.environ.get('MODE') == 'b' or os.environ.get('OTHER') == '1')";

/// Would fail if a program that always leaves the same bits were not `same`, or the bound were not that of its runs.
#[test]
fn a_clean_program_is_one_class_with_a_bound() {
    let project = Project::new(WRITES);
    let output = project.samebits("audit -n 6 --output out/*.bin --vary env-size --vary time-zone -- python3 run.py");
    assert_eq!(code(&output), 0, "{}{}", out(&output), err(&output));
    for part in ["same: 6 runs, one outcome", "1 tensor of the declared outputs (32 bytes)", "fewer than 39 % of runs"]
    {
        assert!(out(&output).contains(part), "{part}: {}", out(&output));
    }
}

/// Would fail if `--json` were no JSON of its schema, or counted otherwise.
#[test]
fn json_has_its_schema() {
    let project = Project::new(WRITES);
    let (report, code) = project.audit("-n 4 --vary none --output out/a.bin");
    assert_eq!((code, &report["schema"], &report["runs"]), (0, &"samebits-audit/1".into(), &4.into()));
    let bound = report["ruled_out"].as_f64().unwrap();
    assert!((bound - 0.527).abs() < 0.001, "1 - 0.05^(1/4), not {bound}");
}

/// Would fail if a variable that decides the outcome were not named, or only by agreement and not by runs of its own.
#[test]
fn a_variable_is_confirmed_both_ways() {
    let project = Project::new(MODES);
    let (report, code) = project.audit("-n 12 --vary env-size --vary time-zone --env MODE=a,b");
    assert_eq!((code, causes(&report)), (1, vec!["MODE switches".to_owned()]), "{report}");
    assert_eq!(report["causes"][0]["setting"], "MODE=b");
    assert_eq!(report["classes"].as_array().unwrap().len(), 2);
}

/// Would fail if two causes that do the same hid each other, as thread counts and allowed processors do.
#[test]
fn two_causes_with_one_effect_are_both_confirmed() {
    let project = Project::new(MODES);
    let (report, code) = project.audit("-n 32 --vary env-size --env MODE=b --env OTHER=1");
    let mut found = causes(&report);
    found.sort();
    assert_eq!((code, found), (1, vec!["MODE switches".to_owned(), "OTHER switches".to_owned()]), "{report}");
    let (first, second) = (&report["causes"][0], &report["causes"][1]);
    assert_eq!((&first["same_as"], &second["same_as"]), (&Value::Null, &first["variable"]), "{report}");
    assert!(report["next"].as_str().unwrap().contains("OTHER and MODE"), "{report}");
    let text = out(&project.samebits("audit -n 32 --vary env-size --env MODE=b --env OTHER=1 -- python3 run.py"));
    let line = "MODE=b alone gives the same other outcome: what they do is one thing (confirmed both ways)";
    assert!(text.matches("  cause ").count() == 1 && text.contains(line), "{text}");
}

/// Would fail if what so few runs cannot tell from chance were denied: two causes that hide each other are possible ones.
#[test]
fn a_few_runs_acquit_nothing() {
    let project = Project::new(MODES);
    let options = "-n 6 --vary env-size --env MODE=b --env OTHER=1";
    let (report, code) = project.audit(options);
    assert_eq!((code, causes(&report)), (1, Vec::new()), "{report}");
    for name in ["env.MODE", "env.OTHER"] {
        assert!(report["possible"].as_array().unwrap().contains(&name.into()), "{report}");
    }
    let text = out(&project.samebits(&format!("audit {options} -- python3 run.py")));
    assert!(text.contains("may be chance") && !text.contains("inside the program"), "{text}");
}

/// Would fail if a dependence on the order of a hash table were not traced to the hash seed.
#[test]
fn the_hash_seed_is_named() {
    let project = Project::new("print(list({'alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta', 'eta', 'theta'}))");
    let (report, code) = project.audit("-n 10 --vary hash-seed --vary env-size");
    assert_eq!((code, causes(&report)), (1, vec!["PYTHONHASHSEED pins".to_owned()]), "{report}");
}

/// Would fail if of all the variables of `threads` not the one that matters were named.
#[test]
fn one_of_the_thread_variables_is_named() {
    let project = Project::new("print(os.environ.get('OMP_NUM_THREADS'))");
    let (report, code) = project.audit("-n 8 --vary threads");
    assert_eq!((code, causes(&report)), (1, vec!["OMP_NUM_THREADS switches".to_owned()]), "{report}");
    assert_eq!(report["causes"][0]["factor"], "threads");
}

/// Would fail if a crash counted as an outcome like any other, or what the program said of it were lost.
#[test]
fn a_crash_is_unverified_and_keeps_its_words() {
    let program = "if os.environ.get('MODE') == 'b':\n    sys.exit('the widget broke')\nprint(1)";
    let project = Project::new(program);
    let output = project.samebits("audit -n 6 --vary none --env MODE=b -- python3 run.py");
    assert_eq!(code(&output), 2, "{}", out(&output));
    for part in ["unverified (engine-failed)", "failed: exit code 1", "| the widget broke", "MODE"] {
        assert!(out(&output).contains(part), "{part}: {}", out(&output));
    }
}

fn is_gone(id: &str) -> bool {
    // A zombie is gone; whoever inherited it may not have taken notice yet.
    fs::read_to_string(format!("/proc/{id}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

/// Would fail if a run outlived its limit, or what it started outlived the run.
#[test]
fn a_hang_is_ended_with_all_it_started() {
    let start = "import subprocess, time\nchild = subprocess.Popen(['sleep', '1000'])\n\
                 open(os.environ['PLACE'] + f'/pid-{child.pid}', 'w')\n";
    for (then, limit, reason) in [("time.sleep(1000)", "1", Some("timed-out")), ("print(1)", "600", None)] {
        let project = Project::new(&format!("{start}{then}"));
        fs::create_dir(project.path("pids")).unwrap();
        let arguments = format!("audit --json -n 2 --vary none --timeout {limit} -- python3 run.py");
        let output = project.command(&arguments).env("PLACE", project.path("pids")).output().unwrap();
        let report: Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!(report.get("reason").and_then(Value::as_str), reason, "{report}");
        assert_eq!(code(&output), if reason.is_some() { 2 } else { 0 });
        let pids: Vec<PathBuf> = files(&project.path("pids"));
        assert_eq!(pids.len(), 2);
        for pid in pids {
            let name = pid.file_name().unwrap().to_string_lossy().into_owned();
            wait_for("the end of what a run started", || is_gone(&name["pid-".len()..]));
        }
    }
}

/// Would fail if an output of an earlier run, lying in the project, passed for one of this run, or were overwritten.
#[test]
fn old_outputs_are_never_taken_for_new() {
    let project = Project::new("print('nothing written')");
    project.write("project/out/a.bin", "old");
    let (report, code) = project.audit("-n 3 --vary none --output out/a.bin");
    assert_eq!((code, &report["reason"]), (2, &"no-evidence".into()), "{report}");
    assert!(report.to_string().contains("was not written"), "{report}");
    let project = Project::new(WRITES);
    project.write("project/out/a.bin", "old");
    let (_, code) = project.audit("-n 3 --vary none --output out/*.bin");
    assert_eq!((code, fs::read_to_string(project.path("project/out/a.bin")).unwrap().as_str()), (0, "old"));
}

/// Would fail if an output could be looked for outside a run's folder, or a mistake were no usage error.
#[test]
fn what_cannot_be_audited_is_refused() {
    let project = Project::new(WRITES);
    for (options, word) in [
        ("--output ../a.bin -- python3 run.py", "below the working directory"),
        ("--output out/../../a.bin -- python3 run.py", "below the working directory"),
        ("--output /tmp/a.bin -- python3 run.py", "all runs would write the same file"),
        ("--vary env-sice -- python3 run.py", "env-size"),
        ("--env MODE -- python3 run.py", "MODE"),
        ("-n 1 -- python3 run.py", "2.."),
        ("-- no-such-program-here", "no such program"),
        ("", "what is to be audited"),
    ] {
        let output = project.samebits(&format!("audit {options}"));
        assert_eq!(code(&output), 64, "{options}: {}", err(&output));
        assert!(err(&output).contains(word), "{options}: {}", err(&output));
    }
    assert!(!project.path("files").exists(), "a refused audit left files");
}

/// Would fail if a secret of the environment or the arguments were written anywhere, also when the program prints it.
#[test]
fn secrets_are_in_no_file() {
    let program = "print(os.environ['MY_API_TOKEN'], sys.argv)\nprint('argument:', sys.argv[2])\n\
                   sys.exit(f\"{os.environ['MY_API_TOKEN']} {sys.argv[2]}\" if os.environ.get('MODE') else 0)";
    let project = Project::new(program);
    let mut command = project.command("audit --keep -n 6 --vary none --env MODE=1 -- python3 run.py");
    command.args(["--password", "argument-4711", "--api-key=argument-4712"]).env("MY_API_TOKEN", "variable-4713");
    let output = command.output().unwrap();
    assert!(out(&output).contains("<masked>"), "{}", out(&output));
    let mut written: Vec<(PathBuf, Vec<u8>)> =
        files(&project.path("files")).into_iter().map(|p| (p.clone(), fs::read(p).unwrap())).collect();
    assert!(written.iter().any(|(p, bytes)| p.ends_with("stdout") && !bytes.is_empty()));
    written.extend([("stdout".into(), output.stdout), ("stderr".into(), output.stderr)]);
    for (path, bytes) in written {
        for secret in ["argument-4711", "argument-4712", "variable-4713"] {
            let found = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
            assert!(!found, "{secret} in {}: {}", path.display(), String::from_utf8_lossy(&bytes));
        }
    }
}

fn start(project: &Project, arguments: &str) -> Child {
    project.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn end(mut child: Child, signal: Signal) -> Option<i32> {
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait().unwrap().code()
}

/// A report without what may differ between two equal audits.
fn steady(folder: &Path) -> Value {
    let mut report: Value = serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap();
    assert!(report.as_object_mut().unwrap().remove("volatile").is_some());
    report
}

/// Would fail if an audit that was ended on the way lost what was done, or concluded something else when continued.
#[test]
fn an_interrupted_audit_goes_on_to_an_equal_report() {
    let project = Project::new(&format!("import time\ntime.sleep(0.1)\n{MODES}"));
    let options = "--jobs 1 -n 6 --vary none --env MODE=a,b";
    let folder = |name: &str| project.path(name).display().to_string();
    let audit = |name: &str, more: &str| format!("audit {options} --dir {} {more} -- python3 run.py", folder(name));
    let whole = project.samebits(&audit("whole", ""));
    assert_eq!(code(&whole), 1, "{}", err(&whole));
    for (name, signal, expected) in [("int", Signal::INT, Some(2)), ("kill", Signal::KILL, None)] {
        let child = start(&project, &audit(name, ""));
        wait_for("the first run", || project.path(name).join("runs/00000/outcome.json").exists());
        assert_eq!(end(child, signal), expected);
        assert!(!project.path(name).join("report.json").exists(), "{name}: it was over before it was ended");
        let first = fs::read(project.path(name).join("runs/00000/outcome.json")).unwrap();
        let rest = project.samebits(&audit(name, "--continue"));
        assert_eq!(code(&rest), 1, "{}", err(&rest));
        assert_eq!(first, fs::read(project.path(name).join("runs/00000/outcome.json")).unwrap(), "made again");
        assert_eq!(steady(&project.path("whole")), steady(&project.path(name)), "{name}");
    }
    let other = format!("audit --jobs 1 -n 7 --vary none --dir {} --continue -- python3 run.py", folder("int"));
    let output = project.samebits(&other);
    assert!(code(&output) == 64 && err(&output).contains("other options"), "{}", err(&output));
}

/// Would fail if two audits could write into one folder.
#[test]
fn one_audit_at_a_time_has_a_folder() {
    let project = Project::new("import time\ntime.sleep(600)");
    let arguments =
        |more: &str| format!("audit -n 2 --vary none --dir {} {more} -- python3 run.py", project.path("d").display());
    let child = start(&project, &arguments(""));
    wait_for("the first audit", || project.path("d/audit.json").exists());
    let (anew, beside) = (project.samebits(&arguments("")), project.samebits(&arguments("--continue")));
    end(child, Signal::INT);
    assert!(code(&anew) == 64 && err(&anew).contains("an audit is here already"), "{}", err(&anew));
    assert!(code(&beside) == 64 && err(&beside).contains("another audit is at work"), "{}", err(&beside));
}

const CASE: &str = r#"
about = "a program of numbers"
[engine]
command = ["python3", "run.py", "{knob.mode}", "{seed}"]
outputs = ["out/a.bin"]
seed = 1
[knobs.mode]
values = ["plain", "other"]
must_not_matter = true
[arms]
processes = 1
vary = ["time-zone"]
other_seed = 2
"#;

fn case_project(program: &str) -> Project {
    let project = Project::new(&format!("seed, mode = int(sys.argv[2]), sys.argv[1]\n{program}"));
    project.write("project/cases/a/numbers.toml", CASE);
    project
}

/// Would fail if a case of a command could not be shown, run, accepted, verified and audited.
#[test]
fn a_case_of_a_command_from_pending_to_green() {
    let project = case_project("open('out/a.bin', 'wb').write(bytes([seed] * 8))");
    let shown = project.samebits("show a/numbers");
    assert!(out(&shown).contains("knob-mode-other") && out(&shown).contains("other-seed"), "{}", out(&shown));
    let run = project.samebits("run a/numbers");
    assert!(code(&run) == 0 && out(&run).contains("out/a.bin"), "{}{}", out(&run), err(&run));
    let pending = project.samebits("test");
    assert!(code(&pending) == 2 && out(&pending).contains("no-golden"), "{}", out(&pending));
    let accepted = project.samebits("accept a/numbers --reason first");
    assert_eq!(code(&accepted), 0, "{}{}", out(&accepted), err(&accepted));
    let green = project.samebits("test");
    assert!(code(&green) == 0 && out(&green).contains("1 same"), "{}", out(&green));
    let audit = project.samebits("audit a/numbers -n 3 --vary none");
    assert!(code(&audit) == 0 && out(&audit).contains("knob.mode"), "{}{}", out(&audit), err(&audit));
    project.write("project/run.py", "import os\nos.makedirs('out')\nopen('out/a.bin', 'wb').write(bytes(9))\n");
    let red = project.samebits("test");
    assert!(code(&red) == 1 && out(&red).contains("out/a.bin"), "{}", out(&red));
}

/// Would fail if a knob that must not matter could, or a seed that changes nothing passed.
#[test]
fn knobs_and_seeds_keep_their_promise() {
    let knob = case_project("open('out/a.bin', 'wb').write(bytes([seed + (mode == 'other')] * 8))");
    let output = knob.samebits("test");
    assert!(code(&output) == 1 && out(&output).contains("arm knob-mode-other: different"), "{}", out(&output));
    let seed = case_project("open('out/a.bin', 'wb').write(bytes(8))");
    let output = seed.samebits("test");
    let told = out(&output).contains("arm other-seed: different") && out(&output).contains("seeds are equal");
    assert!(code(&output) == 1 && told, "{}", out(&output));
    let (report, code) = {
        let output = knob.samebits("audit a/numbers --json -n 8 --vary none");
        (serde_json::from_str::<Value>(&out(&output)).unwrap(), output.status.code())
    };
    assert_eq!((code, causes(&report)), (Some(1), vec!["knob.mode switches".to_owned()]), "{report}");
}

/// Would fail if a job could not gate against the bits that an earlier one saved, or a save that is missing passed.
#[test]
fn a_saved_run_is_what_a_later_one_is_held_to() {
    let project = case_project("open('out/a.bin', 'wb').write(bytes([seed] * 8))");
    let base = project.path("base").display().to_string();
    let missing = project.samebits(&format!("test --against {base}"));
    assert!(code(&missing) != 0 && !out(&missing).contains("1 same"), "{}", out(&missing));
    project.samebits(&format!("test --save {base}"));
    let same = project.samebits(&format!("test --against {base}"));
    assert!(code(&same) == 0 && out(&same).contains("1 same"), "{}{}", out(&same), err(&same));
    let program =
        "import os, sys\nos.makedirs('out')\nopen('out/a.bin', 'wb').write(bytes([int(sys.argv[2]) + 4] * 8))\n";
    project.write("project/run.py", program);
    let changed = project.samebits(&format!("test --against {base}"));
    assert!(code(&changed) == 1 && out(&changed).contains("8 of 8"), "{}", out(&changed));
}

/// Would fail if bits that an earlier run gave could be accepted, bits that the arms do not agree on became a golden, or
/// a golden of another size were told as absent.
#[test]
fn pending_goldens_are_what_the_case_gives_now() {
    let project = Project::new("open('out/w.txt', 'w').write(open('state').read())");
    let engine = "[engine]\ncommand = [\"python3\", \"run.py\"]\noutputs = [\"out/w.txt\"]\n";
    project.write("project/cases/a/text.toml", &format!("about = \"text\"\n{engine}[arms]\nprocesses = 1\n"));
    project.write("project/state", "1.0");
    assert_eq!(code(&project.samebits("test")), 2);
    assert_eq!(code(&project.samebits("accept --reason first")), 0);
    project.write("project/state", "1.25");
    let red = project.samebits("test");
    assert!(code(&red) == 1 && !out(&red).contains("absent") && out(&red).contains("u8[4]"), "{}", out(&red));
    project.write("project/state", "1.0");
    assert_eq!(code(&project.samebits("test")), 0);
    assert_eq!(code(&project.samebits("accept --reason stale")), 3, "a pending golden outlived a green test");
    project.write(
        "project/run.py",
        "import os, time\nos.makedirs('out', exist_ok=True)\nopen('out/w.txt', 'w').write(str(time.time_ns()))\n",
    );
    let unsteady = project.samebits("test");
    assert_eq!(code(&unsteady), 1, "{}", out(&unsteady));
    assert_eq!(code(&project.samebits("accept --reason unsteady")), 3, "bits that no two arms share became a golden");
}

/// Would fail if a refusal of `init`, of a command without `--` or of a variable set twice did not say what to do.
#[test]
fn commands_in_the_wrong_place_are_explained() {
    let project = Project::new("pass");
    for (arguments, words) in [
        ("audit -n 2 python3 run.py", "put `--` before the command"),
        ("audit -n 2 python3", "put `--` before the command"),
        ("audit -n 2 --env PYTHONHASHSEED=5 -- python3 run.py", "sets it already"),
        ("init -- python3 nosuch.py", "no such file here"),
    ] {
        let output = project.samebits(arguments);
        assert!(code(&output) == 64 && err(&output).contains(words), "{arguments}: {}", err(&output));
    }
    assert_eq!(code(&project.samebits("init --output out/w.txt -- python3 run.py")), 0);
    let again = project.samebits("init -- python3 run.py");
    assert!(code(&again) == 64 && err(&again).contains("--name"), "{}", err(&again));
    assert_eq!(code(&project.samebits("init --name other -- python3 run.py")), 0);
}

/// Would fail if an audit could end `same` without having compared what the program left.
#[test]
fn what_is_not_compared_is_not_same() {
    let project = Project::new("pass");
    for (program, output, words) in [
        ("pass", "", "standard output is empty"),
        ("open('out/x', 'w')", "--output out/x", "nothing to compare"),
        ("open('/dev/null'); os.mkfifo('out/x')", "--output out/*", "neither a file nor a folder"),
        ("os.symlink('/etc/hostname', 'out/x')", "--output out/*", "not among the declared outputs"),
        ("os.symlink('nowhere', 'out/x')", "--output out", "leads nowhere"),
    ] {
        project.write("project/run.py", &format!("import os\nos.makedirs('out', exist_ok=True)\n{program}\n"));
        let output = project.samebits(&format!("audit -n 2 --vary none {output} -- python3 run.py"));
        assert!(code(&output) == 2 && out(&output).contains(words), "{program}: {}{}", out(&output), err(&output));
    }
    let linked = "open('out/a', 'w').write('1')\nos.symlink('a', 'out/latest')";
    project.write("project/run.py", &format!("import os\nos.makedirs('out', exist_ok=True)\n{linked}\n"));
    let output = project.samebits("audit -n 2 --vary none --output out/* -- python3 run.py");
    assert_eq!(code(&output), 0, "{}", out(&output));
}

/// Would fail if a run could write over the project's own outputs where their folder is a link.
#[test]
fn linked_folders_of_outputs_stay_untouched() {
    let project = Project::new("open('out/w.txt', 'w').write('run')");
    project.write("real/w.txt", "precious");
    std::os::unix::fs::symlink(project.path("real"), project.path("project/out")).unwrap();
    let output = project.samebits("audit -n 2 --vary none --output out/*.txt -- python3 run.py");
    assert_eq!(code(&output), 0, "{}{}", out(&output), err(&output));
    assert_eq!(fs::read_to_string(project.path("real/w.txt")).unwrap(), "precious");
}

/// Would fail if an altered plan, a script that changed meanwhile or a damaged outcome could pass for the audit begun.
#[test]
fn an_audit_goes_on_only_as_it_began() {
    let project = Project::new("print(1)");
    let folder = project.path("a").display().to_string();
    let again =
        |more: &str| project.samebits(&format!("audit -n 4 --vary none --dir {folder} {more} -- python3 run.py"));
    assert_eq!(code(&again("")), 0);
    let outcome = project.path("a/runs/00002/outcome.json");
    fs::write(&outcome, &fs::read(&outcome).unwrap()[..50]).unwrap();
    let repaired = again("--continue");
    assert!(code(&repaired) == 0 && project.path("a/damaged/00002.json").exists(), "{}", err(&repaired));
    let plan = fs::read_to_string(project.path("a/audit.json")).unwrap();
    fs::write(project.path("a/audit.json"), plan.replace("\"runs\": 4", "\"runs\": 1")).unwrap();
    let altered = again("--continue");
    assert!(code(&altered) == 64 && err(&altered).contains("altered"), "{}{}", out(&altered), err(&altered));
    fs::write(project.path("a/audit.json"), plan).unwrap();
    project.write("project/run.py", "print(2)\n");
    assert_eq!(code(&again("--continue")), 64, "runs of two programs became one audit");
}

/// Would fail if a case's scope were not that of its audit, masked output differed from itself, a knob's value named a
/// folder, or a secret could be written into a case.
#[test]
fn cases_of_commands_keep_to_their_bounds() {
    let project = Project::new("open('out/w', 'w').write('1')\nopen('out/t', 'w').write(str(os.getpid()))");
    let engine = "about = \"x\"\n[engine]\ncommand = [\"python3\", \"run.py\"]\n";
    let case = |name: &str, text: &str| project.write(&format!("project/cases/a/{name}.toml"), text);
    case("scope", &format!("{engine}outputs = [\"out/*\"]\n[arms]\nprocesses = 1\n[compare]\ntensors = [\"out/w\"]\n"));
    let audit = project.samebits("audit a/scope -n 3 --vary none");
    assert_eq!(code(&audit), 0, "{}{}", out(&audit), err(&audit));
    let home = "about = \"x\"\n[engine]\ncommand = [\"python3\", \"-c\", \"import os; print(os.environ['HOME'])\"]\n[arms]\nprocesses = 1\n";
    case("home", home);
    let saved = project.path("saved").display().to_string();
    project.samebits(&format!("test a/home --save {saved}"));
    let same = project.samebits(&format!("test a/home --against {saved}"));
    assert_eq!(code(&same), 0, "{}", out(&same));
    let climbs =
        "outputs = [\"out/w\"]\n[knobs.m]\nvalues = [\"a\", \"/../../../../climbed\"]\nmust_not_matter = true\n";
    case("climb", &format!("{}{climbs}", engine.replace("\"run.py\"", "\"run.py\", \"{knob.m}\"")));
    project.samebits("test a/climb");
    assert!(!project.path("climbed").exists() && !project.path("../climbed").exists());
    let secret = project.samebits("init -- python3 run.py --api-key hunter2hunter2");
    assert!(code(&secret) == 64 && err(&secret).contains("environment"), "{}", err(&secret));
    assert!(!project.path("project/cases/first").exists());
}

/// Would fail if a process that left its group outlived its run, half a secret stayed where standard error was cut, a
/// difference in nothing but the run's path were blamed on the program, or a secret could be given as a factor.
#[test]
fn what_a_run_leaves_behind_is_ended_and_masked() {
    let project = Project::new("");
    let daemon = "import subprocess, sys\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\nprint(1)\n";
    project.write("project/run.py", daemon);
    let output = project.samebits("audit -n 2 --vary none --timeout 20 -- python3 run.py");
    assert_eq!(code(&output), 0, "{}{}", out(&output), err(&output));
    let mark = format!("SAMEBITS_RUN_DIR={}", project.path("files").display());
    let alive = fs::read_dir("/proc").unwrap().flatten().filter(|e| {
        fs::read(e.path().join("environ")).is_ok_and(|v| v.split(|b| *b == 0).any(|v| v.starts_with(mark.as_bytes())))
    });
    assert_eq!(alive.count(), 0, "a daemon outlived its run");
    let loud = "import os, sys\nsys.stderr.write((os.environ['MY_API_KEY'] + '|') * 20000)\nsys.exit(3)\n";
    project.write("project/run.py", loud);
    let mut command = project.command("audit -n 2 --vary none --dir loud -- python3 run.py");
    assert_eq!(command.env("MY_API_KEY", "hunter2hunter2").output().unwrap().status.code(), Some(2));
    for file in files(&project.path("project/loud")) {
        let text = fs::read(&file).unwrap();
        assert!(!text.windows(7).any(|w| w == b"hunter2"), "{}", file.display());
    }
    project.write("project/run.py", "import os\nprint('in', os.getcwd())\n");
    let path = project.samebits("audit -n 3 --vary none -- python3 run.py");
    assert!(code(&path) == 1 && out(&path).contains("only in the path of the run's own folder"), "{}", out(&path));
    let mut secret = project.command("audit -n 2 --env MODE=hunter2hunter2 -- python3 run.py");
    assert_eq!(secret.env("MY_API_KEY", "hunter2hunter2").output().unwrap().status.code(), Some(64));
}

/// A counter beside the runs, and an output that depends on it or not.
fn counting(output: &str) -> Project {
    let count = "n = int(open('cache/state.json').read())\nopen('cache/state.json', 'w').write(str(n + 1))\n";
    let project = Project::new(&format!("{count}open('out/a.bin', 'wb').write(bytes([{output}] * 8))"));
    project.write("project/cache/state.json", "0");
    project
}

/// Would fail if a program that writes through a link, or where the project lies, were not told, the runs were not named,
/// or equal outcomes were no longer same for it.
#[test]
fn writes_into_the_project_are_told() {
    let project = counting("7");
    let (report, code) = project.audit("--jobs 1 -n 3 --vary none --output out/a.bin");
    let shared = &report["volatile"]["shared"];
    assert_eq!((code, shared.as_array().unwrap().len()), (0, 1), "{report}");
    assert_eq!(shared[0], serde_json::json!({ "path": "cache/state.json", "how": "written", "runs": ["0", "1", "2"] }));
    let text = out(&project.samebits("audit --jobs 1 -n 3 --vary none --output out/a.bin -- python3 run.py"));
    let line = "cache/state.json was written in the project during runs 0, 1, 2: runs can see each other through it";
    assert!(text.starts_with("same: 3 runs, one outcome") && text.contains(line), "{text}");
    let real = "place = os.path.dirname(os.path.realpath(__file__))\nopen(place + '/beside.txt', 'w')\nprint(1)";
    let text = out(&Project::new(real).samebits("audit -n 2 --vary none -- python3 run.py"));
    assert!(text.contains("beside.txt was created in the project"), "{text}");
    let real = real.replace("print(1)", "print(os.getpid())");
    let text = out(&Project::new(&real).samebits("audit -n 2 --vary none -- python3 run.py"));
    assert!(text.contains("next      beside.txt is written where the project lies"), "{text}");
}

/// Would fail if what Python keeps of its sources, samebits' own files, or an output of the run were taken for writes
/// into the project.
#[test]
fn runs_that_write_nothing_there_share_nothing() {
    let project = Project::new("import lib.part\nopen('new.txt', 'w')\nopen('out/a.bin', 'wb').write(b'1')");
    project.write("project/lib/part.py", "X = 1\n");
    project.write("project/out/a.bin", "old");
    let mut command = project.command("audit --json -n 3 --vary none --output out/a.bin --dir own -- python3 run.py");
    command.env("SAMEBITS_DIR", "files").env_remove("PYTHONDONTWRITEBYTECODE");
    let own = fs::File::create(project.path("project/report.json")).unwrap();
    assert_eq!(command.stdout(own).status().unwrap().code(), Some(0));
    let report: Value =
        serde_json::from_str(&fs::read_to_string(project.path("project/report.json")).unwrap()).unwrap();
    assert!(project.path("project/lib/__pycache__").is_dir(), "no bytecode was written, so nothing was shown");
    assert_eq!(report["volatile"]["shared"], serde_json::json!([]), "{report}");
    let engine = "[engine]\ncommand = [\"python3\", \"run.py\"]\noutputs = [\"out/a.bin\"]\n[arms]\nprocesses = 2\n";
    ["one", "two"]
        .iter()
        .for_each(|n| project.write(&format!("project/cases/a/{n}.toml"), &format!("about = \"{n}\"\n{engine}")));
    let audit = project.samebits("audit a/one --json -n 3 --vary none --dir of-case");
    let report: Value = serde_json::from_str(&out(&audit)).unwrap();
    assert_eq!((code(&audit), &report["volatile"]["shared"]), (0, &serde_json::json!([])), "{report}");
    for options in ["--save saved --pending pending", "--against saved", ""] {
        let test = project.samebits(&format!("test {options}"));
        assert!(out(&test).contains("a/two") && !out(&test).contains("shared"), "{options}: {}", out(&test));
    }
}

/// Would fail if a split by a file that runs share had another first suspect, or a copy for each run did not end it.
#[test]
fn a_shared_file_is_the_suspect_and_a_copy_tells() {
    let project = counting("n");
    let command = "audit --jobs 1 -n 3 --vary none --output out/a.bin";
    let split = project.samebits(&format!("{command} -- python3 run.py"));
    assert_eq!(code(&split), 1, "{}", out(&split));
    for part in ["the first suspect is cache/state.json", "the same command with --copy 'cache/state.json'"] {
        assert!(out(&split).contains(part), "{part}: {}", out(&split));
    }
    let copied = project.samebits(&format!("{command} --copy cache/state.json -- python3 run.py"));
    assert!(code(&copied) == 0 && out(&copied).contains("copied    cache/state.json"), "{}", out(&copied));
    let unlooked = "not looked at: files that it wrote and that are no declared outputs: cache/state.json";
    assert!(out(&copied).contains(unlooked), "a copy that a run changed: {}", out(&copied));
    assert!(!out(&copied).contains("shared"), "{}", out(&copied));
    assert_eq!(fs::read_to_string(project.path("project/cache/state.json")).unwrap(), "3", "a copy was none");
    for (options, word) in [
        ("--copy nosuch", "not there in"),
        ("--copy ../x", "below the project"),
        ("--output cache --copy cache/state.json", "declared output"),
    ] {
        let output = project.samebits(&format!("audit -n 2 --vary none {options} -- python3 run.py"));
        assert!(code(&output) == 64 && err(&output).contains(word), "{options}: {}", err(&output));
    }
}

/// Would fail if a case said nothing of what its arms share, `copy` did not give each its own, or a folder or copy outside
/// the project were taken.
#[test]
fn arms_that_share_a_file_are_told() {
    let project = counting("n");
    let case = |more: &str, outputs: &str| {
        let engine = format!("[engine]\ncommand = [\"python3\", \"run.py\"]\noutputs = [{outputs}]\n{more}\n");
        let text = format!("about = \"counts\"\ngolden = false\n{engine}[arms]\nprocesses = 1\n");
        project.write("project/cases/a/count.toml", &text);
        project.samebits("test a/count")
    };
    let split = case("", "\"out/a.bin\"");
    assert_eq!(code(&split), 1, "{}{}", out(&split), err(&split));
    let run = project.samebits("run a/count --json");
    let value: Value = serde_json::from_str(&out(&run)).unwrap();
    assert_eq!(
        (&value["shared"][0]["path"], &value["not_looked_at"]),
        (&"cache/state.json".into(), &Value::Array(vec![]))
    );
    for part in
        ["cache/state.json was written in the project during arms base, process-1", "copy = [\"cache/state.json\"]"]
    {
        assert!(out(&split).contains(part), "{part}: {}", out(&split));
    }
    let copied = case("copy = [\"cache/state.json\"]", "\"out/a.bin\"");
    assert!(code(&copied) == 0 && !out(&copied).contains("shared"), "{}{}", out(&copied), err(&copied));
    for (more, outputs, word) in [
        ("folder = \"..\"", "\"out/a.bin\"", "folder \"..\": a folder of the project"),
        ("folder = \"/tmp\"", "\"out/a.bin\"", "a folder of the project"),
        ("copy = [\"nosuch\"]", "\"out/a.bin\"", "nosuch"),
        ("copy = [\"cache\"]", "\"cache\"", "declared output"),
    ] {
        let refused = case(more, outputs);
        assert!(code(&refused) == 64 && err(&refused).contains(word), "{more}: {}{}", out(&refused), err(&refused));
    }
}

/// Would fail if a pattern that hides an input left nothing but a missing file to go by.
#[test]
fn an_input_hidden_by_a_pattern_is_named() {
    let project = Project::new("print(open('set.csv').read())\nopen('w.csv', 'w').write('1')");
    project.write("project/set.csv", "1");
    let output = project.samebits("audit -n 2 --vary none --output *.csv -- python3 run.py");
    let words = "set.csv was hidden from the run as an old output, by the pattern \"*.csv\"";
    assert!(code(&output) == 2 && out(&output).contains(words), "{}", out(&output));
}

/// Would fail if a report said `same` and kept silent of what it had not compared, or spoke of it where there is nothing.
#[test]
fn what_was_not_looked_at_is_said() {
    let project = Project::new("");
    project.write("project/trace_writer.py", include_str!("../examples/trace_writer.py"));
    let traced = "from trace_writer import Trace\nt = Trace('x', lambda: {'w': ('u8', [1], b'1')})\n\
                  [t.record('step', s) for s in range(0, 20, 10)]\nt.record('fold', 20)\nt.close()\n";
    let writes = "open('out/a', 'w').write('1')\n";
    for (program, output, words) in [
        (format!("{writes}open('out/b', 'w')\nopen('c', 'w')\n"), "--output out/a", "no declared outputs: c, out/b"),
        (format!("{writes}print(1)\n"), "", "files that it wrote: out/a"),
        ("print(os.environ['HOME'])\n".to_owned(), "", "parts of standard output that were masked"),
        (traced.to_owned(), "", "18 of 20 steps: they have no record"),
        (writes.to_owned(), "--output out/a", ""),
        ("print(1)\n".to_owned(), "", ""),
    ] {
        project.write("project/run.py", &format!("import os\nos.makedirs('out', exist_ok=True)\n{program}"));
        let mut command = project.command(&format!("audit -n 2 --vary none {output} -- python3 run.py"));
        let output = command.env("HOME", "/somewhere/at/home").output().unwrap();
        let text = out(&output);
        let told: Vec<&str> = text.lines().filter(|l| l.contains("not looked at")).collect();
        assert!(code(&output) == 0 && told.len() == usize::from(!words.is_empty()), "{words}: {text}{}", err(&output));
        assert!(told.iter().all(|l| l.contains(words)), "{words}: {text}");
    }
    let engine = "[engine]\ncommand = [\"python3\", \"run.py\"]\noutputs = [\"out/a\"]\n[arms]\nprocesses = 1\n";
    project.write("project/cases/a/x.toml", &format!("about = \"x\"\ngolden = false\n{engine}"));
    project.write("project/run.py", &format!("import os\nos.makedirs('out')\n{writes}open('b', 'w')\n"));
    let test = out(&project.samebits("test a/x"));
    assert!(test.contains("not looked at: files that it wrote and that are no declared outputs: b"), "{test}");
}

/// Would fail if the diff that an audit ends with did not name the outputs, relative to this folder, or could not be run
/// as it stands.
#[test]
fn the_next_diff_is_of_the_outputs() {
    for (more, path) in [("", "w/out/a.bin"), ("open('out/b.bin', 'wb').write(os.urandom(4))", "w/out")] {
        let project = Project::new(&format!("open('out/a.bin', 'wb').write(os.urandom(8))\n{more}"));
        let audit = project.samebits("audit -n 3 --vary none --dir d --output out/*.bin -- python3 run.py");
        let text = out(&audit);
        let next =
            text.lines().find_map(|l| l.trim().strip_prefix("next      samebits ")).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(next, format!("diff d/runs/00000/{path} d/runs/00001/{path}"));
        let diff = project.samebits(next);
        assert!(code(&diff) == 1 && out(&diff).contains("8 of 8 differ"), "{}{}", out(&diff), err(&diff));
        assert!(!out(&diff).contains("symbolic link"), "{}", out(&diff));
    }
}

/// Would fail if an audit began without saying how many runs may follow, or promised some where nothing varies.
#[test]
fn runs_that_may_follow_are_foretold() {
    let project = Project::new("print(1)");
    let told = |vary: &str| err(&project.samebits(&format!("audit -n 2 --vary {vary} -- python3 run.py")));
    assert!(told("env-size").contains("up to 4 suspected causes are put to the test: each takes 6 to 80 runs"));
    assert!(!told("none").contains("put to the test"));
}
