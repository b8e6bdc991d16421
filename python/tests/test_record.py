"""What a trace says and what a recorder refuses, with Python's own values and, where it is here, NumPy."""

import dataclasses
import hashlib
import math
import os
import random
import struct
import threading
import unittest
from array import array

from support import Case, needs, of_kind, read

import samebits
from samebits._writer import root


def run(path, steps=4, seed=1, **options):
    """A little training of a dict of weights; returns them."""
    with samebits.record(path, seed=seed, **options) as r:
        random.seed(seed)
        weights = {"w": array("f", [random.random() for _ in range(10)]), "b": 0.5}
        for _ in range(steps):
            weights["w"] = array("f", [x - 0.1 * random.random() for x in weights["w"]])
            weights["b"] *= 0.5
            r.step(model=weights, tensors={"batch": array("f", [1.0, 2.0])}, metrics={"loss": weights["b"]})
    return weights


class Records(Case):
    def test_levels(self):
        """Would fail if a level held less, or more, than the format promises of it."""
        for level in ("off", "step", "tensor"):
            run(self.trace(), level=level)
            records = read(self.trace())
            steps = of_kind(records, "step")
            self.assertEqual(records[0]["level"], level)
            self.assertEqual([s["step"] for s in steps], [] if level == "off" else [0, 1, 2, 3])
            for step in steps:
                self.assertEqual(list(step["fp"]), ["rng.python", "batch", "model.w", "model.b"])
                self.assertEqual("sha256" in step, level == "tensor")

    def test_open_and_close(self):
        """Would fail if the first or the last record did not say what readers check the rest against."""
        weights = run(self.trace(), settings={"lr": 0.1}, engine="mine 1")
        records = read(self.trace())
        opened, close = records[0], records[-1]
        shown = [opened[k] for k in ("kind", "schema", "rank", "world_size", "engine", "seed", "settings")]
        self.assertEqual(shown, ["open", "samebits-trace/1", 0, 1, "mine 1", 1, {"lr": 0.1}])
        declared = {t["name"]: (t["dtype"], t["shape"]) for t in opened["tensors"]}
        expected = {"model.w": ("f32", [10]), "model.b": ("f64", []), "batch": ("f32", [2])}
        self.assertEqual(declared, {**expected, "rng.python": ("u32", [628])})
        shown = [close[k] for k in ("kind", "status", "records")]
        self.assertEqual(shown, ["close", "complete", len(records) - 1])
        self.assertEqual(close["sha256"]["model.w"], hashlib.sha256(weights["w"].tobytes()).hexdigest())
        self.assertEqual(close["root"], root(close["sha256"]))

    def test_root(self):
        """Would fail if the root were not that of docs/trace.md, whose example this is."""
        w = "e5e0ce39fac89cd93af5ba8bcad2fe35d88c75417c7e44941fe5ee4e48f1cf75"
        sample = "e8613f5a5bc9f9feeda32a8e7c80b69dd4878e47b6a91723fb15eb84236b6a2b"
        expected = "41ffbfc48bbdc8a8854f875e725da178b1a86ac767c7f6816207b83eebfd1326"
        self.assertEqual(root({"w": w, "rng.sample": sample}), expected)

    def test_every(self):
        """Would fail if the cost could not be bounded by recording every n-th step, counted from 0."""
        run(self.trace(), steps=10, every=4)
        self.assertEqual([s["step"] for s in of_kind(read(self.trace()), "step")], [0, 4, 8])

    def test_given_steps(self):
        """Would fail if a script that counts its own steps had them numbered otherwise, or could count backwards."""
        with samebits.record(self.trace(), every=10) as r:
            for step in (5, 10, 17, 20):
                r.step(tensors={"x": 1.0}, step=step)
            with self.assertRaisesRegex(samebits.RecordError, "step 20 comes after step 20"):
                r.step(tensors={"x": 1.0}, step=20)
            r.step(tensors={"x": 1.0}, sha256=True)
        steps = of_kind(read(self.trace()), "step")
        self.assertEqual([(s["step"], "sha256" in s) for s in steps], [(10, False), (20, False), (21, True)])

    def test_include_and_exclude(self):
        """Would fail if patterns did not bound what is recorded, or reached values that they leave out."""
        with samebits.record(self.trace(), include=["model.*"], exclude=["*.b", "rng.python"]) as r:
            r.step(model={"w": 1.0, "b": 2.0, "c": {"b": object()}}, tensors={"x": object()})
        self.assertEqual(list(of_kind(read(self.trace()), "step")[0]["fp"]), ["model.w"])

    def test_generators_are_named(self):
        """Would fail if a generator that moved between two equal states of the model stayed unseen."""
        with samebits.record(self.trace()) as r:
            for _ in range(2):
                random.random()
                r.step(tensors={"x": 1.0, "sampler": random.Random(3)})
        first, second = (s["fp"] for s in of_kind(read(self.trace()), "step"))
        self.assertEqual(list(first), ["rng.python", "rng.sampler", "x"])
        self.assertEqual([first[n] == second[n] for n in ("x", "rng.sampler", "rng.python")], [True, True, False])
        with samebits.record(self.trace(), rng=False) as r:
            r.step(tensors={"x": 1.0})
        self.assertEqual(list(of_kind(read(self.trace()), "step")[0]["fp"]), ["x"])

    def test_generators_that_nobody_uses(self):
        """Would fail if a generator that was never seeded made equal runs differ, or was left out without a word."""
        with samebits.record(self.trace(), rng=True) as r:
            r.step(tensors={"x": 1.0})
        records = read(self.trace())
        self.assertEqual(list(of_kind(records, "step")[0]["fp"]), ["x"])
        self.assertIn("rng.python", of_kind(records, "event")[-1]["detail"])

    @needs("numpy")
    def test_numpy_generators(self):
        """Would fail if a NumPy generator's state had a length that changes, or drawing from it did not show."""
        import numpy as np

        generators = {n: np.random.Generator(getattr(np.random, n)(1)) for n in ("PCG64", "MT19937", "Philox", "SFC64")}
        with samebits.record(self.trace()) as r:
            for _ in range(3):
                np.random.normal()
                r.step(tensors=generators)
                for generator in generators.values():
                    generator.random(3), generator.integers(5, dtype=np.uint32)
        steps = [s["fp"] for s in of_kind(read(self.trace()), "step")]
        for name in [f"rng.{n}" for n in generators] + ["rng.numpy"]:
            self.assertEqual(len({s[name] for s in steps}), 3, name)

    def test_metrics(self):
        """Would fail if a metric's bits were not those of its binary64, or NaN could not be recorded."""
        values = {"half": 0.5, "nan": math.nan, "inf": -math.inf, "zero": -0.0, "count": 3, "tiny": 5e-324}
        with samebits.record(self.trace()) as r:
            r.step(tensors={"x": 1.0}, metrics=values)
        found = of_kind(read(self.trace()), "step")[0]["metrics"]
        for name, value in values.items():
            self.assertEqual(found[name]["bits"], struct.pack(">d", value).hex(), name)
            self.assertEqual(found[name]["value"], value if math.isfinite(value) else None, name)

    def test_evaluations(self):
        """Would fail if an evaluation lacked SHA-256, or could not be told from the next one."""
        with samebits.record(self.trace()) as r:
            for step in range(2):
                r.step(model={"w": float(step)})
                r.eval(metrics={"accuracy": 0.5})
                r.eval(metrics={"accuracy": 0.25}, tensors={"q": array("d", [1.0])})
        records = read(self.trace())
        evaluations = of_kind(records, "eval")
        self.assertEqual([(e["step"], e["eval"]) for e in evaluations], [(0, 0), (0, 1), (1, 2), (1, 3)])
        self.assertEqual(evaluations[0]["sha256"]["model.w"], hashlib.sha256(struct.pack("<d", 0)).hexdigest())
        self.assertIn("q", evaluations[1]["sha256"])

    def test_state_that_moves_after_the_last_evaluation(self):
        """Would fail if a closing digest could contradict the record before it, which readers refuse."""
        weights = {"w": array("f", [1.0])}
        with samebits.record(self.trace(), every=10, rng=False) as r:
            r.step(model=weights)
            r.eval()
            weights["w"][0] = 2.0
            r.step(model=weights)
        records = read(self.trace())
        self.assertEqual([r.get("phase") for r in records], [None, None, None, "close", None])
        self.assertEqual(records[-1]["sha256"], records[-2]["sha256"])

    def test_late_names(self):
        """Would fail if a tensor that appears later were not declared before the record that names it."""
        with samebits.record(self.trace(), rng=False) as r:
            r.event("before", "the first step")
            r.step(tensors={"x": 1.0})
            r.step(tensors={"x": 1.0, "y": array("f", [1.0])})
        records = read(self.trace())
        self.assertEqual([r["kind"] for r in records], ["open", "event", "step", "event", "step", "close"])
        late = [{"name": "y", "dtype": "f32", "shape": [1], "coverage": "full"}]
        self.assertEqual((records[3]["name"], records[3]["tensors"]), ("declare", late))

    def test_containers(self):
        """Would fail if nested containers lost their names, or what is no tensor went missing without a word."""

        @dataclasses.dataclass
        class Pair:
            first: float
            second: object

        with samebits.record(self.trace(), rng=False) as r:
            r.step(model={"a": [1.0, {"b": 2.0}], "pair": Pair(1.0, None), "kind": "mlp"}, tensors={"mask": True})
        records = read(self.trace())
        names = ["mask", "model.a.0", "model.a.1.b", "model.pair.first"]
        self.assertEqual(list(of_kind(records, "step")[0]["fp"]), names)
        self.assertIn("model.kind (str)", of_kind(records, "event")[0]["detail"])

    def test_op_is_recorded_as_tensor(self):
        """Would fail if a level that cannot be had were claimed, or given silently."""
        run(self.trace(), level="op")
        records = read(self.trace())
        self.assertEqual(records[0]["level"], "tensor")
        self.assertEqual(of_kind(records, "event")[0]["name"], "level")

    def test_exit_is_clean(self):
        """Would fail if a script that ends by sys.exit(0) left a cut trace, or one that fails left a closed one."""
        for code, closed in ((0, True), (None, True), (1, False)):
            path = self.trace(f"exit-{code}.jsonl")
            with self.assertRaises(SystemExit), samebits.record(path) as r:
                r.step(tensors={"x": 1.0})
                raise SystemExit(code)
            self.assertEqual(path.exists(), closed)

    def test_without_anything(self):
        """Would fail if a run that recorded nothing had no trace."""
        with samebits.record(self.trace(), rng=False):
            pass
        self.assertEqual([r["kind"] for r in read(self.trace())], ["open", "close"])


class Contract(Case):
    """The environment by which `samebits` starts an engine."""

    def test_environment(self):
        """Would fail if samebits could not tell an engine where to write, how much, and with which seed."""
        values = {"SAMEBITS_TRACE": str(self.folder / "t" / "rank-0.jsonl"), "SAMEBITS_LEVEL": "tensor", "SAMEBITS_SEED": "7"}
        os.environ.update(values)
        self.assertEqual(samebits.seed(1), 7)
        with samebits.record() as r:
            r.step(tensors={"x": 1.0})
        opened = read(self.folder / "t" / "rank-0.jsonl")[0]
        self.assertEqual((opened["level"], opened["seed"]), ("tensor", 7))
        run(self.trace(), level="off", seed=3)
        opened = read(self.trace())[0]
        self.assertEqual((opened["level"], opened["seed"]), ("off", 3), "arguments win")
        del os.environ["SAMEBITS_SEED"]
        self.assertEqual((samebits.seed(1), samebits.seed()), (1, 0))

    def test_ranks(self):
        """Would fail if two ranks wrote one file."""
        os.environ.update(SAMEBITS_TRACE=str(self.folder / "rank-0.jsonl"), RANK="1", WORLD_SIZE="2")
        with samebits.record() as r:
            r.step(tensors={"x": 1.0})
        records = read(self.folder / "rank-1.jsonl")
        self.assertEqual({r["rank"] for r in records}, {1})
        self.assertEqual(records[0]["world_size"], 2)

    def test_default_path_is_told(self):
        """Would fail if a script without any setting lost its trace, or did not say where it is."""
        out, err = self.run_python("import samebits\nwith samebits.record() as r: r.step(tensors={'x': 1.0})")
        (path,) = self.folder.glob(".samebits/traces/python-*/rank-0.jsonl")
        self.assertEqual((out, err), ("", f"samebits: trace {path.relative_to(self.folder)}\n"))

    def test_malformed(self):
        """Would fail if a setting that means nothing were taken for another."""
        for values, words in [
            ({"SAMEBITS_LEVEL": "full"}, "SAMEBITS_LEVEL is 'full', expected one of: off"),
            ({"SAMEBITS_SEED": "-1"}, "SAMEBITS_SEED is '-1', expected a decimal number"),
            ({"SAMEBITS_SEED": str(1 << 64)}, "SAMEBITS_SEED"),
            ({"SAMEBITS_TRACE": "a.jsonl.zst"}, "plain files"),
            ({"SAMEBITS_TRACE": ""}, "folder or empty"),
            ({"WORLD_SIZE": "2"}, "RANK is not set"),
            ({"WORLD_SIZE": "2", "RANK": "2"}, "less than WORLD_SIZE"),
            ({"WORLD_SIZE": "two"}, "WORLD_SIZE is 'two'"),
        ]:
            os.environ.update(values)
            with self.subTest(values), self.assertRaisesRegex(samebits.RecordError, words):
                samebits.record()
            for name in values:
                del os.environ[name]


class Refusals(Case):
    """Each error names what was found and what to do."""

    def refused(self, words, **given):
        with self.subTest(words), self.assertRaisesRegex(samebits.RecordError, words):
            with samebits.record(self.trace(), rng=False) as r:
                r.step(**given)
        self.assertFalse(self.trace().exists(), "a refused run has no closed trace")

    def test_steps(self):
        """Would fail if a trace could be written that readers refuse, or that hides what was not recorded."""
        self.refused("two tensors are named 'model.a.b'", model={"a.b": 1.0, "a": {"b": 2.0}})
        self.refused("control characters", tensors={"a\nb": 1.0})
        self.refused("control characters", tensors={"": 1.0})
        self.refused("control characters", tensors={"\ud800": 1.0})
        self.refused("metric name ''", tensors={"x": 1.0}, metrics={"": 1.0})
        self.refused("metric loss: found str", tensors={"x": 1.0}, metrics={"loss": "low"})
        self.refused("x: found a builtins.set, expected a tensor", tensors={"x": {1.0}})
        self.refused("does not fit into 64 bits", tensors={"x": 1 << 70})
        self.refused("nothing to record", metrics={"loss": 1.0})
        self.refused("tensors is a list, expected a dict", tensors=[1.0])

    def test_shapes(self):
        """Would fail if a tensor could change its shape or type under one name."""
        with self.assertRaisesRegex(samebits.RecordError, r"x: declared as f32\[2\], now f32\[3\]; .* another name"):
            with samebits.record(self.trace()) as r:
                r.step(tensors={"x": array("f", [1, 2])})
                r.step(tensors={"x": array("f", [1, 2, 3])})

    @needs("numpy")
    def test_arrays_without_honest_bytes(self):
        """Would fail if padding or pointers, which differ between equal runs, were compared."""
        import numpy as np

        self.refused("padding or pointers", tensors={"x": np.array([object()])})
        self.refused("padding or pointers", tensors={"x": np.zeros(2, np.longdouble)})
        self.refused("padding or pointers", tensors={"x": np.zeros(2, [("a", "u1"), ("b", "f8")])})

    def test_options(self):
        """Would fail if an option that means nothing were accepted."""
        for options, words in [
            ({"every": 0}, "every is 0"),
            ({"level": "all"}, "level is 'all'"),
            ({"include": []}, "include is"),
            ({"exclude": [3]}, "exclude is"),
            ({"seed": -1}, "seed is '-1'"),
            ({"settings": {"x": math.nan}}, "not JSON"),
            ({"settings": "x" * (1 << 20)}, "settings of"),
        ]:
            with self.subTest(options), self.assertRaisesRegex(samebits.RecordError, words):
                samebits.record(self.trace(), **options)

    def test_threads_take_turns(self):
        """Would fail if records of two threads could be chained to the same one before."""
        with samebits.record(self.trace(), rng=False) as r:
            r.step(tensors={"w": 1.0})
            threads = [threading.Thread(target=lambda: [r.event("tick") for _ in range(50)]) for _ in range(4)]
            [t.start() for t in threads]
            [t.join() for t in threads]
        self.assertEqual(len(of_kind(read(self.trace()), "event")), 200)

    def test_a_fork_does_not_write(self):
        """Would fail if a forked process could write into, or close, its parent's trace."""
        with samebits.record(self.trace(), rng=False) as r:
            r.step(tensors={"w": 1.0})
            child = os.fork()
            if child == 0:
                try:
                    r.close()
                    r.event("child")
                except samebits.RecordError:
                    os._exit(7)
                os._exit(0)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        self.assertEqual([record["kind"] for record in read(self.trace())], ["open", "step", "close"])

    def test_what_was_refused_is_not_in_the_chain(self):
        """Would fail if a caught refusal left the chain, or a name as declared, of a record that was never written."""
        with samebits.record(self.trace(), rng=False) as r:
            w = array("f", [1.0])
            r.step(tensors={"w": w})
            with self.assertRaises(samebits.RecordError):
                r.step(tensors={"new": 2.0, "w": array("f", [1.0, 2.0])}, step=5)
            for step in (10**30, 6.5):
                with self.assertRaises(samebits.RecordError):
                    r.step(tensors={"w": w}, step=step)
            r.step(tensors={"w": w, "new": 2.0}, step=9)
        self.assertEqual([r["step"] for r in of_kind(read(self.trace()), "step")], [0, 9])

    def test_use_after_close(self):
        """Would fail if a record could come after the closing one."""
        with samebits.record(self.trace()) as r:
            r.step(tensors={"x": 1.0})
        for call in (r.step, r.eval, lambda: r.event("x")):
            with self.assertRaisesRegex(samebits.RecordError, "was closed"):
                call()
        r.close()

    def test_two_runs_of_one_path(self):
        """Would fail if two runs could write into one file."""
        with samebits.record(self.trace()):
            with self.assertRaisesRegex(samebits.RecordError, "another run is writing"):
                samebits.record(self.trace())


if __name__ == "__main__":
    unittest.main()
