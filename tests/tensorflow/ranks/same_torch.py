"""DATA FIRST OUT STEPS BATCH: trains the MLP of `colla train mlp --hidden 16` from the checkpoint FIRST, in PyTorch."""

import sys

import torch
from _same_data import batches

import colla.torch as hvd

data, first, out, steps, batch = *sys.argv[1:4], *map(int, sys.argv[4:])
hvd.init()


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = torch.nn.Linear(784, 16), torch.nn.Linear(16, 16), torch.nn.Linear(16, 10)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


model = Mlp()
hvd.load_checkpoint(first, model)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
for images, labels in batches(data, steps, batch, hvd.rank(), hvd.size()):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(torch.from_numpy(images)), torch.from_numpy(labels)).backward()
    optimizer.step()
hvd.save_checkpoint(out, model, step=steps)
