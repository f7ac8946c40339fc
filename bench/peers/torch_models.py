"""The models of `colla bench train` as a PyTorch user writes them.

Parameters stand in the order of Colla's.
"""

import functools
import math

import torch
from agent import WIDTHS
from torch import nn
from torch.nn import functional as F


def layers(*widths):
    parts = []
    for inputs, outputs in zip(widths, widths[1:]):
        parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*parts[:-1]) if len(parts) > 2 else parts[0]


def shift_norm(features):
    norm = nn.BatchNorm1d(features, eps=1e-3)
    norm.weight.requires_grad_(False)
    return norm


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


def image_norm(channels):
    return nn.BatchNorm2d(channels, eps=1.001e-5, momentum=0.01)


class Block(nn.Module):
    def __init__(self, width, filters, stride, project):
        super().__init__()
        self.stride = stride
        self.preact = image_norm(width)
        self.conv1 = nn.Conv2d(width, filters, 1, bias=False)
        self.bn1 = image_norm(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, stride, padding=1, bias=False)
        self.bn2 = image_norm(filters)
        self.conv3 = nn.Conv2d(filters, 4 * filters, 1)
        self.shortcut = nn.Conv2d(width, 4 * filters, 1, stride) if project else None

    def forward(self, x):
        first = F.relu(self.preact(x), inplace=True)
        if self.shortcut:
            x = self.shortcut(first)
        elif self.stride > 1:
            x = F.max_pool2d(x, 1, self.stride)
        y = F.relu(self.bn1(self.conv1(first)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        return self.conv3(y).add_(x)


class ResNet50V2(nn.Module):
    """As in Keras, with 10 classes. Channels-last: a tenth faster here than the other way."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3)
        stacks, width = [], 64
        for filters, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
            for block in range(count):
                stride = 2 if block == count - 1 and filters < 512 else 1
                stacks.append(Block(width, filters, stride, project=block == 0))
                width = 4 * filters
        self.stacks = nn.Sequential(*stacks)
        self.post = image_norm(width)
        self.fc = nn.Linear(width, 10)

    def forward(self, images):
        x = images.contiguous(memory_format=torch.channels_last).mul(2).sub_(1)
        x = F.max_pool2d(F.pad(self.conv1(x), (1, 1, 1, 1)), 3, 2)
        return self.fc(F.relu(self.post(self.stacks(x)), inplace=True).mean((2, 3)))


class Unit(nn.Module):
    def __init__(self, width, out, size, stride=1, pad=True):
        super().__init__()
        padding = [each // 2 for each in size] if pad else 0
        self.conv = nn.Conv2d(width, out, size, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(out, eps=1e-3, momentum=0.01)
        self.bn.weight.requires_grad_(False)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


def chain(width, *steps):
    """One unit for each (channels, height, width), one behind the other."""
    units = []
    for out, *size in steps:
        units.append(Unit(width, out, size))
        width = out
    return nn.Sequential(*units)


def average(x):
    return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)


class Branches(nn.Module):
    def __init__(self, width, pool, *chains):
        super().__init__()
        self.branches = nn.ModuleList([chain(width, *steps) for steps in chains])
        self.pool = Unit(width, pool, (1, 1))

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches] + [self.pool(average(x))], 1)


class Reduction(nn.Module):
    def __init__(self, width, *chains):
        super().__init__()
        self.branches = nn.ModuleList()
        for out, *steps in chains:
            last = Unit(steps[-1][0] if steps else width, out, (3, 3), 2, pad=False)
            self.branches.append(nn.Sequential(*chain(width, *steps), last))

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches] + [F.max_pool2d(x, 3, 2)], 1)


class Forked(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one = Unit(width, 320, (1, 1))
        self.three = Unit(width, 384, (1, 1))
        self.fork = nn.ModuleList([Unit(384, 384, (1, 3)), Unit(384, 384, (3, 1))])
        self.twice = chain(width, (448, 1, 1), (384, 3, 3))
        self.fork2 = nn.ModuleList([Unit(384, 384, (1, 3)), Unit(384, 384, (3, 1))])
        self.pool = Unit(width, 192, (1, 1))

    def forward(self, x):
        a, b = self.three(x), self.twice(x)
        parts = [each(a) for each in self.fork] + [each(b) for each in self.fork2]
        return torch.cat([self.one(x), *parts, self.pool(average(x))], 1)


class InceptionV3(nn.Module):
    """As in Keras, with 10 classes; channels-last."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            Unit(3, 32, (3, 3), 2, pad=False),
            Unit(32, 32, (3, 3), pad=False),
            Unit(32, 64, (3, 3)),
            nn.MaxPool2d(3, 2),
            Unit(64, 80, (1, 1), pad=False),
            Unit(80, 192, (3, 3), pad=False),
            nn.MaxPool2d(3, 2),
        )
        mixed, width = [], 192
        for pool in (32, 64, 64):
            double = ((64, 1, 1), (96, 3, 3), (96, 3, 3))
            mixed.append(Branches(width, pool, [(64, 1, 1)], [(48, 1, 1), (64, 5, 5)], double))
            width = 224 + pool
        mixed.append(Reduction(width, [384], [96, (64, 1, 1), (96, 3, 3)]))
        for m in (128, 160, 160, 192):
            single = [(m, 1, 1), (m, 1, 7), (192, 7, 1)]
            double = [(m, 1, 1), (m, 7, 1), (m, 1, 7), (m, 7, 1), (192, 1, 7)]
            mixed.append(Branches(768, 192, [(192, 1, 1)], single, double))
        long = [(192, 1, 1), (192, 1, 7), (192, 7, 1)]
        mixed.append(Reduction(768, [320, (192, 1, 1)], [192, *long]))
        self.mixed = nn.Sequential(*mixed, Forked(1280), Forked(2048))
        self.fc = nn.Linear(2048, 10)

    def forward(self, images):
        x = images.contiguous(memory_format=torch.channels_last).mul(2).sub_(1)
        return self.fc(self.mixed(self.stem(x)).mean((2, 3)))


class LanguageModel(nn.Module):
    """Embedding, LSTM with projection, sampled softmax; without dropout. Gives the loss."""

    WORDS, CANDIDATES = 200_000, 512

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(self.WORDS, 128, sparse=True)
        self.lstm = nn.LSTM(128, 256, proj_size=128)
        self.softmax = nn.Embedding(self.WORDS, 128, sparse=True)
        self.bias = nn.Embedding(self.WORDS, 1, sparse=True)
        self.generator = None  # PyTorch's own.

    def seed_as_colla(self, step, worker):
        """Draws the candidates that Colla draws: include/colla/random.h."""
        seed = mix_bits(mix_bits(mix_bits(1) ^ step) ^ worker)
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self):
        """Distinct candidates, the frequent ones likelier, and how many draws they took."""
        found, draws = {}, 0
        while len(found) < self.CANDIDATES:
            count = 2 * (self.CANDIDATES - len(found)) + 16
            unit = torch.rand(count, dtype=torch.float64, generator=self.generator)
            words = unit.mul_(math.log1p(self.WORDS)).exp_().long().sub_(1)
            words = words.clamp_(0, self.WORDS - 1).tolist()
            missing = self.CANDIDATES - len(found)
            new = list(dict.fromkeys(word for word in words if word not in found))[:missing]
            found.update(dict.fromkeys(new))
            draws += words.index(new[-1]) + 1 if len(new) == missing else count
        return torch.tensor(list(found)), draws

    def forward(self, words, following):
        states = self.lstm(self.embedding(words.t()))[0].flatten(0, 1)
        targets = following.t().flatten()
        candidates, draws = self.draw()
        both = torch.cat([targets, candidates])
        share = torch.log1p(1 / (both.double() + 1)) / math.log1p(self.WORDS)
        expected = torch.log(-torch.expm1(draws * torch.log1p(-share))).float()
        vectors, shifts = self.softmax(both), self.bias(both).squeeze(1) - expected
        rows = targets.numel()
        own = (states * vectors[:rows]).sum(1) + shifts[:rows]
        others = torch.addmm(shifts[rows:], states, vectors[rows:].t())
        others = others.masked_fill(targets.unsqueeze(1) == candidates, -math.inf)
        return (torch.cat([own.unsqueeze(1), others], 1).logsumexp(1) - own).mean()


def mix_bits(value):
    mask = 0xFFFFFFFFFFFFFFFF
    value = (value + 0x9E3779B97F4A7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


MODELS = {
    **{name: functools.partial(layers, *widths) for name, widths in WIDTHS.items()},
    "deepfam": lambda: DeepFam(norm=True),
    "deepfam-none": lambda: DeepFam(norm=False),
    "resnet50v2": ResNet50V2,
    "inceptionv3": InceptionV3,
    "lm": LanguageModel,
}
