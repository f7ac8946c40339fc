"""Which samples a rank takes, in a job whose ranks may change in the middle of an epoch."""

import random
from collections.abc import Iterator, Sized
from typing import Any

import torch.utils.data

from colla.torch import _world


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Shares the samples of an epoch among ranks, and those that are left when ranks have changed.

    Make it part of a ``TorchState``, call ``record_batch()`` after each batch and ``set_epoch()`` at the end
    of each epoch.

    Args:
        dataset: What to sample from; its length must stay.
        shuffle: Another order in each epoch.
        seed: Of the order; the same on all ranks.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch: nothing of it has been processed."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Counts a batch that every rank has processed."""
        self.processed_num += batch_size * self.num_replicas

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from there, with what is left of that epoch."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def state_dict(self) -> dict[str, Any]:
        """The place in the data."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def reset(self) -> None:
        """Shares what is left among the ranks that there are now."""
        self.num_replicas = _world.size()
        self.rank = _world.rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        # Some stand in twice, so that all ranks have as many. There may be fewer left than ranks.
        left = self.remaining_indices
        padded = [left[i % len(left)] for i in range(self.total_size)]
        return iter(padded[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
