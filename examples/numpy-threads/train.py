"""Fits a linear model by gradient descent in NumPy; leaves out/model.npz."""

import os

import numpy as np

rng = np.random.default_rng(seed=1)
x = rng.standard_normal((20_000, 100))
y = x @ rng.standard_normal(100) + rng.standard_normal(20_000)

weights, losses = np.zeros(100), []
for step in range(20):
    error = x @ weights - y
    weights -= 0.1 * (x.T @ error) / len(x)
    losses.append(error @ error / len(x))

os.makedirs("out", exist_ok=True)
np.savez("out/model.npz", weights=weights, losses=losses)
print(f"loss {losses[-1]:.6f}")
