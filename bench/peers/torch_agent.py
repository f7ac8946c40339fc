"""One worker of PyTorch, alone or under DistributedDataParallel over Gloo.

Usage: torch_agent.py SOCKET SYSTEM RANK NP STORE
"""

import ctypes
import os
import sys
import time

import torch
import torch.distributed as dist
from agent import NP, RANK, THREADS, serve
from torch import nn
from torch.nn import functional as F
from torch_models import MODELS


def map_file(path, dtype):
    size = os.path.getsize(path) // torch.empty(0, dtype=dtype).element_size()
    return torch.from_file(path, shared=True, size=size, dtype=dtype)


class Training:
    """The data, and a model that is trained on it."""

    def __init__(self, name, samples, batch, share, rate, path):
        ctypes.CDLL(None).malloc_trim(0)  # What the model before took, as Colla's workers do.
        self.name, self.rate = name, float(rate)
        self.samples, self.batch, self.share = int(samples), int(batch), int(share)
        self.deepfam = name.startswith("deepfam")
        kind = torch.uint8 if self.deepfam else torch.int64 if name == "lm" else torch.float32
        self.inputs = map_file(path + ".x", kind).view(self.samples, -1)
        self.targets = map_file(path + ".y", torch.int64)
        if name == "lr":
            self.targets = self.targets.float()
        self.images = name in ("resnet50v2", "inceptionv3")
        if self.images:
            self.inputs = self.inputs.view(-1, 3, 128, 128)
        if name == "lm":
            self.targets = self.targets.view(self.samples, -1)
        self.weights = map_file(path + ".w", torch.float32)
        self.inputs.sum()  # Every page is in the page table before anything is measured.
        self.restart()

    def restart(self):
        self.model = self.optimizer = self.loss = None  # The old ones go before the new come.
        model = MODELS[self.name]()
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        nn.utils.vector_to_parameters(self.weights.clone(), trained)
        if self.images:
            model = model.to(memory_format=torch.channels_last)
        self.model = model
        if NP > 1:
            model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        self.loss = self.loss_of(model)
        self.optimizer = self.optimizer_of(trained)
        self.next = 0

    def loss_of(self, model):
        if self.name == "lm":
            return model
        if self.name == "lr":
            return lambda x, y: F.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
        if self.deepfam:
            last = self.model.fc2.weight
            return lambda x, y: F.cross_entropy(model(x), y) + 0.0005 * last.square().sum()
        return lambda x, y: F.cross_entropy(model(x), y)

    def optimizer_of(self, trained):
        if self.name == "lm":
            return torch.optim.Adagrad(trained, lr=self.rate, initial_accumulator_value=0.1)
        method = torch.optim.Adam if self.deepfam else torch.optim.SGD
        return method(trained, lr=self.rate)

    def train(self, steps):
        inputs, targets, loss_of, optimizer = self.inputs, self.targets, self.loss, self.optimizer
        samples, batch, share = self.samples, self.batch, self.share
        mine = RANK * share
        loss = None
        for _ in range(steps):
            begin = self.next + mine
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(inputs[begin : begin + share], targets[begin : begin + share])
            loss.backward()
            optimizer.step()
            self.next = (self.next + batch) % samples
        return loss.detach()

    def verify(self, steps):
        loss = None
        for step in range(steps):
            if self.name == "lm":  # Other candidates would give a different loss.
                self.model.seed_as_colla(step, RANK)
            loss = self.train(1)
        loss = loss.item()
        self.restart()
        return loss

    def measure(self, steps):
        if NP > 1:
            dist.barrier()
        start = time.perf_counter()
        self.train(steps)
        return time.perf_counter() - start


def main():
    torch.set_num_threads(THREADS)
    if NP > 1:
        store = f"file://{sys.argv[5]}"
        dist.init_process_group("gloo", init_method=store, rank=RANK, world_size=NP)
    return serve(Training)


if __name__ == "__main__":
    sys.exit(main())
