"""PyTorch on an NVIDIA GPU: the same fingerprints as on the host, silence, and one small copy a recorded step."""

import unittest
import warnings

from support import Case, has, of_kind, read

import samebits
from samebits import _fingerprint


def reason():
    if not has("torch", "numpy"):
        return "not run: torch, numpy not installed"
    import torch

    return None if torch.cuda.is_available() else "not run: no CUDA device"


def train(path, seed=1, **options):
    """Six updates of a network with dropout on the GPU; its weights and the generator's state."""
    import torch

    torch.manual_seed(seed)
    m = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Dropout(0.2), torch.nn.ReLU(), torch.nn.Linear(512, 8)).cuda()
    optimizer = torch.optim.Adam(m.parameters())
    recorder = samebits.record(path, **options) if path else None
    for _ in range(6):
        loss = m(torch.randn(32, 64, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if recorder:
            recorder.step(model=m, optimizer=optimizer, metrics={"loss": loss})
    if recorder:
        recorder.eval(metrics={"loss": loss})
        recorder.close()
    weights = b"".join(p.detach().cpu().numpy().tobytes() for p in m.parameters())
    return weights, torch.cuda.get_rng_state().tolist()


@unittest.skipIf(reason(), reason())
class Cuda(Case):
    def test_types_and_views(self):
        """Would fail if a type, a stride or an offset gave other bits on the GPU than on the host."""
        import torch

        from samebits import _torch

        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.bool, torch.complex64, torch.int64, torch.uint8):
            x = torch.randn(70, 91, device="cuda").abs().to(dtype)
            for view in (x, x.T, x[1:, 3:], x.flatten()[1:], x[:0], x[0, 0]):
                expected = _fingerprint.of_bytes(_torch.flat(view.cpu()).numpy().tobytes())
                self.assertEqual(_torch.lanes([_torch.flat(view)], [])[0], [expected], dtype)
                self.assertEqual(_torch.sha256(view), _torch.sha256(view.cpu()), dtype)

    def test_large(self):
        """Would fail if a tensor of several chunks lost a block on the GPU."""
        import torch

        from samebits import _torch

        for size in (65_536 * 256, 40_000_001):
            x = torch.randint(-(2**31), 2**31 - 1, (size,), device="cuda", dtype=torch.int32)
            self.assertEqual(_torch.lanes([_torch.flat(x)], []), _torch.lanes([_torch.flat(x.cpu())], []))

    def test_silent(self):
        """Would fail if recording changed a bit of a training on the GPU, its generator included."""
        plain = train(None)
        for options in ({}, {"level": "tensor"}, {"every": 2}):
            self.assertEqual(train(self.trace(), **options), plain, options)

    def test_runs(self):
        """Would fail if equal runs on one GPU had other records, another seed had the same, or the GPU had no name."""
        runs = []
        for seed in (1, 1, 2):
            train(self.trace(), seed)
            runs.append(read(self.trace()))
        a, b, c = ([{k: r.get(k) for k in ("kind", "fp", "sha256", "metrics")} for r in run] for run in runs)
        self.assertTrue(a == b and a != c)
        self.assertIn("rng.cuda.0", of_kind(runs[0], "step")[0]["fp"])
        self.assertTrue({"torch", "cuda", "gpu"} <= set(runs[0][0]["identity"]["keyed"]))

    def test_one_small_copy_a_step(self):
        """Would fail if a recorded step waited for the GPU more than once: a warning counts each waiting."""
        import torch

        m = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
        loss = m(torch.ones(1, 512, device="cuda")).sum()
        with samebits.record(self.trace()) as r:
            r.step(model=m, metrics={"loss": loss})
            self.addCleanup(torch.cuda.set_sync_debug_mode, "default")
            torch.cuda.set_sync_debug_mode("warn")
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                r.step(model=m, metrics={"loss": loss})
            torch.cuda.set_sync_debug_mode("default")
        self.assertEqual(len([w for w in told if "synchroniz" in str(w.message)]), 1, [str(w.message) for w in told])


if __name__ == "__main__":
    unittest.main()
