"""``tf.compat.v1`` with Colla's ``train``, for programs that were written for TensorFlow's servers.

    import colla.tensorflow.v1 as tf             # was: import tensorflow.compat.v1 as tf
"""

from typing import Any

import tensorflow as _tensorflow

from colla.tensorflow import train as train


def __getattr__(name: str) -> Any:
    return getattr(_tensorflow.compat.v1, name)
