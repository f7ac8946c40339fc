"""What every program here trains, and where it leaves the weights. Frameworks' workers get the variables."""

import os

import torch

BACKEND, FILE = os.environ["TEST_BACKEND"], os.environ["TEST_FILE"]
STEPS = 6


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def make_data() -> torch.utils.data.TensorDataset:
    data = torch.Generator().manual_seed(1)
    return torch.utils.data.TensorDataset(
        torch.randn(STEPS * 2 * 8, 16, generator=data), torch.randint(4, (STEPS * 2 * 8,), generator=data)
    )


def loss_of(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(images), labels)


def keep(model: torch.nn.Module, rank: int, backend: str) -> None:
    """Both ranks' weights, which must be equal, and the backend that the group had."""
    assert backend == BACKEND, backend
    torch.save(model.state_dict(), f"{FILE}.{rank}")
