"""Recording changes no bit of a training, and loads no library that the program has not loaded."""

import unittest

from support import Case, needs, of_kind, read

import samebits


class NoRecorder:
    """In place of a recorder."""

    def step(self, **_):
        pass

    eval = event = step

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Silent(Case):
    def test_nothing_is_imported(self):
        """Would fail if importing or using the package pulled in a library that the program does without."""
        source = f"""
import sys, samebits
heavy = ("numpy", "torch", "jax")
assert not any(name in sys.modules for name in heavy), "at import"
with samebits.record({str(self.trace())!r}) as r:
    r.step(tensors={{"x": 1.0}}, metrics={{"loss": 0.5}})
assert not any(name in sys.modules for name in heavy), "while recording"
"""
        self.run_python(source)
        self.assertEqual(list(of_kind(read(self.trace()), "step")[0]["fp"]), ["x"])

    @needs("numpy")
    def test_numpy(self):
        """Would fail if recording drew from a generator or wrote into an array."""
        import random

        import numpy as np

        def train(recorder):
            random.seed(1), np.random.seed(1)
            generator = np.random.default_rng(1)
            w = np.random.randn(200, 50).astype(np.float32)
            with recorder as r:
                for _ in range(5):
                    kept = generator.random(w.shape, dtype=np.float32) > random.random() / 2
                    w = w * kept - np.float32(0.01) * np.random.randn(*w.shape).astype(np.float32)
                    r.step(model={"w": w}, tensors={"g": generator}, metrics={"norm": float(np.abs(w).sum())})
                r.eval(metrics={"norm": 1.0})
            return w.tobytes(), random.getstate(), generator.bit_generator.state, np.random.get_state()[1].tobytes()

        plain = train(NoRecorder())
        for options in ({}, {"level": "tensor"}, {"every": 2}, {"level": "off"}):
            self.assertEqual(train(samebits.record(self.trace(), **options)), plain, options)

    @needs("torch")
    def test_torch(self):
        """Would fail if recording drew a number, left a mode behind, or took part in autograd: dropout would show."""
        import torch

        def modes():
            return (
                torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads(), torch.initial_seed(),
                torch.are_deterministic_algorithms_enabled(), torch.is_inference_mode_enabled(),
            )  # fmt: skip

        def train(recorder):
            torch.manual_seed(5)
            m = torch.nn.Sequential(torch.nn.Linear(30, 400), torch.nn.Dropout(0.3), torch.nn.Tanh(), torch.nn.Linear(400, 4))
            o = torch.optim.AdamW(m.parameters(), lr=1e-2)
            before, versions = modes(), []
            with recorder as r:
                for _ in range(5):
                    loss = m(torch.randn(16, 30)).square().mean()
                    o.zero_grad()
                    loss.backward()
                    o.step()
                    r.step(model=m, optimizer=o, metrics={"loss": loss})
                    versions += [(p._version, p.grad.sum().item(), p.requires_grad, p.grad_fn) for p in m.parameters()]
                m.eval()
                r.eval(metrics={"loss": loss})
            self.assertEqual(modes(), before)
            weights = b"".join(p.detach().numpy().tobytes() for p in m.parameters()) if hasattr(torch.ones(1), "numpy") else b""
            return weights, torch.get_rng_state().tolist(), versions

        plain = train(NoRecorder())
        for options in ({}, {"level": "tensor"}, {"every": 2}, {"level": "off"}):
            self.assertEqual(train(samebits.record(self.trace(), **options)), plain, options)

    @needs("jax")
    def test_jax(self):
        """Would fail if recording changed a JAX training, or typed keys and registered classes had no names."""
        import jax
        import jax.numpy as jnp

        @jax.tree_util.register_pytree_node_class
        class State:
            def __init__(self, w, key):
                self.w, self.key = w, key

            def tree_flatten(self):
                return (self.w, self.key), None

            @classmethod
            def tree_unflatten(cls, _, children):
                return cls(*children)

        @jax.jit
        def update(state):
            key, use = jax.random.split(state.key)
            return State(state.w - 0.1 * jax.random.normal(use, state.w.shape), key)

        def train(recorder):
            state = State(jnp.ones((30, 40)), jax.random.key(1))
            with recorder as r:
                for _ in range(3):
                    state = update(state)
                    r.step(model=state, metrics={"w": state.w.sum()})
            return state.w.tobytes(), jax.random.key_data(state.key).tobytes()

        plain = train(NoRecorder())
        self.assertEqual(train(samebits.record(self.trace())), plain)
        names = list(of_kind(read(self.trace()), "step")[0]["fp"])
        self.assertEqual(names[:2], ["rng.model.1", "model.0"])


@needs("torch")
class Torch(Case):
    def test_names(self):
        """Would fail if an optimizer that knows its parameters' names were recorded by number."""
        import torch

        m = torch.nn.Linear(3, 2)
        for given, expected in ((m.parameters(), "optimizer.0.exp_avg"), (m.named_parameters(), "optimizer.weight.exp_avg")):
            try:
                o = torch.optim.Adam(given)
            except TypeError:
                self.skipTest("not run: this PyTorch's optimizers take no names")
            m(torch.ones(1, 3)).sum().backward()
            o.step()
            with samebits.record(self.trace(), rng=False) as r:
                r.step(model=m, optimizer=o, tensors={"generator": torch.Generator()})
            names = list(of_kind(read(self.trace()), "step")[0]["fp"])
            self.assertIn(expected, names)
            self.assertIn("rng.generator", names)

    def test_metrics(self):
        """Would fail if a metric given as a tensor had other bits than its number."""
        import torch

        values = {"a": torch.tensor(0.1), "b": torch.tensor([2.5], dtype=torch.float64), "c": torch.tensor(7)}
        with samebits.record(self.trace()) as r:
            r.step(tensors={"x": torch.ones(2)}, metrics={**values, "d": 0.5})
        found = of_kind(read(self.trace()), "step")[0]["metrics"]
        self.assertEqual({n: m["value"] for n, m in found.items()}, {"a": values["a"].item(), "b": 2.5, "c": 7.0, "d": 0.5})
        with self.assertRaisesRegex(samebits.RecordError, "metric x: found Tensor"), samebits.record(self.trace()) as r:
            r.step(tensors={"x": torch.ones(2)}, metrics={"x": torch.ones(2)})

    def test_tensors_without_bytes(self):
        """Would fail if a tensor without dense data were recorded as something else."""
        import torch

        for tensor in (torch.ones(2, 2).to_sparse(), torch.ones(2, device="meta")):
            with self.assertRaisesRegex(samebits.RecordError, "expected a dense tensor"), samebits.record(self.trace()) as r:
                r.step(tensors={"x": tensor})


if __name__ == "__main__":
    unittest.main()
