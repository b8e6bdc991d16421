"""Trains 2 x 50 steps, `straight` or `resumed` from a checkpoint after 50; leaves out/final.safetensors."""

import json
import os
import pickle
import random
import struct
import sys

STEPS, SEED = 50, 1
DATA = [(x / 100, 3 * (x / 100) + 1) for x in range(100)]


class Sampler:
    """Draws examples, always one ahead, so that loading could overlap with training."""

    def __init__(self, rng):
        self.rng = rng
        self.ahead = rng.randrange(len(DATA))

    def next(self):
        index, self.ahead = self.ahead, self.rng.randrange(len(DATA))
        return DATA[index]


def train(model, sampler, steps):
    for _ in range(steps):
        x, y = sampler.next()
        error = model["slope"] * x + model["offset"] - y
        model["slope"] -= 0.1 * error * x
        model["offset"] -= 0.1 * error


def save(path, tensors):
    """A safetensors file: float64 scalars and the raw state of the generator."""
    header, data = {}, b""
    for name, (dtype, shape, part) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


rng = random.Random(SEED)
model, sampler = {"slope": 0.0, "offset": 0.0}, Sampler(rng)
train(model, sampler, STEPS)
if sys.argv[1] == "resumed":
    checkpoint = pickle.dumps({"model": model, "rng": rng.getstate()})
    state = pickle.loads(checkpoint)
    model, rng = state["model"], random.Random()
    rng.setstate(state["rng"])
    sampler = Sampler(rng)
train(model, sampler, STEPS)

os.makedirs("out", exist_ok=True)
tensors = {name: ("F64", [1], struct.pack("<d", value)) for name, value in model.items()}
tensors["rng.sampler"] = ("U32", [625], struct.pack("<625I", *rng.getstate()[1]))
save("out/final.safetensors", tensors)
