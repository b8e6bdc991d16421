"""The DQN update of `benches/cpu_update.rs` in PyTorch, eager, on the CPU.

    pip install torch            # CPU build
    python benches/peers/dqn_torch.py [--medium]

One update: three forwards, double-DQN target, Huber, backward, clip by global norm, fused Adam, Polyak; a given batch.
"""

import statistics
import sys
import time

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, d, bottleneck, h):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(d, bottleneck), nn.ReLU(), nn.Linear(bottleneck, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())
        self.hidden = nn.Linear(h, 2 * h)  # the four heads' hidden layers side by side, as a tuned program has them
        self.out = nn.ModuleList(nn.Linear(h // 2, n) for n in (1, 5, 5, 5))

    def forward(self, x):
        hidden = torch.relu(self.hidden(self.trunk(x))).chunk(4, dim=1)
        v, *a = (out(x) for out, x in zip(self.out, hidden))
        a = torch.stack(a, dim=1)
        return v[:, None] + a - a.mean(dim=2, keepdim=True)


def run(name, h, batch, repeats, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    online, target = Net(64, 32, h), Net(64, 32, h)
    adam = torch.optim.Adam(online.parameters(), lr=1e-4, fused=True)
    weights, targets = list(online.parameters()), list(target.parameters())
    obs, next_obs, returns = torch.randn(batch, 64), torch.randn(batch, 64), torch.randn(batch)
    actions, done = torch.randint(5, (batch, 3, 1)), torch.rand(batch) < 0.02

    def update():
        with torch.no_grad():
            picks = online(next_obs).argmax(dim=2, keepdim=True)
            m = target(next_obs).gather(2, picks).squeeze(2).mean(dim=1)
            y = torch.where(done, returns, returns + 0.97 * m)
        q = online(obs).gather(2, actions).squeeze(2)
        loss = nn.functional.huber_loss(q, y[:, None].expand_as(q))
        adam.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 10.0)
        adam.step()
        with torch.no_grad():
            torch._foreach_lerp_(targets, weights, 0.005)

    seconds = []
    for i in range(repeats + repeats // 10 + 1):
        start = time.perf_counter()
        update()
        if i > repeats // 10:
            seconds.append(time.perf_counter() - start)
    print(f"{name:4} {threads:7} {min(seconds) * 1e3:9.3f} {statistics.median(seconds) * 1e3:10.3f}", flush=True)


print(f"PyTorch {torch.__version__}\nsize threads   best ms  median ms")
for threads in (1, 2):
    run("S", 256, 256, 300, threads)
if "--medium" in sys.argv:
    for threads in (1, 2):
        run("M", 1024, 4096, 6, threads)
