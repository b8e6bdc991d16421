"""Trains with a scatter that adds by floating-point atomics. Usage: train_atomics.py OUTPUT.pt [deterministic]"""

import sys

import torch

import samebits

torch.manual_seed(1)
torch.use_deterministic_algorithms("deterministic" in sys.argv)
table = torch.nn.Parameter(torch.randn(64, 256, device="cuda"))
head = torch.nn.Linear(256, 1, device="cuda")
optimizer = torch.optim.Adam([table, *head.parameters()], lr=1e-3)
index = torch.randint(0, 64, (1_000_000,), device="cuda")
values = torch.randn(1_000_000, device="cuda")
target = torch.randn(64, 1, device="cuda")
with samebits.record() as r:
    for step in range(20):
        # A million additions into 64 places, in whatever order they come.
        pooled = torch.zeros(64, device="cuda").scatter_add(0, index, values) / 100
        loss = ((head(table * pooled[:, None]) - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        r.step(model={"table": table.detach(), **head.state_dict()}, optimizer=optimizer, tensors={"pooled": pooled}, metrics={"loss": loss.item()})
torch.save({"table": table, "head": head.state_dict()}, sys.argv[1])
