"""ResNet50V2 on CIFAR-10 with Horovod's API: seq.py with the six changes of Horovod's guide.

    colla horovodrun -np 2 --gloo python horovod.py --epochs 1 --batch_size 16
    mpirun -np 2 python horovod.py --epochs 1
    srun -n 2 python horovod.py --epochs 1         # in a batch file: docs/clusters.md
"""

import cifar10
import tensorflow as tf

import colla.tensorflow.keras as hvd

options = cifar10.flags()
hvd.init()  # 1.
# 2. A worker would take the GPU of its hvd.local_rank() here.
images, labels = cifar10.load(options.data)
mine = slice(hvd.rank(), None, hvd.size())
model = cifar10.network()
optimizer = tf.keras.optimizers.SGD(0.01 * hvd.size())  # 3.
optimizer = hvd.DistributedOptimizer(optimizer)  # 4.
model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),  # 5.
    hvd.callbacks.MetricAverageCallback(),
]
if hvd.rank() == 0:  # 6.
    callbacks.append(tf.keras.callbacks.ModelCheckpoint("checkpoint-{epoch}.keras"))
history = model.fit(
    cifar10.batches(images[mine], labels[mine], options.batch_size),
    steps_per_epoch=len(images) // options.batch_size // hvd.size(),
    epochs=options.epochs,
    callbacks=callbacks,
    verbose=2 if hvd.rank() == 0 else 0,
)
if hvd.rank() == 0:
    print(f"{hvd.size()} workers, loss {history.history['loss'][-1]:.4f}")
