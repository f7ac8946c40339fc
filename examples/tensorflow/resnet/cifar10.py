"""CIFAR-10 for the programs beside this one."""

import argparse
import pathlib

import numpy as np
import tensorflow as tf

SIZE = 128


def flags():
    """The programs' flags."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=16, help="of each worker")
    parser.add_argument("--n_gpus", type=int, default=0, help="accepted: a launcher says how many workers there are")
    parser.add_argument("--data", help="the folder with data_batch_1.bin and its like; without it Keras downloads them")
    return parser.parse_args()


def load(folder):
    """Images and labels of the training part."""
    if folder is None:
        (images, labels), _ = tf.keras.datasets.cifar10.load_data()
        return images, labels.reshape(-1)
    files = sorted(pathlib.Path(folder).glob("data_batch_*.bin"))
    if not files:
        raise SystemExit(f"there is no data_batch_*.bin in {folder}")
    samples = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 3073) for file in files])
    return samples[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), samples[:, 0].astype(np.int64)


def batches(images, labels, batch_size, seed=0):
    """Batches for ever, enlarged to SIZE x SIZE, with numbers from 0 to 1."""

    def prepare(image, label):
        return tf.image.resize(tf.cast(image, tf.float32) / 255, [SIZE, SIZE]), label

    samples = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images), seed=seed).repeat()
    return samples.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size).prefetch(2)


def network():
    """ResNet50V2 with ten classes."""
    return tf.keras.applications.ResNet50V2(include_top=True, weights=None, input_shape=(SIZE, SIZE, 3), classes=10)
