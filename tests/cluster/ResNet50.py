"""A small residual network on made-up images: one process, `--n_gpus` of them, or as many as a launcher started."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

import colla
import colla.torch as hvd


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm2d(width)
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + self.second(F.relu(self.first(F.relu(self.norm(x)))))


def train(epochs, batch_size):
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    labels = torch.arange(512) % 4
    images = torch.randn(4, 3, 8, 8)[labels] + 0.5 * torch.randn(512, 3, 8, 8)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 2), Block(8), Block(8), nn.Flatten(), nn.Linear(72, 4))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), named_parameters=model.named_parameters()
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    share = batch_size // hvd.size()
    for epoch in range(epochs):
        total = 0.0
        for start in range(hvd.rank() * share, len(labels), batch_size):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images[start : start + share]), labels[start : start + share])
            loss.backward()
            optimizer.step()
            total += loss.item()
        mean = hvd.allreduce(torch.tensor(total * batch_size / len(labels)), name="loss").item()
        if hvd.rank() == 0:
            print(f"{hvd.size()} workers, epoch {epoch + 1}: loss {mean:.4f}", flush=True)
    hvd.shutdown()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--n_gpus", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.n_gpus > 1:
        colla.run(train, (arguments.epochs, arguments.batch_size), np=arguments.n_gpus)
    else:
        train(arguments.epochs, arguments.batch_size)


if __name__ == "__main__":
    main()
