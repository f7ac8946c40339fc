"""What is measured: the sizes, and models as users of Keras write them, with data for each."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Reduction:
    """An allreduce of a float32 tensor in a ``tf.function``."""

    bytes: int
    calls: int  # In one round.
    target: float  # How many times faster than tf.distribute it should be.

    @property
    def name(self) -> str:
        """For the table."""
        return "allreduce " + (f"{self.bytes >> 20} MiB" if self.bytes >= 1 << 20 else f"{self.bytes >> 10} KiB")


@dataclasses.dataclass(frozen=True)
class Training:
    """A model in Keras' ``fit()``; `batch` is each worker's."""

    name: str
    model: Callable[[Any], Any]
    images: tuple[int, ...]
    batch: int
    steps: int  # In one round.
    target: float
    words: int = 0  # So many, instead of images.


def mlp(keras: Any) -> Any:
    """784-100-100-10, as for MNIST."""
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((28, 28)),
            layers.Flatten(),
            layers.Dense(100, activation="relu"),
            layers.Dense(100, activation="relu"),
            layers.Dense(10),
        ]
    )


def resnet50(keras: Any) -> Any:
    """ResNet50V2 for images of 128 x 128 and 10 classes."""
    return keras.applications.ResNet50V2(weights=None, input_shape=(128, 128, 3), classes=10, classifier_activation=None)


def embedding(keras: Any) -> Any:
    """A table of 200,000 x 128, twenty words of which are averaged and told apart."""
    layers = keras.layers
    return keras.Sequential(
        [layers.Input((20,), dtype="int32"), layers.Embedding(200_000, 128), layers.GlobalAveragePooling1D(), layers.Dense(10)]
    )


REDUCTIONS = (
    Reduction(1 << 10, calls=200, target=10.0),
    Reduction(4 << 20, calls=20, target=5.0),
    Reduction(32 << 20, calls=5, target=5.0),
    Reduction(100 << 20, calls=3, target=5.0),
)
TRAININGS = (
    Training("mlp", mlp, (28, 28), batch=100, steps=100, target=2.0),
    Training("resnet50", resnet50, (128, 128, 3), batch=16, steps=2, target=1.05),
    Training("embedding", embedding, (), batch=64, steps=20, target=3.0, words=20),
)
