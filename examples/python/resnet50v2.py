"""ResNet50V2 in PyTorch, with weights that Colla trained.

    colla train resnet50v2 --checkpoint-dir runs/resnet
    colla export runs/resnet --out resnet50v2.safetensors
    python3 resnet50v2.py resnet50v2.safetensors

prints the logits of a grey image. The logits are those of `colla predict resnet50v2
--classifier-activation none`, but for rounding.
"""

import sys

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F


def norm(channels):
    return nn.BatchNorm2d(channels, eps=1.001e-5, momentum=0.01)


class Block(nn.Module):
    def __init__(self, width, filters, stride, project):
        super().__init__()
        self.stride = stride
        self.preact = norm(width)
        self.shortcut = nn.Conv2d(width, 4 * filters, 1, stride) if project else None
        self.conv1 = nn.Conv2d(width, filters, 1, bias=False)
        self.bn1 = norm(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, stride, padding=1, bias=False)
        self.bn2 = norm(filters)
        self.conv3 = nn.Conv2d(filters, 4 * filters, 1)

    def forward(self, x):
        first = F.relu(self.preact(x))
        aside = self.shortcut(first) if self.shortcut else F.max_pool2d(x, 1, self.stride)
        y = F.relu(self.bn1(self.conv1(first)))
        y = F.relu(self.bn2(self.conv2(y)))
        return aside + self.conv3(y)


class ResNet50V2(nn.Module):
    """Images are numbers from 0 to 1, samples x channels x height x width."""

    def __init__(self, classes, blocks=(3, 4, 6, 3)):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3)
        width = 64
        for stack, count in enumerate(blocks):
            filters = 64 * 2**stack
            layers = []
            for block in range(count):
                last = block == count - 1 and stack < len(blocks) - 1
                layers.append(Block(width, filters, 2 if last else 1, block == 0))
                width = 4 * filters
            setattr(self, f"layer{stack + 1}", nn.Sequential(*layers))
        self.post = norm(width)
        self.fc = nn.Linear(width, classes)

    def forward(self, images):
        x = self.conv1(2 * images - 1)
        x = F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.relu(self.post(x)).mean((2, 3)))


def load(path):
    """The model in a file that `colla export` wrote, ready to predict."""
    tensors = load_file(path)
    model = ResNet50V2(tensors["fc.weight"].shape[0])
    model.load_state_dict(tensors)
    return model.eval()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: resnet50v2.py FILE.safetensors")
    with torch.no_grad():
        print(load(sys.argv[1])(torch.full((1, 3, 128, 128), 0.5)))
