"""The batches of same_torch.py and same_tensorflow.py: each rank has its half of each, in the order of the files."""

import numpy as np


def batches(folder, steps, batch, rank, size):
    with open(f"{folder}/train-images-idx3-ubyte", "rb") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / np.float32(255)
    with open(f"{folder}/train-labels-idx1-ubyte", "rb") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int64)
    for step in range(steps):
        begin = step * batch + rank * batch // size
        part = slice(begin, begin + batch // size)
        yield images[part], labels[part]
