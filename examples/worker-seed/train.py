"""Augments images in worker processes and averages them; leaves out/mean.npy."""

import multiprocessing
import os
import random
import struct

SEED, WORKERS, PIXELS = 1, 2, 64
random.seed(SEED)
IMAGES = [[random.random() for _ in range(PIXELS)] for _ in range(200)]


def augment(worker):
    """Every image of this worker's share, with noise."""
    rng = random.Random()
    return [[pixel + rng.gauss(0, 0.01) for pixel in image] for image in IMAGES[worker::WORKERS]]


def save_npy(path, values):
    """A float32 array of one axis, as NumPy writes it."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header = header.ljust(-(10 + len(header) + 1) % 64 + len(header)) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(values)}f", *values))


if __name__ == "__main__":
    with multiprocessing.Pool(WORKERS) as pool:
        images = [image for share in pool.map(augment, range(WORKERS)) for image in share]
    os.makedirs("out", exist_ok=True)
    save_npy("out/mean.npy", [sum(column) / len(images) for column in zip(*images)])
