"""Inception-v3 as Keras has it, from a file's tensors: the definition that Colla's is compared with.

One call of unit() for each layer, with the filters and the kernel that it is to have, in the order of
Keras' model; nothing here is taken from Colla but the names.
"""

import torch
from safetensors.torch import load_file
from torch.nn import functional as F


def average(x):
    """The mean over the neighbours that there are."""
    sums = F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 1)
    return sums / F.avg_pool2d(F.pad(torch.ones_like(x), (1, 1, 1, 1)), 3, 1)


def largest(x):
    return F.max_pool2d(x, 3, 2)


class Inception:
    def __init__(self, tensors):
        self.tensors = tensors
        self.used = set()

    def take(self, name):
        self.used.add(name)
        return self.tensors[name]

    def unit(self, name, x, filters, rows, columns, stride=1, padding="same"):
        weight = self.take(name + ".conv.weight")
        assert weight.shape == (filters, x.shape[1], rows, columns), (name, weight.shape)
        y = F.conv2d(x, weight, None, stride, padding)
        shift, mean, variance = (
            self.take(f"{name}.bn.{part}").view(1, -1, 1, 1) for part in ("bias", "running_mean", "running_var")
        )
        return F.relu((y - mean) / torch.sqrt(variance + 1e-3) + shift)

    def chain(self, name, x, layers):
        for i, layer in enumerate(layers):
            x = self.unit(f"{name}_{i + 1}", x, *layer)
        return x

    def wide(self, name, x, pool):
        return torch.cat([
            self.chain(name + ".branch1x1", x, [(64, 1, 1)]),
            self.chain(name + ".branch5x5", x, [(48, 1, 1), (64, 5, 5)]),
            self.chain(name + ".branch3x3dbl", x, [(64, 1, 1), (96, 3, 3), (96, 3, 3)]),
            self.unit(name + ".pool", average(x), pool, 1, 1),
        ], 1)

    def long(self, name, x, middle):
        return torch.cat([
            self.chain(name + ".branch1x1", x, [(192, 1, 1)]),
            self.chain(name + ".branch7x7", x, [(middle, 1, 1), (middle, 1, 7), (192, 7, 1)]),
            self.chain(name + ".branch7x7dbl", x,
                       [(middle, 1, 1), (middle, 7, 1), (middle, 1, 7), (middle, 7, 1), (192, 1, 7)]),
            self.unit(name + ".pool", average(x), 192, 1, 1),
        ], 1)

    def forked(self, name, x):
        three = self.chain(name + ".branch3x3", x, [(384, 1, 1)])
        double = self.chain(name + ".branch3x3dbl", x, [(448, 1, 1), (384, 3, 3)])
        return torch.cat([
            self.unit(name + ".branch1x1", x, 320, 1, 1),
            self.unit(name + ".branch3x3_wide", three, 384, 1, 3),
            self.unit(name + ".branch3x3_high", three, 384, 3, 1),
            self.unit(name + ".branch3x3dbl_wide", double, 384, 1, 3),
            self.unit(name + ".branch3x3dbl_high", double, 384, 3, 1),
            self.unit(name + ".pool", average(x), 192, 1, 1),
        ], 1)

    def __call__(self, images):
        """Logits of images with numbers from 0 to 1."""
        x = self.unit("conv1", 2 * images - 1, 32, 3, 3, 2, "valid")
        x = self.unit("conv2", x, 32, 3, 3, 1, "valid")
        x = largest(self.unit("conv3", x, 64, 3, 3))
        x = self.unit("conv4", x, 80, 1, 1, 1, "valid")
        x = largest(self.unit("conv5", x, 192, 3, 3, 1, "valid"))
        for i, pool in enumerate((32, 64, 64)):
            x = self.wide(f"mixed{i}", x, pool)
        double = self.chain("mixed3.branch3x3dbl", x, [(64, 1, 1), (96, 3, 3)])
        x = torch.cat([
            self.unit("mixed3.branch3x3", x, 384, 3, 3, 2, "valid"),
            self.unit("mixed3.branch3x3dbl", double, 96, 3, 3, 2, "valid"),
            largest(x),
        ], 1)
        for i, middle in enumerate((128, 160, 160, 192)):
            x = self.long(f"mixed{4 + i}", x, middle)
        three = self.chain("mixed8.branch3x3", x, [(192, 1, 1)])
        seven = self.chain("mixed8.branch7x7x3", x, [(192, 1, 1), (192, 1, 7), (192, 7, 1)])
        x = torch.cat([
            self.unit("mixed8.branch3x3", three, 320, 3, 3, 2, "valid"),
            self.unit("mixed8.branch7x7x3", seven, 192, 3, 3, 2, "valid"),
            largest(x),
        ], 1)
        x = self.forked("mixed10", self.forked("mixed9", x))
        logits = F.linear(x.mean((2, 3)), self.take("fc.weight"), self.take("fc.bias"))
        assert self.used == set(self.tensors), set(self.tensors) - self.used
        return logits


def load(path):
    return Inception(load_file(path))
