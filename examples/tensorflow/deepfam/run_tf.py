"""DeepFam on TensorFlow's servers. Each process is started by hand:

    python run_tf.py --ps_hosts localhost:2222 --worker_hosts localhost:2223,localhost:2224 --job_name ps --task_index 0
    python run_tf.py --ps_hosts localhost:2222 --worker_hosts localhost:2223,localhost:2224 --job_name worker --task_index 0
    python run_tf.py --ps_hosts localhost:2222 --worker_hosts localhost:2223,localhost:2224 --job_name worker --task_index 1

With --async each worker's gradients change the variables as they come.
"""

import os

import deepfam

import colla.tensorflow.v1 as tf  # was: import tensorflow.compat.v1 as tf

parser = deepfam.parser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--async", dest="sync", action="store_false")
parser.add_argument("--ckpt_dir", default="tf_ckpt")
options = parser.parse_args()

tf.disable_eager_execution()
workers = options.worker_hosts.split(",")
cluster = tf.train.ClusterSpec({"ps": options.ps_hosts.split(","), "worker": workers})
server = tf.train.Server(cluster, job_name=options.job_name, task_index=options.task_index)
if options.job_name == "ps":
    server.join()
    raise SystemExit

worker = options.task_index
proteins = deepfam.Proteins(options)
with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{worker}", cluster=cluster)):
    graph = deepfam.Graph(options, proteins.classes)
    global_step = tf.train.get_or_create_global_step()
    optimizer = tf.train.GradientDescentOptimizer(options.lr)
    hooks = [tf.train.StopAtStepHook(last_step=options.steps)]
    if options.sync:
        optimizer = tf.train.SyncReplicasOptimizer(
            optimizer, replicas_to_aggregate=len(workers), total_num_replicas=len(workers)
        )
        hooks.append(optimizer.make_session_run_hook(worker == 0))
    train_op = tf.group(optimizer.minimize(graph.loss, global_step=global_step), graph.updates)

os.makedirs(options.ckpt_dir, exist_ok=True)
log = deepfam.Log(options.ckpt_dir, worker)
with tf.train.MonitoredTrainingSession(
    master=server.target,
    is_chief=worker == 0,
    checkpoint_dir=options.ckpt_dir,
    save_checkpoint_steps=options.save_every,
    hooks=hooks,
    config=deepfam.session_config(options),
) as session:
    step = 0
    while not session.should_stop():
        letters, labels = proteins.batch(step, worker, len(workers))
        accuracy, _ = session.run(
            [graph.accuracy, train_op], {graph.letters: letters, graph.labels: labels}
        )
        log.write(step, accuracy)
        step += 1
