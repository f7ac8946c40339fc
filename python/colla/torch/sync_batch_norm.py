"""Batch normalization over the batches of all ranks."""

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from colla.torch import _world, ops


class SyncBatchNorm(_BatchNorm):
    """``torch.nn.BatchNorm1d``, ``2d`` and ``3d`` in one, with mean and variance of all ranks' batches
    together, which may be of different sizes."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm takes a batch of at least 2 dimensions, not {input.dim()}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalizes `input` (batch, features, …); in training with the other ranks, which call it too."""
        self._check_input_dim(input)
        of_batch = self.training or not self.track_running_stats
        if not of_batch or _world.size() == 1:
            momentum = self._count_batch() if of_batch else 0.0
            return torch.nn.functional.batch_norm(
                input,
                self.running_mean if not self.training or self.track_running_stats else None,
                self.running_var if not self.training or self.track_running_stats else None,
                self.weight,
                self.bias,
                of_batch,
                momentum,
                self.eps,
            )
        output, mean, variance, count = _Normalize.apply(input, self.weight, self.bias, self.eps)
        if self.training and self.track_running_stats:
            momentum = self._count_batch()
            assert self.running_mean is not None and self.running_var is not None
            with torch.no_grad():
                unbiased = variance * (count / (count - 1).clamp(min=1))
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)
        return output

    def _count_batch(self) -> float:
        """How much this batch counts in the running statistics."""
        if not self.training or self.num_batches_tracked is None:
            return 0.0
        self.num_batches_tracked.add_(1)
        if self.momentum is None:  # A plain average of all batches.
            return 1.0 / float(self.num_batches_tracked)
        return self.momentum


class _Normalize(torch.autograd.Function):
    """Also gives the mean, the variance and the number of values that each feature had."""

    @staticmethod
    def forward(
        ctx: Any, input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
    ) -> Any:
        features = input.shape[1]
        others = [dim for dim in range(input.dim()) if dim != 1]
        wide = torch.float64 if input.dtype == torch.float64 else torch.float32
        values = input.to(wide)
        count = input.numel() // features if features else 0
        mean = values.mean(others) if count else values.new_zeros(features)
        squares = ((values - _across(mean, input)) ** 2).sum(others)

        # One row per rank: what each saw, from which the whole follows.
        mine = torch.cat([mean.new_tensor([count]), mean, squares]).unsqueeze(0)
        rows = ops.synchronize(ops.allgather_async(mine))
        counts, means, all_squares = rows.split([1, features, features], dim=1)
        total = counts.sum()
        mean = (counts * means).sum(0) / total
        squares = (all_squares + counts * (means - mean) ** 2).sum(0)
        variance = squares / total
        scale = torch.rsqrt(variance + eps)

        output = (values - _across(mean, input)) * _across(scale, input)
        if weight is not None:
            output = output * _across(weight, input)
        if bias is not None:
            output = output + _across(bias, input)
        ctx.save_for_backward(input, weight, mean, scale, total)
        ctx.has_bias = bias is not None
        ctx.mark_non_differentiable(mean, variance, total)
        return output.to(input.dtype), mean, variance, total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> Any:
        input, weight, mean, scale, total = ctx.saved_tensors
        others = [dim for dim in range(input.dim()) if dim != 1]
        gradient = gradient.to(mean.dtype)
        normalized = (input.to(mean.dtype) - _across(mean, input)) * _across(scale, input)
        sums = torch.stack([gradient.sum(others), (gradient * normalized).sum(others)])
        # Those of weight and bias stay as they are: the optimizer reduces them as all others.
        bias_gradient, weight_gradient = sums.clone()
        input_gradient = None
        if ctx.needs_input_grad[0]:
            mean_gradient, mean_product = ops.synchronize(ops.allreduce_async(sums, op=ops.Sum)) / total
            input_gradient = gradient - _across(mean_gradient, input) - normalized * _across(mean_product, input)
            input_gradient = input_gradient * _across(scale if weight is None else scale * weight, input)
            input_gradient = input_gradient.to(input.dtype)
        return (
            input_gradient,
            weight_gradient.to(weight.dtype) if weight is not None else None,
            bias_gradient.to(input.dtype if weight is None else weight.dtype) if ctx.has_bias else None,
            None,
        )


def _across(feature_values: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """One value per feature, in the shape of `batch`."""
    return feature_values.reshape(1, -1, *([1] * (batch.dim() - 2)))
