"""Fewer bytes on the way: gradients as 16-bit floats."""

from typing import Any

import tensorflow as tf


class Compressor:
    """How to make a tensor smaller, and back."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The tensor that travels, and what ``decompress`` needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor as it was before ``compress``."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Leaves tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor itself."""
        return tensor


class _HalfCompressor(Compressor):
    """Floats travel as `dtype`; tensors of other types as they are."""

    dtype: tf.DType

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        """The tensor in 16 bits, and its type."""
        return (tf.cast(tensor, cls.dtype) if tensor.dtype.is_floating else tensor), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Any, ctx: Any) -> Any:
        """The tensor in the type it had."""
        return tensor if ctx is None or tensor.dtype == ctx else tf.cast(tensor, ctx)


class FP16Compressor(_HalfCompressor):
    """Floats travel as float16."""

    dtype = tf.float16


class BF16Compressor(_HalfCompressor):
    """Floats travel as bfloat16, which has the range of float32."""

    dtype = tf.bfloat16


class Compression:
    """The choices: ``none``, ``fp16``, ``bf16``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
