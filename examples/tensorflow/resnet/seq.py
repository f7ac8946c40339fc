"""ResNet50V2 on CIFAR-10 in one process.

    python seq.py --epochs 1 --batch_size 16
"""

import cifar10
import tensorflow as tf

options = cifar10.flags()
images, labels = cifar10.load(options.data)
model = cifar10.network()
model.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(
    cifar10.batches(images, labels, options.batch_size),
    steps_per_epoch=len(images) // options.batch_size,
    epochs=options.epochs,
    verbose=2,
)
