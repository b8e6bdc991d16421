"""What the tests share: which libraries are here, traces read back, the `samebits` program, programs in fresh processes."""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(__file__).resolve().parents[1]
#: What a recorder reads of the environment; tests set it themselves.
CONTRACT = ("SAMEBITS_TRACE", "SAMEBITS_LEVEL", "SAMEBITS_SEED", "SAMEBITS_DIR", "RANK", "WORLD_SIZE")


def has(*libraries):
    return all(importlib.util.find_spec(name) for name in libraries)


def needs(*libraries):
    """Skips a test, with the reason, where a library is not installed."""
    missing = [name for name in libraries if not has(name)]
    return unittest.skipIf(missing, f"not run: {', '.join(missing)} not installed")


def program():
    """The `samebits` program: SAMEBITS_BIN, else the one on the path."""
    return os.environ.get("SAMEBITS_BIN") or shutil.which("samebits")


needs_program = unittest.skipUnless(program(), "not run: no samebits program (set SAMEBITS_BIN)")


def diff(a, b):
    """Exit code and words of `samebits diff`."""
    done = subprocess.run([program(), "diff", str(a), str(b)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def read(path):
    """Records of a trace, each chain checked as docs/trace.md says."""
    chain, records = hashlib.sha256(b"samebits-trace/1").digest(), []
    for line in Path(path).read_bytes().splitlines():
        body, member = line[: line.rindex(b',"chain":"')], line[line.rindex(b',"chain":"') :]
        chain = hashlib.sha256(chain + body).digest()
        assert member == f',"chain":"{chain.hex()}"}}'.encode(), f"{path}: a chain does not hold"
        records.append(json.loads(line))
    return records


def of_kind(records, kind):
    return [r for r in records if r["kind"] == kind]


class Case(unittest.TestCase):
    """A test with a folder of its own and none of the environment that starts an engine."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="samebits-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        kept = {name: os.environ.pop(name) for name in CONTRACT if name in os.environ}
        self.addCleanup(lambda: [os.environ.pop(n, None) for n in CONTRACT] and os.environ.update(kept))

    def trace(self, name="a.jsonl"):
        return self.folder / name

    def start(self, source, **environment):
        """A Python program in a fresh process that can import the package."""
        clean = {n: v for n, v in os.environ.items() if n not in CONTRACT}
        paths = [p for p in (os.environ.get("PYTHONPATH"), str(Path(__file__).parent)) if p]
        env = {**clean, "PYTHONPATH": os.pathsep.join(paths), **environment}
        return subprocess.Popen(
            [sys.executable, "-c", source], env=env, cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run_python(self, source, **environment):
        process = self.start(source, **environment)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        return out, err
