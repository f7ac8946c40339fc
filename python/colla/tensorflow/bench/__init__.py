"""``python -m colla.tensorflow.bench``: Colla and TensorFlow's own collectives side by side."""
