"""What recording costs a step: `python benches/overhead.py torch|numpy [--every N] [--steps N]`.

A network of about 0.2 million parameters trained by Adam, with and without a recorder in turn, so that both see the same
machine; the fastest of the rounds of each, which other work on the machine disturbs least. At `every = n` one step in n
pays, so the figure is the mean over all steps.
"""

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path

import samebits

LAYERS = (64, 256, 512, 128, 8)
BATCH = 256


class NoRecorder:
    """In place of a recorder."""

    def step(self, **_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def torch_steps(recorder, steps):
    import torch

    torch.manual_seed(1)
    layers = [m for a, b in zip(LAYERS, LAYERS[1:]) for m in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(BATCH, LAYERS[0])
    with recorder as r:
        for step in range(-20, steps):
            if step == 0:
                start = time.perf_counter()
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            r.step(model=model, optimizer=optimizer, metrics={"loss": loss})
        spent = time.perf_counter() - start
    return spent / steps, sum(p.numel() for p in model.parameters()), f"PyTorch {torch.__version__}"


def numpy_steps(recorder, steps):
    import numpy as np

    generator = np.random.default_rng(1)
    model, adam = {}, {}
    for i, (a, b) in enumerate(zip(LAYERS, LAYERS[1:])):
        model[f"{i}.weight"] = (generator.standard_normal((a, b)) / np.sqrt(a)).astype(np.float32)
        model[f"{i}.bias"] = np.zeros(b, np.float32)
    for name, w in model.items():
        adam[name] = {"m": np.zeros_like(w), "v": np.zeros_like(w)}
    x = generator.standard_normal((BATCH, LAYERS[0])).astype(np.float32)
    with recorder as r:
        for step in range(-20, steps):
            if step == 0:
                start = time.perf_counter()
            loss = numpy_update(np, model, adam, x)
            r.step(model=model, optimizer=adam, metrics={"loss": loss})
        spent = time.perf_counter() - start
    return spent / steps, sum(w.size for w in model.values()), f"NumPy {np.__version__}"


def numpy_update(np, model, adam, x):
    """One forward and backward pass and Adam; gives the loss."""
    count, f = len(LAYERS) - 1, np.float32
    values = [x]
    for i in range(count):
        values.append(np.maximum(values[-1] @ model[f"{i}.weight"] + model[f"{i}.bias"], 0))
    up = values[-1] * f(2 / values[-1].size)
    for i in reversed(range(count)):
        up = up * (values[i + 1] > 0)
        gradients = {f"{i}.weight": values[i].T @ up, f"{i}.bias": up.sum(0)}
        up = up @ model[f"{i}.weight"].T
        for name, g in gradients.items():
            m, v = adam[name]["m"], adam[name]["v"]
            m += f(0.1) * (g - m)
            v += f(0.001) * (g * g - v)
            model[name] -= f(1e-3) * m / (np.sqrt(v) + f(1e-8))
    return float((values[-1] ** 2).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", choices=("torch", "numpy"))
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    run = {"torch": torch_steps, "numpy": numpy_steps}[args.library]
    plain, recorded = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            seconds, parameters, version = run(NoRecorder(), args.steps)
            plain.append(seconds * 1e3)
            path = Path(folder) / "trace.jsonl"
            recorded.append(run(samebits.record(path, every=args.every), args.steps)[0] * 1e3)
    without, with_it = min(plain), min(recorded)
    more = with_it - without
    print(f"{version}, {platform.machine()}, {os.cpu_count()} cores: {parameters} parameters, batch {BATCH}, every = {args.every}")
    print(f"without {without:.3f} ms a step, with {with_it:.3f} ms; {more:+.3f} ms ({100 * more / without:+.1f} %) a step")


if __name__ == "__main__":
    main()
