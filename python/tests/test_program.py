"""Traces as the `samebits` program reads them, and runs in processes of their own."""

import ast
import os
import signal
import subprocess
import sys
import time
import unittest

from support import PACKAGE, ROOT, Case, diff, needs, needs_program, of_kind, read

#: A small training in the library at hand; TRACE, SEED and what a test plants come before it.
NUMPY = """
import numpy as np, samebits
def train(path=None, seed=1, steps=5, **options):
    np.random.seed(seed)
    w, m = np.random.randn(300, 20).astype(np.float32), np.zeros((300, 20), np.float32)
    with samebits.record(path, seed=seed, **options) as r:
        for step in range(steps):
            x = np.random.randn(8, 300).astype(np.float32)
            g = x.T @ (x @ w) / np.float32(8)
            m = np.float32(0.9) * m + g
            w = w - np.float32(1e-3) * m
            r.step(model={"w": w}, optimizer={"m": m}, tensors={"batch": x}, metrics={"loss": float((g * g).sum())})
        r.eval(metrics={"norm": float((w * w).sum())})
"""


@needs_program
@needs("numpy")
class Compared(Case):
    def train(self, name, **options):
        text = ", ".join(f"{k}={v!r}" for k, v in options.items())
        self.run_python(f"{NUMPY}\ntrain({str(self.trace(name))!r}, {text})")
        return self.trace(name)

    def verdict(self, expected, code, a, b):
        found, words = diff(a, b)
        self.assertEqual((found, expected in words), (code, True), words)
        return words

    def test_with_itself(self):
        """Would fail if the program could not read what this package writes, at any level."""
        for level in ("step", "tensor", "op", "off"):
            path = self.train(f"{level}.jsonl", level=level)
            self.verdict("same", 0, path, path)

    def test_runs(self):
        """Would fail if equal runs differed, or another seed, or a generator alone, could pass as equal."""
        a, b, c = self.train("a.jsonl"), self.train("b.jsonl"), self.train("c.jsonl", seed=2)
        self.verdict("same", 0, a, b)
        words = self.verdict("different", 1, a, c)
        # The generator is the cause, so it is named before what it moved.
        self.assertIn("rng.numpy in step at step 0", words)
        self.assertIn("rng.numpy", read(a)[1]["fp"])

    def test_state_moved_after_evaluation(self):
        """Would fail if the record that a close may need were refused by the reader."""
        source = NUMPY + f"""
w = np.ones(4, np.float32)
with samebits.record({str(self.trace())!r}, every=5) as r:
    r.step(model={{"w": w}})
    r.eval(metrics={{"x": float("nan")}})
    w += 1
    r.step(model={{"w": w}})
"""
        self.run_python(source)
        self.verdict("same", 0, self.trace(), self.trace())

    def test_killed_run_is_cut(self):
        """Would fail if a killed run could pass for a complete one, or lost what it had written."""
        whole = self.train("whole.jsonl", steps=2)
        path = self.trace("cut.jsonl")
        source = f"{NUMPY}\nimport time\nclass Slow(dict):\n pass\n"
        process = self.start(f"{source}\ntrain({str(path)!r}, steps=10**9)")
        part = path.with_name("cut.jsonl.part")
        until = time.monotonic() + 60
        while time.monotonic() < until and not (part.exists() and part.stat().st_size > 20_000):
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
        self.assertFalse(path.exists())
        self.verdict("did not finish", 2, whole, path)
        self.verdict("cut", 2, whole, part)

    def test_exception_leaves_the_run_cut(self):
        """Would fail if a run that raised had a closing record."""
        source = f"""
import samebits
try:
    with samebits.record({str(self.trace())!r}) as r:
        r.step(tensors={{"x": 1.0}}, metrics={{}})
        raise RuntimeError("out of memory")
except RuntimeError:
    pass
"""
        self.run_python(source)
        part = self.trace("a.jsonl.part")
        self.verdict("cut", 2, part, part)
        self.assertEqual([r["kind"] for r in read(part)], ["open", "step"])

    def test_ranks(self):
        """Would fail if the processes of one run did not write a folder that compares as one run."""
        for folder in ("a", "b"):
            path = str(self.folder / folder / "trace" / "rank-0.jsonl")
            for rank in ("0", "1"):
                environment = {"SAMEBITS_TRACE": path, "RANK": rank, "WORLD_SIZE": "2", "SAMEBITS_SEED": "3"}
                self.run_python(f"{NUMPY}\ntrain(seed=samebits.seed() + int({rank}))", **environment)
        self.verdict("same", 0, self.folder / "a" / "trace", self.folder / "b" / "trace")
        (self.folder / "b" / "trace" / "rank-1.jsonl").unlink()
        self.verdict("unverified", 2, self.folder / "a" / "trace", self.folder / "b" / "trace")


@needs_program
@needs("torch")
class ComparedTorch(Case):
    def test_runs(self):
        """Would fail if the state of a PyTorch training were not read by the program, or another seed passed."""
        source = """
import torch, samebits
def train(path, seed, **options):
    torch.manual_seed(seed)
    m = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(300, 3))
    o = torch.optim.Adam(m.parameters())
    with samebits.record(path, seed=seed, **options) as r:
        for step in range(4):
            loss = m(torch.randn(8, 20)).square().mean()
            o.zero_grad(); loss.backward(); o.step()
            r.step(model=m, optimizer=o, metrics={"loss": loss})
        r.eval(metrics={"loss": loss})
"""
        calls = [("a", 1, "step"), ("b", 1, "step"), ("c", 2, "step"), ("d", 1, "tensor")]
        source += "".join(f"train({str(self.trace(n))!r}, {s}, level={level!r})\n" for n, s, level in calls)
        self.run_python(source)
        a = self.trace("a")
        expected = [(0, self.trace("b")), (1, self.trace("c")), (0, self.trace("d"))]
        for code, other in expected:
            found, words = diff(a, other)
            self.assertEqual(found, code, words)
        names = list(of_kind(read(a), "step")[0]["fp"])
        for name in ("model.0.weight", "optimizer.0.exp_avg", "optimizer.0.step", "rng.torch"):
            self.assertIn(name, names)
        self.assertNotIn("rng.python", names, "nobody drew from it")


@needs_program
class Started(Case):
    def test_module_runs_the_program(self):
        """Would fail if `python -m samebits` did not hand on the program's words and exit code."""
        for arguments, code in ((["--version"], 0), (["diff", "no", "such"], 2)):
            done = subprocess.run([sys.executable, "-m", "samebits", *arguments], capture_output=True, text=True, env=os.environ)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)

    def test_versions_agree(self):
        """Would fail if a wheel's package and program were of different versions."""
        import samebits

        if samebits.__version__ == "source":
            self.skipTest("not run: the package is a checkout, no wheel is installed")
        done = subprocess.run([sys.executable, "-m", "samebits", "--version"], capture_output=True, text=True, env=os.environ)
        self.assertEqual(done.stdout.split(), ["samebits", samebits.__version__])
        if (ROOT / "Cargo.toml").exists():
            self.assertIn(f'\nversion = "{samebits.__version__}"\n', (ROOT / "Cargo.toml").read_text())


class Package(unittest.TestCase):
    def test_oldest_syntax(self):
        """Would fail if the package used syntax that its oldest Python does not have."""
        for path in sorted((PACKAGE / "samebits").glob("*.py")):
            ast.parse(path.read_text(), str(path), feature_version=(3, 9))


if __name__ == "__main__":
    unittest.main()
