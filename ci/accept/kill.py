"""Kills runs at random moments and looks at what they left. Usage: kill.py SAMEBITS FOLDER KILLS"""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

program, folder, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
CASE = ["replay/tiny-ring-wraps", "--set", "training.cycles=90"]
rng = random.Random(20261201)
straight = folder / "straight.jsonl"
start = time.monotonic()
subprocess.run([program, "run", *CASE, "--trace", straight, "--export", folder / "straight"], check=True, stdout=subprocess.DEVNULL)
whole = time.monotonic() - start


def diff(a, b):
    return subprocess.run([program, "diff", a, b], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


killed = resumed = complete = 0
checkpoints = folder / "checkpoints"
for i in range(kills):
    trace = folder / f"run-{i}.jsonl"
    command = [program, "run", *CASE, "--trace", trace, "--checkpoint", checkpoints, "--checkpoint-every", "1"]
    if any(checkpoints.glob("fold-*")):
        command += ["--resume", checkpoints]
        resumed += 1
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(rng.uniform(0.005, whole))
    child.kill()
    error = child.stderr.read().decode()
    code = child.wait()
    killed += code == -9
    assert code in (-9, 0), f"kill {i}: exit {code}: {error}"
    if trace.exists():
        assert code == 0 or diff(straight, trace) == 0, f"kill {i}: a trace under its final name that is not complete"
        assert diff(straight, trace) == 0, f"kill {i}: a complete trace that is not the straight run's"
        complete += 1
        shutil.rmtree(checkpoints)  # the next one starts from the beginning
    else:
        assert diff(straight, trace) == 2, f"kill {i}: a run without a trace is not 2"
        part = Path(f"{trace}.part")
        if part.exists():
            assert diff(straight, part) == 2, f"kill {i}: an unfinished trace is not 2"
    for left in checkpoints.glob("fold-*"):
        assert (left / "manifest.json").exists(), f"kill {i}: {left.name} has no manifest"
        both = diff(left, left)
        assert both == 0, f"kill {i}: {left.name} cannot be read"
final = [program, "run", *CASE, "--trace", folder / "final.jsonl", "--export", folder / "final"]
final += ["--resume", checkpoints] if any(checkpoints.glob("fold-*")) else []
subprocess.run(final, check=True, stdout=subprocess.DEVNULL)
assert diff(straight, folder / "final.jsonl") == 0, "the resumed run differs from the straight one"
assert diff(folder / "straight", folder / "final") == 0, "the resumed run's tensors differ from the straight one's"
assert killed >= kills // 2, f"only {killed} of {kills} runs were killed before they ended"
print(f"{killed} of {kills} runs killed, {resumed} resumed, {complete} complete; what was left reads as what it is, and resumes to the straight run")
