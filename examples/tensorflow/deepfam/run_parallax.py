"""DeepFam with Parallax' API. The file resource_info has a host in each line, with a number for each worker there.

    echo "localhost: 0,1" > resource_info
    python run_parallax.py --resource_info resource_info
"""

import os

import deepfam
import tensorflow.compat.v1 as tf

import colla.parallax as parallax  # was: import parallax

parser = deepfam.parser()
parser.add_argument("--resource_info", default="resource_info")
parser.add_argument("--run_option", default="HYBRID", help="HYBRID, MPI or PS")
parser.add_argument("--async", dest="sync", action="store_false")
parser.add_argument("--ckpt_dir", default="parallax_ckpt")
options = parser.parse_args()

tf.disable_eager_execution()
proteins = deepfam.Proteins(options)
with tf.Graph().as_default() as single:
    graph = deepfam.Graph(options, proteins.classes)
    global_step = tf.train.get_or_create_global_step()
    optimizer = tf.train.GradientDescentOptimizer(options.lr)
    train_op = tf.group(optimizer.minimize(graph.loss, global_step=global_step), graph.updates)

config = parallax.Config(
    run_option=options.run_option,
    sess_config=deepfam.session_config(options),
    ckpt_config=parallax.CheckPointConfig(options.ckpt_dir, save_ckpt_steps=options.save_every),
)
os.makedirs(options.ckpt_dir, exist_ok=True)
session, workers, worker, replicas = parallax.parallel_run(
    single, options.resource_info, sync=options.sync, parallax_config=config
)
log = deepfam.Log(options.ckpt_dir, worker)
with session:
    for step in range(options.steps):
        letters, labels = proteins.batch(step, worker, workers)
        accuracy, _ = session.run(
            [graph.accuracy, train_op], {graph.letters: [letters] * replicas, graph.labels: [labels] * replicas}
        )
        log.write(step, accuracy[0])
