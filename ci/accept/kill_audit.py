"""Kills audits and their runs at random moments. Usage: kill_audit.py SAMEBITS FOLDER KILLS"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

program, folder, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
rng = random.Random(20261202)
project = folder / "project"
project.mkdir()
(project / "train.py").write_text(
    "import os, time\n"
    "total = 0.0\n"
    "for i in range(20):\n"
    "    total += 0.1 * i\n"
    "    time.sleep(0.005)\n"
    "os.makedirs('out', exist_ok=True)\n"
    "open('out/w.bin', 'wb').write(repr(total + (1e-9 if os.environ.get('TZ') else 0)).encode())\n"
)
command = ["audit", "-n", "12", "--output", "out/*.bin", "--vary", "time-zone", "--vary", "hash-seed"]
command += ["--", sys.executable, "train.py"]


def start(name, *more):
    at = command.index("--")
    arguments = [program, *command[:at], "--dir", folder / name, *more, *command[at:]]
    return subprocess.Popen(arguments, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def report(name):
    found = json.loads((folder / name / "report.json").read_text())
    found.pop("volatile")
    return found


def done(name):
    """Runs that ended by themselves; one that was killed is made again, its outcome is put aside."""
    found = {p.parent.name: json.loads(p.read_text()) for p in (folder / name).glob("runs/*/outcome.json")}
    return {run for run, outcome in found.items() if outcome["end"]["how"] != "killed"}


def children(name):
    mark = f"SAMEBITS_RUN_DIR={folder / name}/".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if any(v.startswith(mark) for v in (entry / "environ").read_bytes().split(b"\0")):
                    yield int(entry.name)
            except OSError:
                pass


straight = start("straight")
begin = time.monotonic()
out, err = straight.communicate()
whole = time.monotonic() - begin
assert straight.returncode == 1 and "TZ" in out, f"the straight audit: {straight.returncode}: {out}{err}"
wanted = report("straight")
counts = {"auditor": 0, "child": 0, "ended": 0, "completed": 0}
while counts["auditor"] + counts["child"] < kills:
    go_on = (folder / "cut").exists() and (folder / "cut/audit.json").exists()
    before = done("cut") if go_on else set()
    audit = start("cut", *(["--continue"] if go_on else []))
    time.sleep(rng.uniform(0.02, whole / 2))
    victim = rng.choice(["auditor", "child"])
    victims = [audit.pid] if victim == "auditor" else list(children("cut"))
    for pid in victims[:1]:
        try:
            os.kill(pid, signal.SIGKILL)
            counts[victim] += 1
        except ProcessLookupError:
            pass
    out, err = audit.communicate()
    assert audit.returncode in (-9, 1, 2), f"{victim}: exit {audit.returncode}: {out}{err}"
    lost = {r for r in before if not (folder / "cut/runs" / r / "outcome.json").exists()}
    assert not lost, f"runs that were done are gone: {lost}"
    if (folder / "cut/report.json").exists():
        assert report("cut") == wanted, "a report that is not the uninterrupted one"
        counts["completed"] += 1
        shutil.rmtree(folder / "cut")
    elif not (folder / "cut/audit.json").exists() and (folder / "cut").exists():
        shutil.rmtree(folder / "cut")  # killed before it began
final = start("cut", *(["--continue"] if (folder / "cut/audit.json").exists() else []))
out, err = final.communicate()
assert final.returncode == 1, f"the last one: exit {final.returncode}: {out}{err}"
assert report("cut") == wanted, "the last report is not the uninterrupted one"
assert not list(children("cut")), "a run outlived its audit"
print(f"{counts['auditor']} auditors and {counts['child']} runs killed, {counts['completed'] + 1} audits completed: each report equals the uninterrupted one")
