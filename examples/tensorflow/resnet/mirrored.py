"""ResNet50V2 on CIFAR-10 on several devices of one process, with TensorFlow's own MirroredStrategy: seq.py with two changes.

    python mirrored.py --epochs 1 --batch_size 16 --n_gpus 2
"""

import cifar10
import tensorflow as tf

options = cifar10.flags()
replicas = max(options.n_gpus, 1)
processor = tf.config.list_physical_devices("CPU")[0]  # Its cores are shared by so many devices.
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * replicas)
strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])  # 1.
images, labels = cifar10.load(options.data)
with strategy.scope():  # 2.
    model = cifar10.network()
    model.compile(
        optimizer=tf.keras.optimizers.SGD(0.01 * replicas), loss="sparse_categorical_crossentropy", metrics=["accuracy"]
    )
history = model.fit(
    cifar10.batches(images, labels, options.batch_size * replicas),
    steps_per_epoch=len(images) // options.batch_size // replicas,
    epochs=options.epochs,
    verbose=2,
)
print(f"{strategy.num_replicas_in_sync} replicas, loss {history.history['loss'][-1]:.4f}")
