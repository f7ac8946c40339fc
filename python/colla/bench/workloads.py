"""What is measured: models as users write them, with a batch of data for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor, nn


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions, the middle one with the stride."""

    def __init__(self, channels: int, width: int, stride: int):
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.shortcut = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50(classes: int = 1000) -> nn.Module:
    """ResNet-50: 25,557,032 parameters with 1,000 classes."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, stride if block == 0 else 1))
            channels = 4 * width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
    )


def mlp() -> nn.Module:
    """784-100-100-10, as for MNIST."""
    return nn.Sequential(
        nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10)
    )


def embedding(sparse: bool) -> nn.Module:
    """A table of 200,000 x 128, twenty words of which are averaged and told apart."""
    return nn.Sequential(nn.EmbeddingBag(200_000, 128, sparse=sparse), nn.Linear(128, 10))


def _images(batch: int, *shape: int, classes: int = 10) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, *shape), torch.randint(classes, (batch,))


def _words(batch: int) -> tuple[Tensor, Tensor]:
    return torch.randint(200_000, (batch, 20)), torch.randint(10, (batch,))


@dataclasses.dataclass(frozen=True)
class Training:
    """One model in DistributedDataParallel; `batch` is each rank's, `data` makes one."""

    name: str
    model: Callable[[], nn.Module]
    data: Callable[[int], tuple[Tensor, Tensor]]
    batch: int
    steps: int  # In one round.
    target: float  # How many times faster than Gloo it should be.


TRAININGS = (
    Training("mlp", mlp, lambda n: _images(n, 784), batch=50, steps=100, target=2.0),
    Training(
        "resnet50", resnet50, lambda n: _images(n, 3, 128, 128, classes=1000), 8, 1, target=1.03
    ),
    Training("embedding-dense", lambda: embedding(False), _words, 64, 3, target=3.0),
    Training("embedding-sparse", lambda: embedding(True), _words, 64, 20, target=1.25),
)


@dataclasses.dataclass(frozen=True)
class Reduction:
    """all_reduce of a float32 tensor of so many bytes."""

    bytes: int
    calls: int  # In one round.
    target: float


REDUCTIONS = (
    Reduction(1 << 10, calls=200, target=20.0),
    Reduction(4 << 20, calls=20, target=5.0),
    Reduction(32 << 20, calls=5, target=5.0),
    Reduction(100 << 20, calls=3, target=5.0),
)
