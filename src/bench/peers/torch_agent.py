"""One worker of PyTorch, alone or under DistributedDataParallel over Gloo.

Speaks the protocol of src/bench/train_agent.h.
Usage: torch_agent.py SOCKET SYSTEM RANK NP STORE
"""

import os
import re
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

SOCKET, SYSTEM, RANK, NP, STORE = sys.argv[1:3] + [int(word) for word in sys.argv[3:5]] + sys.argv[5:]


class DeepFam(nn.Module):
    """As published, of the published size, without dropout."""

    def __init__(self, norm):
        super().__init__()
        table = torch.zeros(25, 21)
        table[1:21, :20] = torch.eye(20)
        for letter, classes in ((21, (2, 11)), (22, (3, 13)), (23, (7, 9))):
            table[letter, classes] = 0.5
        table[24, 20] = 1
        self.register_buffer("table", table)
        self.layers = nn.ModuleList()
        for window in range(8, 37, 4):
            layer = [nn.Conv1d(21, 256, window, bias=not norm)]
            if norm:
                layer.append(shift_norm(256))
            self.layers.append(nn.Sequential(*layer, nn.ReLU()))
        self.fc1 = nn.Sequential(nn.Linear(2048, 2000, bias=False), shift_norm(2000), nn.ReLU())
        self.fc2 = nn.Linear(2000, 48)

    def forward(self, sequence):
        x = F.embedding(sequence.long(), self.table).transpose(1, 2).contiguous()
        x = torch.cat([layer(x).max(2).values for layer in self.layers], 1)
        return self.fc2(self.fc1(x))


def shift_norm(features):
    norm = nn.BatchNorm1d(features, eps=1e-3)
    norm.weight.requires_grad_(False)
    return norm


def make_model(name):
    if name == "lr":
        return nn.Linear(10000, 1)
    if name == "softmax":
        return nn.Linear(784, 10)
    if name == "snn":
        return nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
    if name == "mlp":
        return nn.Sequential(
            nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10)
        )
    if name in ("deepfam", "deepfam-none"):
        return DeepFam(norm=name == "deepfam")
    raise ValueError(f"there is no model {name}")


def binary_cross_entropy(output, target):
    return F.binary_cross_entropy_with_logits(output.squeeze(1), target)


def map_file(path, dtype):
    size = os.path.getsize(path) // torch.empty(0, dtype=dtype).element_size()
    return torch.from_file(path, shared=True, size=size, dtype=dtype)


class Training:
    """The data, and a model that is trained on it."""

    def __init__(self, name, samples, batch, rate, path):
        self.name, self.samples, self.batch, self.rate = name, int(samples), int(batch), float(rate)
        self.deepfam = name.startswith("deepfam")
        kind = torch.uint8 if self.deepfam else torch.float32
        self.inputs = map_file(path + ".x", kind).view(self.samples, -1)
        self.targets = map_file(path + ".y", torch.int64)
        if name == "lr":
            self.targets = self.targets.float()
        self.weights = map_file(path + ".w", torch.float32)
        self.loss = binary_cross_entropy if name == "lr" else F.cross_entropy
        if self.deepfam:
            self.loss = self.deepfam_loss
        self.inputs.sum()  # Every page is in the page table before anything is measured.
        self.restart()

    def deepfam_loss(self, output, target):
        return F.cross_entropy(output, target) + 0.0005 * self.last.weight.square().sum()

    def restart(self):
        model = make_model(self.name)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        nn.utils.vector_to_parameters(self.weights.clone(), trained)
        self.last = model.fc2 if self.deepfam else None
        if NP > 1:
            model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        self.model = model
        method = torch.optim.Adam if self.deepfam else torch.optim.SGD
        self.optimizer = method(trained, lr=self.rate)
        self.next = 0

    def train(self, steps):
        inputs, targets, model, loss_of = self.inputs, self.targets, self.model, self.loss
        optimizer, samples, batch = self.optimizer, self.samples, self.batch
        share = batch // NP
        mine = RANK * share
        loss = None
        for _ in range(steps):
            begin = self.next + mine
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(model(inputs[begin : begin + share]), targets[begin : begin + share])
            loss.backward()
            optimizer.step()
            self.next = (self.next + batch) % samples
        return loss

    def verify(self, steps):
        loss = self.train(steps).item()
        self.restart()
        return loss

    def measure(self, steps):
        if NP > 1:
            dist.barrier()
        start = time.perf_counter()
        self.train(steps)
        return time.perf_counter() - start


def memory():
    with open("/proc/self/smaps_rollup") as rollup:
        return int(re.search(r"^Pss:\s+(\d+) kB", rollup.read(), re.MULTILINE).group(1)) * 1024


def main():
    torch.set_num_threads(1)
    if NP > 1:
        dist.init_process_group("gloo", init_method=f"file://{STORE}", rank=RANK, world_size=NP)
    coordinator = socket.socket(socket.AF_UNIX)
    coordinator.connect(SOCKET)
    lines = coordinator.makefile("rw", buffering=1)
    print("hello", SYSTEM, RANK, file=lines)
    training = None
    for line in lines:
        verb, _, rest = line.strip().partition(" ")
        try:
            if verb == "prepare":
                training = None  # The old data goes before the new comes.
                training = Training(*rest.split(" ", 4))
                print("ok", file=lines)
            elif verb == "verify":
                print("ok", f"{training.verify(int(rest)):.9g}", file=lines)
            elif verb == "measure":
                print("ok", f"{training.measure(int(rest)):.9f}", file=lines)
            elif verb == "memory":
                print("ok", memory(), file=lines)
            else:
                raise ValueError(f"{verb} means nothing to an agent")
        except Exception as error:  # The coordinator tells it; it knows which worker this is.
            print("error", " ".join(str(error).split()), file=lines)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
