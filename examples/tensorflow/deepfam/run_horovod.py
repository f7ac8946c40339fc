"""DeepFam with Horovod's API.

    colla horovodrun -np 2 -H localhost:2 python run_horovod.py
    mpirun -np 2 python run_horovod.py
"""

import os

import deepfam
import tensorflow.compat.v1 as tf

import colla.tensorflow as hvd  # was: import horovod.tensorflow as hvd

parser = deepfam.parser()
parser.add_argument("--ckpt_dir", default="horovod_ckpt")
options = parser.parse_args()

tf.disable_eager_execution()
hvd.init()
proteins = deepfam.Proteins(options)
graph = deepfam.Graph(options, proteins.classes)
global_step = tf.train.get_or_create_global_step()
optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(options.lr))
train_op = tf.group(optimizer.minimize(graph.loss, global_step=global_step), graph.updates)
hooks = [hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(last_step=options.steps)]

os.makedirs(options.ckpt_dir, exist_ok=True)
log = deepfam.Log(options.ckpt_dir, hvd.rank())
with tf.train.MonitoredTrainingSession(
    checkpoint_dir=options.ckpt_dir if hvd.rank() == 0 else None,
    save_checkpoint_steps=options.save_every,
    hooks=hooks,
    config=deepfam.session_config(options),
) as session:
    step = 0
    while not session.should_stop():
        letters, labels = proteins.batch(step, hvd.rank(), hvd.size())
        accuracy, _ = session.run(
            [graph.accuracy, train_op], {graph.letters: letters, graph.labels: labels}
        )
        log.write(step, accuracy)
        step += 1
