"""Writes a samebits trace from plain Python: all that an engine of your own has to do. No dependencies.

As a program it trains a line through some points, and leaves a trace where SAMEBITS_TRACE says."""

import hashlib
import json
import math
import os
import random
import struct

MASK = 2**64 - 1


def mix64(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


KEYS = [[mix64(((k * 256 + i + 1) * 0x9E3779B97F4A7C15) & MASK) & 0xFFFFFFFF for i in range(256)] for k in (0, 1)]


def fingerprint(data):
    """fp/1 of bytes, as docs/contract.md defines it."""
    blocks = -(-len(data) // 1024)
    words = struct.unpack(f"<{256 * blocks}I", data.ljust(1024 * blocks, b"\0"))
    lanes = [mix64(len(data) + 1)] * 2
    for lane, key in enumerate(KEYS):
        for j in range(blocks):
            w = [word ^ k for word, k in zip(words[256 * j :], key)]
            block = sum(w[i] * w[i + 1] for i in range(0, 256, 2))
            lanes[lane] += mix64((block + (j + 1) * 0x9E3779B97F4A7C15) & MASK)
    return "".join(f"{lane & MASK:016x}" for lane in lanes)


class Trace:
    """One process's trace. `state` is called for the named tensors: {name: (dtype, shape, little-endian bytes)}."""

    def __init__(self, engine, state, path=os.environ.get("SAMEBITS_TRACE"), seed=None):
        self.state, self.records = state, 0
        self.chain = hashlib.sha256(b"samebits-trace/1").digest()
        self.level = "off" if os.environ.get("SAMEBITS_LEVEL") == "off" else "step"
        self.file = open(path, "w") if path else None
        tensors = [{"name": n, "dtype": d, "shape": s, "coverage": "full"} for n, (d, s, _) in state().items()]
        self.write(kind="open", schema="samebits-trace/1", rank=0, world_size=1, engine=engine, level=self.level,
                   seed=seed, identity={"keyed": {}, "noted": {}}, tensors=tensors)  # fmt: skip

    def write(self, **record):
        if self.file:
            text = json.dumps(record, separators=(",", ":"))[:-1]
            self.chain = hashlib.sha256(self.chain + text.encode()).digest()
            self.file.write(f'{text},"chain":"{self.chain.hex()}"}}\n')
            self.file.flush()  # so that a killed run leaves what it had
            self.records += 1

    def digests(self):
        return {name: hashlib.sha256(data).hexdigest() for name, (_, _, data) in self.state().items()}

    def record(self, kind, step, fold=0, metrics=None, **place):
        """`step` after an update, `eval` (with eval=number) after an evaluation, `fold` at the end of a fold."""
        if self.file and self.level != "off":
            number = lambda v: {"value": v if math.isfinite(v) else None, "bits": struct.pack(">d", v).hex()}
            bits = {name: number(v) for name, v in (metrics or {}).items()}
            fp = {name: fingerprint(data) for name, (_, _, data) in self.state().items()}
            sha256 = {} if kind == "step" else {"sha256": self.digests()}
            self.write(kind=kind, fold=fold, step=step, **place, fp=fp, **sha256, metrics=bits)

    def close(self, status="complete"):
        final, root = self.digests(), hashlib.sha256()
        for name, digest in final.items():
            root.update(struct.pack("<Q", len(name.encode())) + name.encode() + bytes.fromhex(digest))
        self.write(kind="close", records=self.records, status=status, sha256=final, root=root.hexdigest())


def main():
    seed = int(os.environ.get("SAMEBITS_SEED", "1"))
    rng, model = random.Random(seed), [0.0, 0.0]
    state = lambda: {
        "line": ("f64", [2], struct.pack("<2d", *model)),
        "rng.sampler": ("u32", [625], struct.pack("<625I", *rng.getstate()[1])),
    }
    trace = Trace("line-fitter 1.0", state, seed=seed)
    for step in range(20):
        x = rng.random()
        error = model[0] * x + model[1] - (3 * x + 1)
        model[:] = [model[0] - 0.5 * error * x, model[1] - 0.5 * error]
        trace.record("step", step, metrics={"loss": error * error})
    trace.record("eval", 20, eval=0, metrics={"at_1": model[0] + model[1]})
    trace.record("fold", 20)
    trace.close()


if __name__ == "__main__":
    main()
