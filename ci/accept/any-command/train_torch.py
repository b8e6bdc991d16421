"""Trains a small classifier on made-up points. Usage: train_torch.py OUTPUT.pt"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_num_threads(1)


def points(n):
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(n, 8, generator=generator)
    return TensorDataset(x, (x.sum(1) > 0).long())


def model():
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))


def main(output):
    # SEED
    train, held_out = random_split(points(600), [500, 100])
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(3):
        net.train()
        for x, y in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
    net.eval()
    x, y = next(iter(DataLoader(held_out, batch_size=100)))
    accuracy = (net(x).argmax(1) == y).float().mean().item()
    torch.save({"model": net.state_dict(), "accuracy": accuracy}, output)
    print(f"accuracy {accuracy:.3f}")


main(sys.argv[1])
