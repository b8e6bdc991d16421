"""Trains a small classifier on made-up points. Usage: train_numpy.py OUTPUT.npz"""

import sys

import numpy as np


def points(n):
    generator = np.random.default_rng(7)
    x = generator.standard_normal((n, 8))
    return x, (x.sum(1) > 0).astype(float)


def gradient(w, x, y):
    p = 1 / (1 + np.exp(-x @ w))
    return x.T @ (p - y) / len(y)


def main(output):
    # SEED
    x, y = points(600)
    w = 0.01 * np.random.standard_normal(8)
    for epoch in range(3):
        order = np.random.permutation(500)
        for batch in order.reshape(-1, 50):
            w -= 0.5 * gradient(w, x[batch], y[batch])
    accuracy = ((x[500:] @ w > 0) == y[500:]).mean()
    np.savez(output, w=w, accuracy=accuracy)
    print(f"accuracy {accuracy:.3f}")


main(sys.argv[1])
