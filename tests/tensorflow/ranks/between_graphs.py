"""A program as people have written them for TensorFlow's servers, but for its import of TensorFlow."""

import json
import time

import numpy as np

import colla.tensorflow.v1 as tf

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "")
flags.DEFINE_string("worker_hosts", "", "")
flags.DEFINE_string("job_name", "", "")
flags.DEFINE_integer("task_index", 0, "")
flags.DEFINE_integer("replicas_to_aggregate", 0, "0: asynchronous")
flags.DEFINE_integer("steps", 5, "")
flags.DEFINE_string("checkpoint_dir", None, "")
flags.DEFINE_float("slow", 0, "seconds that the last worker takes for a batch")
FLAGS = flags.FLAGS


def batch(number, worker):
    random = np.random.RandomState(1000 * number + worker)
    inputs = random.rand(4, 3).astype(np.float32)
    return inputs, inputs @ np.array([[1.0], [2.0], [3.0]], np.float32)


def main(_):
    tf.disable_eager_execution()
    ps_hosts, worker_hosts = FLAGS.ps_hosts.split(","), FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    is_chief = FLAGS.task_index == 0
    with tf.device(
        tf.train.replica_device_setter(worker_device=f"/job:worker/task:{FLAGS.task_index}", cluster=cluster)
    ):
        inputs = tf.placeholder(tf.float32, [4, 3])
        wanted = tf.placeholder(tf.float32, [4, 1])
        w = tf.get_variable("w", initializer=tf.zeros([3, 1]) + float(FLAGS.task_index))
        loss = tf.reduce_mean(tf.square(tf.matmul(inputs, w) - wanted))
        global_step = tf.train.get_or_create_global_step()
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps)]
        if FLAGS.replicas_to_aggregate:
            optimizer = tf.train.SyncReplicasOptimizer(
                optimizer, replicas_to_aggregate=FLAGS.replicas_to_aggregate, total_num_replicas=len(worker_hosts)
            )
            hooks.append(optimizer.make_session_run_hook(is_chief))
        train_op = optimizer.minimize(loss, global_step=global_step)
        with tf.control_dependencies([train_op]):
            after = w.read_value()
    with tf.device("/job:ps/task:0"):
        one = tf.constant(1)
    begun, runs = None, 0
    with tf.train.MonitoredTrainingSession(
        master=server.target, is_chief=is_chief, checkpoint_dir=FLAGS.checkpoint_dir, hooks=hooks
    ) as session:
        begun = int(session.run(global_step)) if not session.should_stop() else None
        while not session.should_stop():
            if FLAGS.task_index == len(worker_hosts) - 1:
                time.sleep(FLAGS.slow)
            data, targets = batch((begun or 0) + runs, FLAGS.task_index)
            values, _ = session.run([after, one], {inputs: data, wanted: targets})
            runs += 1
    print(json.dumps({"begun": begun, "runs": runs, "w": values.tolist()}))


if __name__ == "__main__":
    tf.app.run()
