"""One process of TensorFlow's parameter servers: graphs between workers (tf.compat.v1), where
SyncReplicasOptimizer makes one update of everybody's gradients, on the server. As tf-async, each
worker's gradients are an update of their own.

The address of the server comes first.
Usage: tf_agent.py SOCKET SYSTEM RANK NP ps|worker ADDRESS,ADDRESS,...
"""

import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow
from agent import ASYNC, NP, RANK, THREADS, WIDTHS, serve

tf = tensorflow.compat.v1
ROLE, ADDRESSES = sys.argv[5], sys.argv[6].split(",")


class Training:
    """The data, and a model that is trained on it."""

    made = 0

    def __init__(self, server, cluster, name, samples, batch, share, rate, path):
        if name not in WIDTHS:
            raise ValueError(f"there is no model {name}")
        self.server, self.cluster, self.widths = server, cluster, WIDTHS[name]
        self.samples, self.batch, self.rate = int(samples), int(batch), float(rate)
        if int(share) * NP != self.batch:
            raise ValueError(f"{share} samples for each worker are not a batch of {batch}")
        self.inputs = np.memmap(path + ".x", np.float32, "r").reshape(self.samples, -1)
        self.targets = np.fromfile(path + ".y", np.int64)
        self.weights = np.fromfile(path + ".w", np.float32)
        self.session = None
        self.restart()

    def restart(self):
        self.close()
        Training.made += 1
        self.next = 0
        graph = tf.Graph()
        # State lives in the servers by name: every training has a container of its own.
        with graph.as_default(), graph.container(f"training{Training.made}"):
            self.build()
        graph.finalize()
        self.start(graph)

    def build(self):
        here = f"/job:worker/task:{RANK}"
        share = self.batch // NP
        with tf.device(here + "/cpu:0"):  # Slices of what lies here are no copies.
            self.all_inputs = tf.placeholder(tf.float32, self.inputs.shape)
            self.all_targets = tf.placeholder(tf.int64, self.targets.shape)
            self.data = [
                tf.Variable(
                    values,
                    trainable=False,
                    use_resource=True,
                    collections=[tf.GraphKeys.LOCAL_VARIABLES],
                    name=f"data{RANK}",
                )
                for values in (self.all_inputs, self.all_targets)
            ]
            self.forget = [
                tf.raw_ops.DestroyResourceOp(resource=variable.handle) for variable in self.data
            ]
            self.load = [variable.initializer for variable in self.data]
            self.begin = tf.placeholder(tf.int32, [])
            end = self.begin + share
            inputs, targets = [variable[self.begin : end] for variable in self.data]
            inputs.set_shape([share, self.widths[0]])
        setter = tf.train.replica_device_setter(worker_device=here, cluster=self.cluster)
        with tf.device(setter):
            step = tf.train.get_or_create_global_step()
            self.loss = self.loss_of(inputs, targets)
            self.optimizer = tf.train.GradientDescentOptimizer(self.rate)
            if not ASYNC:
                self.optimizer = tf.train.SyncReplicasOptimizer(
                    self.optimizer, replicas_to_aggregate=NP, total_num_replicas=NP
                )
            self.update = self.optimizer.minimize(self.loss, global_step=step)
            if not ASYNC:  # No tokens to begin with: nobody is ever a step ahead.
                self.tokens = self.optimizer.get_init_tokens_op(num_tokens=0)
            self.initialize = tf.global_variables_initializer()
            self.missing = tf.report_uninitialized_variables(tf.global_variables())

    def loss_of(self, inputs, targets):
        begin = 0
        output = inputs
        for layer, (rows, columns) in enumerate(zip(self.widths, self.widths[1:])):
            count = rows * columns
            matrix = self.weights[begin : begin + count].reshape(columns, rows).T
            bias = self.weights[begin + count : begin + count + columns]
            begin += count + columns
            matrix = tf.get_variable(f"w{layer}", initializer=np.ascontiguousarray(matrix))
            bias = tf.get_variable(f"b{layer}", initializer=bias)
            if layer > 0:
                output = tf.nn.relu(output)
            output = tf.nn.bias_add(tf.matmul(output, matrix), bias)
        if self.widths[-1] == 1:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(
                labels=tf.cast(targets, tf.float32), logits=tf.squeeze(output, 1)
            )
        else:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=output)
        return tf.reduce_mean(losses)

    def start(self, graph):
        chief = RANK == 0
        # A worker need not wait for the other to be there.
        config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{RANK}"])
        self.session = tf.Session(self.server.target, graph=graph, config=config)
        if chief:
            self.session.run(self.initialize)
        deadline = time.monotonic() + 60
        while len(self.session.run(self.missing)) > 0:
            if time.monotonic() > deadline:
                raise TimeoutError("worker 0 did not initialize the variables")
            time.sleep(0.02)
        if not ASYNC:
            first = self.optimizer.chief_init_op if chief else self.optimizer.local_step_init_op
            self.session.run(first)
        self.session.run(
            self.load, {self.all_inputs: self.inputs, self.all_targets: self.targets}
        )
        self.coordinator = tf.train.Coordinator()
        self.threads = []
        if chief and not ASYNC:
            self.threads = self.optimizer.get_chief_queue_runner().create_threads(
                self.session, self.coordinator, daemon=True, start=True
            )
            self.session.run(self.tokens)
        self.step = self.session.make_callable([self.update, self.loss], feed_list=[self.begin])

    def close(self):
        if self.session is None:
            return
        self.session.run(self.forget)
        self.coordinator.request_stop()
        self.session.close()  # Ends what the threads wait for.
        self.coordinator.join(self.threads, stop_grace_period_secs=10, ignore_live_threads=True)
        self.session = None

    def train(self, steps):
        mine = RANK * (self.batch // NP)
        step = self.step
        loss = None
        for _ in range(steps):
            _, loss = step(self.next + mine)
            self.next = (self.next + self.batch) % self.samples
        return loss

    def verify(self, steps):
        loss = float(self.train(steps))
        self.restart()
        return loss

    def measure(self, steps):
        start = time.perf_counter()
        self.train(steps)
        return time.perf_counter() - start


def main():
    tf.disable_eager_execution()
    cluster = tf.train.ClusterSpec({"ps": ADDRESSES[:1], "worker": ADDRESSES[1:]})
    config = tf.ConfigProto(intra_op_parallelism_threads=THREADS, inter_op_parallelism_threads=1)
    server = tf.train.Server(cluster, job_name=ROLE, task_index=RANK, config=config)
    if ROLE == "ps":
        server.join()  # For ever: the coordinator ends it.
    return serve(lambda *words: Training(server, cluster, *words))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # TensorFlow's servers do not stop by themselves.
