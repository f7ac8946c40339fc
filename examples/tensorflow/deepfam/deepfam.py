"""DeepFam as a graph of TensorFlow 1, its data, and what the programs beside this one have in common.

Convolutions of several window lengths over the letters of a protein, each with batch normalisation, ReLU and the maximum over all
positions; dropout; a dense layer; one logit for each family. Trained by plain SGD, for which servers and TensorFlow's kernels
compute the same bits, so that the programs' checkpoints can be compared.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

LETTERS = "ACDEFGHIKLMNPQRSTVWY"


def parser():
    """The flags of all three programs."""
    made = argparse.ArgumentParser()
    made.add_argument("--data", default="gpcr_train.tsv", help="label<TAB>sequence in each line")
    made.add_argument("--steps", type=int, default=200)
    made.add_argument("--save_every", type=int, default=100)
    made.add_argument("--batch", type=int, default=100, help="of each worker")
    made.add_argument("--length", type=int, default=1000, help="sequences are cut, or padded, to so many letters")
    made.add_argument("--windows", default="8,12,16,20,24,28,32,36")
    made.add_argument("--filters", type=int, default=256, help="of each window")
    made.add_argument("--hidden", type=int, default=2000)
    made.add_argument("--keep", type=float, default=0.7, help="what dropout keeps")
    made.add_argument("--lr", type=float, default=0.05)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--threads", type=int, default=1, help="of each worker; bits depend on it")
    return made


class Proteins:
    """A file's sequences, in its order."""

    def __init__(self, options):
        number = {letter: i for i, letter in enumerate(LETTERS)}
        with open(options.data) as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
        self.labels = np.array([int(label) for label, _ in rows])
        self.letters = np.full([len(rows), options.length], -1)
        for i, (_, sequence) in enumerate(rows):
            known = [number.get(letter, -1) for letter in sequence[: options.length]]
            self.letters[i, : len(known)] = known
        self.classes = int(self.labels.max()) + 1
        self._batch = options.batch

    def batch(self, step, worker, workers):
        """Workers take the file's batches in turn, and begin again at its end."""
        first = (step * workers + worker) * self._batch
        rows = np.arange(first, first + self._batch) % len(self.labels)
        return self.letters[rows], self.labels[rows]


class Graph:
    """The graph: ``letters`` and ``labels`` to feed, ``loss`` and ``accuracy`` to fetch, ``updates`` to run with each step."""

    def __init__(self, options, classes):
        self._options = options
        self._updates = []
        self.letters = tf.placeholder(tf.int32, [None, options.length], name="letters")
        self.labels = tf.placeholder(tf.int64, [None], name="labels")
        data = tf.expand_dims(tf.one_hot(self.letters, len(LETTERS)), 1)
        maxima = []
        for window in (int(word) for word in options.windows.split(",")):
            with tf.variable_scope(f"conv{window}"):
                filters = self._weights([1, window, len(LETTERS), options.filters])
                found = tf.nn.conv2d(data, filters, strides=1, padding="VALID")
                maxima.append(tf.reduce_max(tf.nn.relu(self._normalised(found, [0, 1, 2])), [1, 2]))
        features = tf.concat(maxima, 1)
        features = tf.nn.dropout(features, rate=1 - options.keep, seed=options.seed)
        with tf.variable_scope("fc1"):
            hidden = tf.matmul(features, self._weights([features.shape[1], options.hidden]))
            hidden = tf.nn.relu(self._normalised(hidden, [0]))
        with tf.variable_scope("fc2"):
            bias = tf.get_variable("bias", initializer=tf.fill([classes], 0.1))
            logits = tf.matmul(hidden, self._weights([options.hidden, classes])) + bias
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.labels, logits=logits)
        self.loss = tf.reduce_mean(losses, name="loss")
        right = tf.equal(tf.argmax(logits, 1), self.labels)
        self.accuracy = tf.reduce_mean(tf.cast(right, tf.float32), name="accuracy")
        self.updates = tf.group(*self._updates, name="updates")

    def _weights(self, shape):
        glorot = tf.glorot_uniform_initializer(seed=self._options.seed)
        return tf.get_variable("weights", shape, initializer=glorot)

    def _normalised(self, values, axes):
        """With the batch's mean and variance. Their averages over batches are for those who predict."""
        beta = tf.get_variable("beta", values.shape[-1:], initializer=tf.zeros_initializer())
        moments = tf.nn.moments(values, axes)
        for name, value, first in zip(("moving_mean", "moving_variance"), moments, (0.0, 1.0)):
            kept = tf.get_variable(name, value.shape, initializer=tf.constant_initializer(first), trainable=False)
            self._updates.append(tf.assign(kept, 0.9 * kept + 0.1 * value))
        return tf.nn.batch_normalization(values, *moments, beta, None, 1e-3)


def session_config(options):
    """One worker's threads."""
    return tf.ConfigProto(intra_op_parallelism_threads=options.threads, inter_op_parallelism_threads=2)


class Log:
    """Writes the accuracy of each step; other workers than the first write nothing."""

    def __init__(self, folder, worker):
        self._file = open(f"{folder}/log.txt", "w") if worker == 0 else None

    def write(self, step, accuracy):
        """One line."""
        if self._file is not None:
            self._file.write(f"step {step} accuracy {accuracy:.6f}\n")
            self._file.flush()
