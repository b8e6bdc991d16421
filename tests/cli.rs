//! The command line as a user meets it: exit codes, refusals, evidence that was tampered with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CASE: &str = "resume/tiny-prioritized";

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Runs `samebits` in the project, with its files in this place.
    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_samebits"));
        command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).env("SAMEBITS_DIR", self.path("files"));
        command.env_remove("SAMEBITS_SIMD").env_remove("RAYON_NUM_THREADS");
        command
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

/// Would fail if the public exit codes or the words of a refusal changed.
#[test]
fn refusals_are_usage_errors_with_suggestions() {
    let place = Place::new();
    for (arguments, word) in [
        (vec!["run", "resume/tiny-prioritised"], "tiny-prioritized"),
        (vec!["run", CASE, "--set", "training.gama=0.9"], "gamma"),
        (vec!["run", CASE, "--set", "training.lr=fast"], "invalid type"),
        (vec!["run", CASE, "--set", "training.alpha=0.7"], "square root"),
        (vec!["run", CASE, "--set", "nonsense"], "KEY=VALUE"),
        (vec!["run", CASE, "--level", "all"], "off, step, tensor, op"),
        (vec!["run", CASE, "--arm", "resume-midfold"], "resume-mid-fold"),
        (vec!["run", CASE, "--threads", "0"], "1..=1024"),
        (vec!["test", "--shard", "3/2"], "i/n"),
        (vec!["test", "--nonsense"], "unexpected argument"),
        (vec!["accept", "--reason", " "], "empty"),
    ] {
        let output = place.run(&arguments);
        assert_eq!(code(&output), 64, "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(word), "{arguments:?}: {}", err(&output));
    }
    assert_eq!(code(&place.run(&["test", "no-such-case"])), 3);
    assert_eq!(code(&place.run(&["test", "no-such-case", "--git-bisect"])), 125);
    assert_eq!(code(&place.run(&["test", "--shard", "0/2", "--git-bisect"])), 128);
    assert_eq!(code(&place.run(&["test", "--git-bisect", "--nonsense"])), 128);
}

/// Would fail if a forced path or thread count that cannot be had fell back silently.
#[test]
fn what_cannot_be_had_is_refused() {
    let place = Place::new();
    let output = place.command(&["run", CASE]).env("SAMEBITS_SIMD", "sse9").output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("sse9") && err(&output).contains("scalar"), "{}", err(&output));
    let output = place.command(&["run", CASE]).env("RAYON_NUM_THREADS", "many").output().unwrap();
    assert!(code(&output) == 2 && err(&output).contains("RAYON_NUM_THREADS"), "{}", err(&output));
    let missing = place.run(&["run", CASE, "--folds", "9"]);
    assert!(code(&missing) == 2 && err(&missing).contains("fold 9 of 2"), "{}", err(&missing));
}

/// Would fail if equal runs differed, or a flipped bit of an export were not named.
#[test]
fn an_exported_bit_is_named() {
    let place = Place::new();
    let (a, b) = (place.text("a"), place.text("b"));
    assert_eq!(code(&place.run(&["run", CASE, "--export", &a, "--threads", "1"])), 0);
    assert_eq!(code(&place.run(&["run", CASE, "--export", &b, "--threads", "3"])), 0);
    let same = place.run(&["diff", &a, &b]);
    assert_eq!(code(&same), 0, "{}", out(&same));
    let file = place.path("b/q.trunk2.weight.bin");
    let mut bytes = fs::read(&file).unwrap();
    bytes[4 * 77 + 2] ^= 0x10;
    fs::write(&file, bytes).unwrap();
    let output = place.run(&["diff", &a, &b]);
    assert_eq!(code(&output), 1);
    assert!(out(&output).contains("q.trunk2.weight") && out(&output).contains("[77]"), "{}", out(&output));
    let json: serde_json::Value = serde_json::from_str(&out(&place.run(&["diff", &a, &b, "--json"]))).unwrap();
    assert_eq!(json["comparison"]["first"]["elements"]["first"], 77);
    let sums = Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&a).status();
    assert!(sums.is_ok_and(|s| s.success()), "SHA256SUMS of an untouched export");
}

/// Would fail if an export could hold two versions of a tensor unseen.
#[test]
fn an_export_whose_files_disagree_is_different() {
    let place = Place::new();
    let (a, b) = (place.text("a"), place.text("b"));
    place.run(&["run", CASE, "--export", &a]);
    place.run(&["run", CASE, "--export", &b]);
    let file = place.path("b/state.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    let whole = fs::read(&file).unwrap();
    fs::write(&file, bytes).unwrap();
    let output = place.run(&["diff", &a, &b]);
    assert_ne!(code(&output), 0, "{}", out(&output));
    fs::write(&file, whole).unwrap();
    assert_eq!(code(&place.run(&["diff", &a, &b])), 0);
    let sums = place.path("b/SHA256SUMS");
    fs::write(&sums, fs::read_to_string(&sums).unwrap().replacen('a', "b", 1)).unwrap();
    let output = place.run(&["diff", &a, &b]);
    assert!(code(&output) == 2 && out(&output).contains("SHA256SUMS"), "{}", out(&output));
}

/// Would fail if a damaged checkpoint could be resumed, or resumed under other settings.
#[test]
fn damaged_and_foreign_checkpoints_are_refused() {
    let place = Place::new();
    let folder = place.text("checkpoints");
    assert_eq!(code(&place.run(&["run", CASE, "--checkpoint", &folder, "--checkpoint-every", "10"])), 0);
    let kept: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(kept.len(), 1, "the newest is kept: {kept:?}");
    assert_eq!(code(&place.run(&["run", CASE, "--resume", &folder])), 0);
    let other = place.run(&["run", CASE, "--resume", &folder, "--set", "training.lr=0.5"]);
    assert!(code(&other) == 2 && err(&other).contains("training.lr"), "{}", err(&other));
    let tensors = kept[0].join("state.safetensors");
    let whole = fs::read(&tensors).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 4;
    for (bytes, word) in [(&flipped[..], "altered"), (&whole[..middle], "need"), (&[][..], "need")] {
        fs::write(&tensors, bytes).unwrap();
        let output = place.run(&["run", CASE, "--resume", &folder]);
        assert!(code(&output) == 2 && err(&output).contains(word), "{word}: {}", err(&output));
    }
    fs::write(&tensors, &whole).unwrap();
    fs::remove_file(kept[0].join("manifest.json")).unwrap();
    assert_eq!(code(&place.run(&["run", CASE, "--resume", &folder])), 2);
}

/// Would fail if a trace under its final name could be anything but complete, or a cut or changed one be compared.
#[test]
fn cut_and_altered_traces_are_unverified() {
    let place = Place::new();
    let (a, b) = (place.path("a.jsonl"), place.path("b.jsonl"));
    place.run(&["run", CASE, "--trace", &place.text("a.jsonl")]);
    let text = fs::read_to_string(&a).unwrap();
    for part in [0, 1, text.len() / 3, text.len() - 1] {
        fs::write(&b, &text[..part]).unwrap();
        let output = place.run(&["diff", &place.text("a.jsonl"), &place.text("b.jsonl")]);
        assert!(code(&output) == 2 && out(&output).contains("cut-trace"), "{part}: {}", out(&output));
    }
    let line = text.lines().position(|l| l.contains("\"kind\":\"step\"") && l.contains("\"step\":5")).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[line] = lines[line].replacen("\"loss\":\"", "\"loss\":\"0", 1);
    fs::write(&b, lines.join("\n") + "\n").unwrap();
    let output = place.run(&["diff", &place.text("a.jsonl"), &place.text("b.jsonl")]);
    assert_eq!(code(&output), 2);
    assert!(
        out(&output).contains(&format!("b.jsonl:{}", line + 1)) && out(&output).contains("step 5"),
        "{}",
        out(&output)
    );
    assert_eq!(code(&place.run(&["diff", &place.text("a.jsonl"), &place.text("nowhere")])), 2);
}

/// Would fail if a trace could grow past its limit, or a given-up one keep its final name.
#[test]
fn a_trace_at_its_limit_is_given_up() {
    let place = Place::new();
    let output = place.run(&["run", CASE, "--trace", &place.text("a.jsonl"), "--trace-limit", "100000"]);
    assert!(code(&output) == 2 && err(&output).contains("--trace-limit"), "{}", err(&output));
    assert!(!place.path("a.jsonl").exists() && place.path("a.jsonl.part").exists());
}

/// Would fail if a secret of the environment or the command line reached any file.
#[test]
fn a_planted_secret_is_in_no_file() {
    let place = Place::new();
    let secret = "pl4nted-s3cret-value";
    let mut command = place.command(&[
        "test",
        CASE,
        "seed/",
        "--keep",
        "--junit",
        &place.text("junit.xml"),
        "--save",
        &place.text("saved"),
    ]);
    command.env("MY_API_TOKEN", secret).env("CUDA_SECRET_KEY", secret).env("OMP_THING", format!("x{secret}y"));
    let output = command.env("SAMEBITS_DIR", place.path("files")).output().unwrap();
    assert!(place.path("junit.xml").exists(), "{}", err(&output));
    let run = place
        .command(&[
            "run",
            CASE,
            "--export",
            &place.text("e"),
            "--trace",
            &place.text("t.jsonl"),
            "--checkpoint",
            &place.text("c"),
        ])
        .env("MY_API_TOKEN", secret)
        .env("OMP_THING", format!("x{secret}y"))
        .output()
        .unwrap();
    assert_eq!(code(&run), 0);
    let mut looked = 0;
    search(place.folder.path(), secret.as_bytes(), &mut looked);
    assert!(looked > 50, "files searched: {looked}");
}

fn search(folder: &Path, secret: &[u8], looked: &mut usize) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, secret, looked);
            continue;
        }
        *looked += 1;
        let raw = fs::read(&path).unwrap();
        let bytes =
            if path.extension().is_some_and(|e| e == "zst") { zstd::decode_all(&raw[..]).unwrap() } else { raw };
        assert!(!bytes.windows(secret.len()).any(|w| w == secret), "{} holds the secret", path.display());
    }
}

/// Would fail if the JUnit file lost arms or renamed them.
#[test]
fn junit_names_every_arm() {
    let place = Place::new();
    let output = place.run(&["test", CASE, "--junit", &place.text("j.xml"), "--json"]);
    let xml = fs::read_to_string(place.path("j.xml")).unwrap();
    for arm in ["base", "process-1", "resume-first-step", "resume-mid-fold", "resume-fold-end", "golden"] {
        assert!(xml.contains(&format!("resume.tiny-prioritized.{arm}\"")), "{arm} in {xml}");
    }
    let json: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(json["exit"], code(&output));
}

/// Would fail if a saved base could not stand in for a golden, or a missing one passed.
#[test]
fn against_a_saved_run() {
    let place = Place::new();
    let saved = place.text("saved");
    place.run(&["test", "seed/", "--save", &saved]);
    let output = place.run(&["test", "seed/", "--against", &saved]);
    assert_eq!(code(&output), 0, "{}{}", out(&output), err(&output));
    let output = place.run(&["test", "trace/", "--against", &saved]);
    assert!(code(&output) == 2 && out(&output).contains("no-golden"), "{}", out(&output));
}

/// Would fail if a case that needs a GPU could count as same, or `--require` overlook it.
#[test]
fn not_run_is_never_same() {
    let place = Place::new();
    let cases = place.path("project/cases/gpu");
    fs::create_dir_all(&cases).unwrap();
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/seed/tiny-other-seed.toml")).unwrap();
    fs::write(cases.join("tiny-gpu.toml"), format!("needs = [\"gpu\"]\n{text}")).unwrap();
    let run = |arguments: &[&str]| place.command(arguments).current_dir(place.path("project")).output().unwrap();
    let output = run(&["test"]);
    assert!(code(&output) == 3 && out(&output).contains("1 not run (no CUDA device)"), "{}", out(&output));
    assert_eq!(code(&run(&["test", "--require", "gpu"])), 2);
    assert_eq!(code(&run(&["test", "--require", "all"])), 2);
}

/// Would fail if an arm could run for ever, or its last record were lost.
#[test]
fn an_arm_past_its_limit_is_ended() {
    let place = Place::new();
    let cases = place.path("project/cases/slow-one");
    fs::create_dir_all(&cases).unwrap();
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/seed/tiny-other-seed.toml")).unwrap();
    let text = text.replace("cycles = 20", "cycles = 100000000").replace("about =", "timeout_s = 1\nabout =");
    fs::write(cases.join("tiny-long.toml"), text).unwrap();
    let output = place.command(&["test"]).current_dir(place.path("project")).output().unwrap();
    assert!(
        code(&output) == 2 && out(&output).contains("timed-out") && out(&output).contains("last record: step"),
        "{}",
        out(&output)
    );
}

/// A project of one small case, with a golden accepted in it.
fn project(place: &Place) -> PathBuf {
    let cases = place.path("project/cases/seed");
    fs::create_dir_all(&cases).unwrap();
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/seed/tiny-other-seed.toml")).unwrap();
    fs::write(cases.join("tiny-one.toml"), text).unwrap();
    let there = |arguments: &[&str]| place.command(arguments).current_dir(place.path("project")).output().unwrap();
    assert_eq!(code(&there(&["test"])), 2);
    let accepted = there(&["accept", "--reason", "first"]);
    assert_eq!(code(&accepted), 0, "{}{}", out(&accepted), err(&accepted));
    assert_eq!(code(&there(&["test"])), 0);
    place.path("project")
}

/// Changes one digit of the golden's first `sample` line.
fn falsify(project: &Path) {
    let golden = project.join("snapshots/seed/tiny-one.snap");
    let text = fs::read_to_string(&golden).unwrap();
    let at = text.find("sample ").unwrap() + 7;
    let digit = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
    fs::write(&golden, format!("{}{digit}{}", &text[..at], &text[at + 1..])).unwrap();
}

/// Would fail if one digit of a golden could differ unseen, or the report did not say whether it repeats.
#[test]
fn a_golden_that_differs_is_bracketed_and_repeated() {
    let place = Place::new();
    let project = project(&place);
    falsify(&project);
    let output = place.command(&["test"]).current_dir(&project).output().unwrap();
    assert_eq!(code(&output), 1);
    for word in ["sample in step at fold 0, step 0", "different, stable", "samebits run seed/tiny-one --arm base"] {
        assert!(out(&output).contains(word), "{word}: {}", out(&output));
    }
}

/// Would fail if a pending golden could be accepted for a case or sources that changed since it was made.
#[test]
fn stale_pending_goldens_are_refused() {
    let place = Place::new();
    let project = project(&place);
    let there = |arguments: &[&str]| place.command(arguments).current_dir(&project).output().unwrap();
    falsify(&project);
    assert_eq!(code(&there(&["test", "--pending", "pending"])), 1);
    let case = project.join("cases/seed/tiny-one.toml");
    let text = fs::read_to_string(&case).unwrap();
    fs::write(&case, format!("# changed\n{text}")).unwrap();
    let refused = there(&["accept", "--from", "pending", "--reason", "x"]);
    assert!(code(&refused) == 64 && err(&refused).contains("case changed"), "{}", err(&refused));
    fs::write(&case, text).unwrap();
    fs::create_dir_all(project.join("src")).unwrap();
    fs::write(project.join("src/lib.rs"), "").unwrap();
    fs::write(project.join("Cargo.toml"), "name = \"samebits\"").unwrap();
    let refused = there(&["accept", "--from", "pending", "--reason", "x"]);
    assert!(code(&refused) == 64 && err(&refused).contains("src changed"), "{}", err(&refused));
    // The sources of another project decide no bit of this program's engine.
    fs::write(project.join("Cargo.toml"), "name = \"other\"").unwrap();
    let pending = project.join("pending/seed/tiny-one.snap.new");
    let whole = fs::read_to_string(&pending).unwrap();
    fs::write(&pending, whole.replace("close root", "close")).unwrap();
    assert_eq!(code(&there(&["accept", "--from", "pending", "--reason", "x"])), 64);
    fs::write(&pending, &whole).unwrap();
    assert_eq!(code(&there(&["accept", "--from", "pending", "--reason", "x"])), 0);
    assert_eq!(code(&there(&["accept", "--from", "pending", "--reason", "x"])), 3);
    assert_eq!(code(&there(&["test"])), 0);
}

/// Would fail if an expected difference passed when it is gone, expired, or larger than allowed.
#[test]
fn expected_differences_must_be_there() {
    let place = Place::new();
    let project = project(&place);
    let case = project.join("cases/seed/tiny-one.toml");
    let text = fs::read_to_string(&case).unwrap();
    let run = |until: &str, more: &str| {
        let expect = format!("[expect]\nverdict = \"different\"\nreason = \"known\"\nuntil = \"{until}\"\n{more}");
        fs::write(&case, format!("{text}\n{expect}")).unwrap();
        place.command(&["test"]).current_dir(&project).output().unwrap()
    };
    let gone = run("2999-01-01", "");
    assert!(code(&gone) == 1 && out(&gone).contains("remove [expect]"), "{}", out(&gone));
    falsify(&project);
    let met = run("2999-01-01", "");
    assert!(code(&met) == 0 && out(&met).contains("1 expected differences"), "{}", out(&met));
    let expired = run("2020-01-01", "");
    assert!(code(&expired) == 1 && out(&expired).contains("ended on 2020-01-01"), "{}", out(&expired));
    let too_far = run("2999-01-01", "max_ulp = 4\n");
    assert!(code(&too_far) == 1 && out(&too_far).contains("at most 4 ULP"), "{}", out(&too_far));
    let bad_date = run("soon", "");
    assert!(code(&bad_date) == 64 && err(&bad_date).contains("YYYY-MM-DD"), "{}", err(&bad_date));
}

/// Would fail if the demo stopped showing a green and a red verdict without a project.
#[test]
fn the_demo_runs_anywhere() {
    let place = Place::new();
    let output = place.command(&["demo"]).current_dir(place.folder.path()).output().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).contains("same:") && out(&output).contains("q.branch0.out.weight in step at fold 0, step 20"));
}

/// Would fail if an output could take the place of files that no run wrote, or of another output.
#[test]
fn outputs_take_nobodys_place() {
    let place = Place::new();
    fs::create_dir_all(place.path("precious/inside")).unwrap();
    fs::write(place.path("precious/thesis.txt"), "mine").unwrap();
    fs::write(place.path("afile"), "mine").unwrap();
    let (precious, file, other) = (place.text("precious"), place.text("afile"), place.text("other"));
    for arguments in [
        vec!["run", CASE, "--export", &precious],
        vec!["run", CASE, "--export", &file],
        vec!["run", CASE, "--export", &other, "--checkpoint", &other],
        vec!["run", CASE, "--export", &other, "--trace", &other],
        vec!["test", "seed/", "--save", &precious, "--against", &precious],
    ] {
        assert_eq!(code(&place.run(&arguments)), 64, "{arguments:?}");
    }
    assert!(place.path("precious/thesis.txt").exists() && place.path("afile").is_file());
    fs::create_dir_all(place.path("c/fold-notes")).unwrap();
    fs::write(place.path("c/fold-list.txt"), "mine").unwrap();
    assert_eq!(code(&place.run(&["run", CASE, "--checkpoint", &place.text("c"), "--checkpoint-every", "2"])), 0);
    assert!(place.path("c/fold-notes").exists() && place.path("c/fold-list.txt").exists());
}

/// Would fail if a new run could delete an earlier run's checkpoints, or a damaged newest one were passed over.
#[test]
fn checkpoints_are_neither_replaced_nor_passed_over() {
    let place = Place::new();
    let folder = place.text("c");
    let run = |more: &[&str]| place.run(&[&["run", CASE, "--checkpoint", &folder][..], more].concat());
    assert_eq!(code(&run(&["--checkpoint-every", "2"])), 0);
    let again = run(&[]);
    assert!(code(&again) == 64 && err(&again).contains("--resume"), "{}", err(&again));
    assert_eq!(code(&run(&["--resume", &folder])), 0);
    let newest = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).find(|p| p.is_dir()).unwrap();
    let manifest = newest.join("manifest.json");
    fs::write(&manifest, &fs::read(&manifest).unwrap()[..100]).unwrap();
    let damaged = run(&["--resume", &folder]);
    assert!(code(&damaged) == 2 && err(&damaged).contains("remove it to resume"), "{}", err(&damaged));
}

/// Would fail if a golden that no case produces, or a base that is not there, went unnoticed.
#[test]
fn what_has_no_case_or_no_base_is_said() {
    let place = Place::new();
    let project = project(&place);
    let there = |arguments: &[&str]| place.command(arguments).current_dir(&project).output().unwrap();
    fs::copy(project.join("snapshots/seed/tiny-one.snap"), project.join("snapshots/seed/tiny-gone.snap")).unwrap();
    let orphan = there(&["test"]);
    assert!(code(&orphan) == 2 && err(&orphan).contains("tiny-gone.snap"), "{}{}", out(&orphan), err(&orphan));
    let against = there(&["test", "--against", "nowhere"]);
    assert!(code(&against) == 64 && err(&against).contains("--save"), "{}", err(&against));
}

/// Would fail if two runs could write one trace, or the loser's error not say so.
#[test]
fn two_runs_never_share_a_trace() {
    let place = Place::new();
    let trace = place.text("t.jsonl");
    let start = || {
        let arguments = ["run", CASE, "--set", "training.cycles=400", "--trace", &trace];
        place
            .command(&arguments)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let (first, second) = (start(), start());
    let outputs = [first.wait_with_output().unwrap(), second.wait_with_output().unwrap()];
    let codes = outputs.each_ref().map(code);
    assert!(codes.contains(&0), "{codes:?}");
    for output in outputs.iter().filter(|o| code(o) != 0) {
        assert!(err(output).contains("another run is writing"), "{}", err(output));
    }
    assert_eq!(code(&place.run(&["diff", &trace, &trace])), 0);
}

fn refused(place: &Place, name: &str, text: &str) -> String {
    let cases = place.path("project/cases/odd");
    fs::create_dir_all(&cases).unwrap();
    fs::write(cases.join(name), text).unwrap();
    let output = place.command(&["test"]).current_dir(place.path("project")).output().unwrap();
    fs::remove_dir_all(place.path("project/cases")).unwrap();
    assert_eq!(code(&output), 64, "{name}: {}{}", out(&output), err(&output));
    err(&output)
}

/// Would fail if a case that compares nothing, hides keys, or turns in a circle were run.
#[test]
fn cases_that_cannot_tell_anything_are_refused() {
    let place = Place::new();
    let clean =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/seed/tiny-other-seed.toml")).unwrap();
    let arms = clean.find("[arms]").unwrap();
    let with = |head: &str, arms_text: &str| format!("{head}\n{}\n{arms_text}\n", &clean[..arms]);
    let twin = "about = \"x\"\ntwin = \"odd/tiny-x\"\n[mutant]\nname = \"hash-order\"\n";
    for (text, word) in [
        (with("golden = false", ""), "nothing would be compared"),
        (with("", "[arms]\nprocesses = 1000000000"), "at most 1000"),
        (with("", "[arms]\nthreads = [2000]"), "1 to at most 1024"),
        (with("", "[arms]\nthreads = [2, 2]"), "stands twice"),
        (with("", "[arms]\nfolds = [\"alone\"]\n[compare]\nkinds = [\"close\"]"), "nothing to compare"),
        (with("", "[arms]\nprocesses = 1\n[compare]\nkinds = [\"steps\"]"), "unknown kind"),
        (twin.to_owned(), "has a twin itself"),
        (format!("timeout_s = 3\n{twin}"), "unknown key"),
        (
            clean.replace("cycles = 20", "cycles = 1").replace("other_seed = 12345", "resume = [\"mid-fold\"]"),
            "at least 2 cycles",
        ),
    ] {
        let message = refused(&place, "tiny-x.toml", &text);
        assert!(message.contains(word), "{word}: {message}");
    }
    fs::create_dir_all(place.path("project/cases/odd/deep")).unwrap();
    fs::write(place.path("project/cases/odd/deep/tiny-n.toml"), &clean).unwrap();
    let output = place.command(&["list"]).current_dir(place.path("project")).output().unwrap();
    assert!(code(&output) == 64 && err(&output).contains("no folders inside"), "{}", err(&output));
}

/// Would fail if a flipped bit that strikes nothing passed for one that did.
#[test]
fn a_flip_that_strikes_nothing_is_refused() {
    let place = Place::new();
    let cases = place.path("project/cases/flip");
    fs::create_dir_all(&cases).unwrap();
    let clean =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/seed/tiny-other-seed.toml")).unwrap();
    fs::write(cases.join("tiny-clean.toml"), clean).unwrap();
    for flip in ["tensor = \"q.nothing\"\nelement = 0\nbit = 0", "tensor = \"q.trunk1.bias\"\nelement = 64\nbit = 0"] {
        let text = format!(
            "about = \"x\"\ntwin = \"flip/tiny-clean\"\n[mutant]\nname = \"flip-bit\"\n[mutant.flip]\n{flip}\nfold = 0\nstep = 1\n"
        );
        fs::write(cases.join("tiny-flip.toml"), text).unwrap();
        let output = place.command(&["run", "flip/tiny-flip"]).current_dir(place.path("project")).output().unwrap();
        assert!(code(&output) == 2 && err(&output).contains("no such tensor"), "{}", err(&output));
    }
}

/// Would fail if a reader that went away, or a full disk behind standard output, caused a panic or lost the verdict.
#[test]
fn standard_output_may_be_closed_or_full() {
    let place = Place::new();
    let full = |arguments: &[&str]| {
        let file = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        place.command(arguments).stdout(file).output().unwrap()
    };
    let output = full(&["list"]);
    assert!(code(&output) == 2 && err(&output).contains("standard output"), "{}", err(&output));
    let mut child = place.command(&["list"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Would fail if a forged manifest could skip updates or invent results.
#[test]
fn forged_manifests_are_refused() {
    let place = Place::new();
    let folder = place.text("c");
    assert_eq!(code(&place.run(&["run", CASE, "--checkpoint", &folder, "--checkpoint-every", "10"])), 0);
    let newest = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let manifest = newest.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"cycle\": 20", "\"cycle\": 24")).unwrap();
    let output = place.run(&["run", CASE, "--resume", &newest.display().to_string()]);
    assert!(code(&output) == 2 && err(&output).contains("seal"), "{}", err(&output));
}

/// Names and contents.
type Files<'a> = Vec<(&'a str, &'a [u8])>;

/// A folder of a repository whose program is `train.py`, and `samebits init` in it.
fn init(place: &Place, name: &str, files: &[(&str, &[u8])], arguments: &[&str]) -> (PathBuf, Output) {
    let folder = place.path(name);
    for (file, bytes) in [("train.py", &b"print(1)\n"[..])].iter().chain(files) {
        fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
        fs::write(folder.join(file), bytes).unwrap();
    }
    let arguments = [&["init"][..], arguments, &["--", "/bin/sh", "train.py"]].concat();
    let output = place.command(&arguments).current_dir(&folder).output().unwrap();
    (folder, output)
}

/// Would fail if the workflow did not install what the repository asks for, under the Python that it names.
#[test]
fn the_workflow_installs_what_the_repository_asks_for() {
    let place = Place::new();
    let project = &b"[project]\nname = \"a\"\nversion = \"1\"\nrequires-python = \">=3.10,<3.13\"\n"[..];
    #[rustfmt::skip]
    let repositories: [(&str, Files<'_>, Vec<&str>); 7] = [
        ("plain", vec![], vec!["python-version: \"3.11\""]),
        ("requirements", vec![("requirements.txt", b"numpy\n"), (".python-version", b"3.12.4\n")], vec!["pip install -r requirements.txt", "python-version: \"3.12.4\""]),
        ("project", vec![("pyproject.toml", project)], vec!["pip install .", "python-version: \"3.10\""]),
        ("poetry", vec![("pyproject.toml", b"[tool.poetry.dependencies]\npython = \"^3.9\"\n")], vec!["pip install .", "\"3.9\""]),
        ("tools", vec![("pyproject.toml", b"[tool.ruff]\nline-length = 120\n")], vec!["python-version: \"3.11\""]),
        ("uv", vec![("pyproject.toml", b"[project]\nname = \"a\"\nversion = \"1\"\n"), ("uv.lock", b"version = 1\nrequires-python = \">=3.12\"\n")], vec!["uv sync --locked", ".venv/bin", "python-version: \"3.12\""]),
        ("conda", vec![("environment.yml", b"dependencies:\n  - python=3.10\n")], vec!["conda\" env create", "--file environment.yml"]),
    ];
    for (name, files, words) in repositories {
        let (folder, output) = init(&place, name, &files, &[]);
        assert_eq!(code(&output), 0, "{name}: {}", err(&output));
        let text = fs::read_to_string(folder.join(".github/workflows/samebits.yml")).unwrap();
        assert!(words.iter().all(|w| text.contains(w)), "{name}: {text}");
        assert_eq!(text.contains("pip install"), !["plain", "tools", "conda"].contains(&name), "{name}: {text}");
        assert_eq!(text.contains("setup-python"), name != "conda", "{name}: {text}");
        assert!(folder.join("cases/first/train.toml").is_file());
        // A second case leaves the workflow, which is what it would write.
        let (_, again) = init(&place, name, &files, &["--name", "other"]);
        assert!(code(&again) == 0 && out(&again).contains("left     .github/workflows"), "{name}: {}", err(&again));
    }
}

/// Would fail if `init` wrote anything before it knew that all can be written, or did not say what is in the way.
#[test]
fn init_writes_all_or_nothing() {
    let place = Place::new();
    #[rustfmt::skip]
    let in_the_way: [(&str, &str, &[u8], &str); 8] = [
        ("ignore-folder", ".gitignore/x", b"", ".gitignore: a folder"),
        ("ignore-bytes", ".gitignore", b"\xff\n", ".gitignore: not UTF-8"),
        ("workflow-other", ".github/workflows/samebits.yml", b"mine\n", "--no-workflow"),
        ("workflow-folder", ".github/workflows/samebits.yml/x", b"", "samebits.yml: a folder"),
        ("github-file", ".github", b"", ".github is no folder"),
        ("cases-file", "cases/first", b"", "first is no folder"),
        ("case-there", "cases/first/train.toml", b"mine", "--name"),
        ("project-broken", "pyproject.toml", b"[project\n", "pyproject.toml: "),
    ];
    for (name, file, bytes, words) in in_the_way {
        for more in [&[][..], &["--dry-run"]] {
            let (folder, output) = init(&place, name, &[(file, bytes)], more);
            let error = err(&output);
            assert!(code(&output) == 64 && error.contains(words), "{name}: {error}");
            assert!(error.lines().count() == 1 && error.contains("nothing was written"), "{name}: {error}");
            let mut left: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
            left.sort();
            let first = folder.join(Path::new(file).iter().next().unwrap());
            let mut expected = vec![first, folder.join("train.py")];
            expected.sort();
            assert_eq!(left, expected, "{name}");
        }
    }
    let (folder, output) = init(&place, "kept", &[(".github/workflows/samebits.yml", b"mine\n")], &["--no-workflow"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(fs::read(folder.join(".github/workflows/samebits.yml")).unwrap(), b"mine\n");
    let folder = place.path("linked");
    fs::create_dir_all(folder.join("elsewhere")).unwrap();
    fs::write(folder.join("train.py"), "").unwrap();
    std::os::unix::fs::symlink("elsewhere", folder.join("cases")).unwrap();
    let output = place.command(&["init"]).current_dir(&folder).output().unwrap();
    assert!(code(&output) == 64 && err(&output).contains("cases is a symbolic link"), "{}", err(&output));
    assert!(folder.join("elsewhere").read_dir().unwrap().next().is_none() && !folder.join(".gitignore").exists());
    // A folder that nobody can write, root neither.
    let output = place.command(&["init", "--", "/bin/sh"]).current_dir("/proc").output().unwrap();
    assert!(code(&output) == 64 && err(&output).contains("cannot be written"), "{}", err(&output));
}

/// A program that stands for Python: NumPy imports, PyTorch is missing, JAX crashes, or all hang.
fn fake_python(place: &Place, hangs: bool) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let text = match hangs {
        true => "#!/bin/sh\nexec sleep 600\n".to_owned(),
        false => "#!/bin/sh\ncase \"$2\" in\n*numpy*) echo noise; echo samebits-version 2.4.6;;\n*torch*) echo trace >&2; \
                  echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1;;\n*jax*) kill -SEGV $$;;\n*) echo samebits-version 3.11.7;;\nesac\n"
            .to_owned(),
    };
    let path = place.path(if hangs { "hang/python3" } else { "bin/python3" });
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Would fail if a package that is missing, crashes or hangs took the doctor down, or a factor had no state or reason.
#[test]
fn the_doctor_looks_at_python_and_factors() {
    let place = Place::new();
    let bin = fake_python(&place, false).parent().unwrap().to_owned();
    let with_path = |arguments: &[&str], path: String| place.command(arguments).env("PATH", path).output().unwrap();
    let usual = format!("{}:/usr/bin:/bin", bin.display());
    let json: serde_json::Value = serde_json::from_str(&out(&with_path(&["doctor", "--json"], usual.clone()))).unwrap();
    let answers = json["python"]["answers"].as_array().unwrap();
    let of = |name: &str| answers.iter().find(|a| a["name"] == name).unwrap();
    assert_eq!((&of("python")["version"], &of("numpy")["version"]), (&"3.11.7".into(), &"2.4.6".into()));
    assert!(of("pytorch")["reason"].as_str().unwrap().contains("No module named 'torch'"), "{json}");
    assert!(of("jax")["reason"].as_str().unwrap().contains("signal 11"), "{json}");
    let factors = json["factors"].as_array().unwrap();
    for name in ["aslr", "cpus", "locale", "hash-seed", "threads"] {
        let factor = factors.iter().find(|f| f["name"] == name).unwrap();
        assert_eq!(factor["varied"] == true, factor["reason"].is_null(), "{factor}");
    }
    let text = with_path(&["doctor"], usual);
    assert!(
        code(&text) == 0 && out(&text).contains("pytorch") && out(&text).contains("does not import"),
        "{}",
        out(&text)
    );
    assert!(out(&text).contains("factor hash-seed") && out(&text).contains("can be varied"), "{}", out(&text));
    let none = with_path(&["doctor"], place.text("nowhere"));
    assert!(code(&none) == 0 && out(&none).contains("none along PATH"), "{}", out(&none));
    let (own, limit) = (Path::new(env!("CARGO_BIN_EXE_samebits")), std::time::Duration::from_millis(200));
    let hung = samebits::cli::interpreter::look(own, &fake_python(&place, true), place.folder.path(), limit);
    assert!(hung.answers.iter().all(|a| a.reason.as_deref().is_some_and(|r| r.contains("within 0.2 s"))), "{hung:?}");
}

/// Would fail if a machine without a visible GPU passed for one whose GPU agreed, or said no reason.
#[test]
fn without_a_gpu_nothing_of_it_is_run() {
    let place = Place::new();
    let run = |arguments: &[&str]| place.command(arguments).env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    let vectors = run(&["vectors", "--device", "0"]);
    assert_eq!(code(&vectors), 3, "{}", out(&vectors));
    assert!(
        out(&vectors).contains("0 same") && out(&vectors).contains("1 not run (no CUDA device"),
        "{}",
        out(&vectors)
    );
    let test = run(&["test", CASE, "--device", "0"]);
    assert_eq!(code(&test), 3, "{}", out(&test));
    assert!(out(&test).contains("1 not run (no CUDA device"), "{}", out(&test));
    let required = run(&["test", CASE, "--device", "0", "--require", "all"]);
    assert_eq!(code(&required), 2, "{}", out(&required));
    let trained = run(&["run", CASE, "--device", "0"]);
    assert_eq!(code(&trained), 2, "{}", err(&trained));
    assert!(err(&trained).contains("no CUDA device"), "{}", err(&trained));
}

/// Would fail if flags of a GPU were taken without one being named.
#[test]
fn flags_of_a_gpu_need_a_device() {
    let place = Place::new();
    for arguments in [
        vec!["vectors", "--products", "5"],
        vec!["vectors", "--multiprocessors", "40"],
        vec!["vectors", "--device", "0", "--multiprocessors", "0"],
        vec!["run", CASE, "--graph", "4"],
        vec!["kernels", "--target", "volta"],
    ] {
        assert_eq!(code(&place.run(&arguments)), 64, "{arguments:?}");
    }
}
