"""Rank 1 dies in the middle; rank 0 gets an error of TensorFlow, which the elastic loop takes for Horovod's."""

import os

import tensorflow as tf

import colla.tensorflow as hvd

hvd.init()
hvd.allreduce(tf.ones([3]))
if hvd.rank() == 1:
    os._exit(3)
try:
    tf.function(lambda: hvd.allreduce(tf.ones([3])))()
except tf.errors.UnknownError as error:
    print("UnknownError", error.message, flush=True)


@hvd.elastic.run
def train(state):
    hvd.allreduce(tf.ones([3]))


class Nothing(hvd.elastic.State):
    """A state without anything to bring over."""

    def sync(self):
        pass

    save = restore = sync


try:
    train(Nothing(None, hvd.rank))
except hvd.HorovodInternalError as error:
    print("HorovodInternalError", error, flush=True)
