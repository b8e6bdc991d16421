"""The DQN update of `benches/cpu_update.rs` in JAX, jitted, on the CPU.

    pip install jax
    taskset -c 0,1 python benches/peers/dqn_jax.py [--medium]     # threads = the cores it may use

One update: three forwards, double-DQN target, Huber, backward, clip by global norm, Adam, Polyak; a given batch.
"""

import os
import statistics
import sys
import time

import jax
import jax.numpy as jnp

HEADS = (1, 5, 5, 5)


def network(key, d, bottleneck, h):
    sizes = [(d, bottleneck), (bottleneck, h), (h, h), (h, 2 * h)] + [(h // 2, n) for n in HEADS]
    keys = jax.random.split(key, len(sizes))
    return [(jax.random.uniform(k, s, minval=-1, maxval=1) * s[0] ** -0.5, jnp.zeros(s[1])) for k, s in zip(keys, sizes)]


def q_values(net, x):
    for w, b in net[:4]:  # the fourth is the four heads' hidden layers side by side
        x = jax.nn.relu(x @ w + b)
    v, *a = (x @ w + b for x, (w, b) in zip(jnp.split(x, 4, axis=1), net[4:]))
    a = jnp.stack(a, axis=1)
    return v[:, None] + a - a.mean(axis=2, keepdims=True)


def update(state, batch):
    online, target, m, v, t = state
    obs, next_obs, actions, returns, done = batch
    picks = q_values(online, next_obs).argmax(axis=2)[..., None]
    mean = jnp.take_along_axis(q_values(target, next_obs), picks, axis=2).mean(axis=(1, 2))
    y = jnp.where(done, returns, returns + 0.97 * mean)

    def loss(net):
        delta = jnp.take_along_axis(q_values(net, obs), actions, axis=2)[..., 0] - y[:, None]
        size = jnp.abs(delta)
        return jnp.where(size <= 1, 0.5 * delta * delta, size - 0.5).mean()

    g = jax.grad(loss)(online)
    norm = jnp.sqrt(sum(jnp.vdot(x, x) for x in jax.tree.leaves(g)))
    g = jax.tree.map(lambda x: x * jnp.where(norm > 10.0, 10.0 / norm, 1.0), g)
    t = t + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    a, b = 1e-4 / (1 - 0.9**t), 1 / jnp.sqrt(1 - 0.999**t)
    online = jax.tree.map(lambda w, m, v: w - a * m / (jnp.sqrt(v) * b + 1e-8), online, m, v)
    target = jax.tree.map(lambda x, w: x + 0.005 * (w - x), target, online)
    return online, target, m, v, t


def run(name, h, batch, repeats):
    keys = jax.random.split(jax.random.key(1), 7)
    online, target = network(keys[0], 64, 32, h), network(keys[1], 64, 32, h)
    m, v = (jax.tree.map(jnp.zeros_like, online) for _ in range(2))
    state = (online, target, m, v, jnp.float32(0))
    data = (
        jax.random.normal(keys[2], (batch, 64)), jax.random.normal(keys[3], (batch, 64)),
        jax.random.randint(keys[4], (batch, 3, 1), 0, 5), jax.random.normal(keys[5], (batch,)),
        jax.random.uniform(keys[6], (batch,)) < 0.02)
    step = jax.jit(update, donate_argnums=0)
    seconds = []
    for i in range(repeats + repeats // 10 + 1):
        start = time.perf_counter()
        state = jax.block_until_ready(step(state, data))
        if i > repeats // 10:
            seconds.append(time.perf_counter() - start)
    threads = len(os.sched_getaffinity(0))
    print(f"{name:4} {threads:7} {min(seconds) * 1e3:9.3f} {statistics.median(seconds) * 1e3:10.3f}", flush=True)


print(f"JAX {jax.__version__}\nsize threads   best ms  median ms")
run("S", 256, 256, 300)
if "--medium" in sys.argv:
    run("M", 1024, 4096, 6)
