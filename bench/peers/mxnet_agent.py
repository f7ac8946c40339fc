"""One worker of MXNet with a dist_sync kvstore: gradients go to a server, which runs the optimizer. As
mxnet-async, with a dist_async one: each worker's gradients are an update of their own.

DMLC_* variables say where the others are. Usage: mxnet_agent.py SOCKET SYSTEM RANK NP
"""

import sys
import time

import mxnet as mx
import numpy as np
from agent import ASYNC, NP, RANK, WIDTHS, serve
from mxnet import autograd, gluon


class Net(gluon.HybridBlock):
    """Linear layers with ReLU between them, and the loss: one graph."""

    def __init__(self, widths):
        super().__init__()
        with self.name_scope():
            self.body = gluon.nn.HybridSequential()
            for inputs, outputs in zip(widths, widths[1:-1]):
                self.body.add(gluon.nn.Dense(outputs, in_units=inputs, activation="relu"))
            self.body.add(gluon.nn.Dense(widths[-1], in_units=widths[-2]))
            binary = widths[-1] == 1
            self.loss = gluon.loss.SigmoidBCELoss() if binary else gluon.loss.SoftmaxCELoss()

    def hybrid_forward(self, F, inputs, targets):
        return self.loss(self.body(inputs), targets)


class Training:
    """The data, and a model that is trained on it."""

    keys = 0  # The server keeps what a key was first set to: every training has its own keys.

    def __init__(self, store, name, samples, batch, share, rate, path):
        if name not in WIDTHS:
            raise ValueError(f"there is no model {name}")
        self.store, self.widths = store, WIDTHS[name]
        self.samples, self.batch, self.rate = int(samples), int(batch), float(rate)
        if int(share) * NP != self.batch:
            raise ValueError(f"{share} samples for each worker are not a batch of {batch}")
        inputs = np.memmap(path + ".x", np.float32, "r").reshape(self.samples, -1)
        self.inputs = mx.nd.from_numpy(np.asarray(inputs), zero_copy=True)
        self.targets = mx.nd.array(np.fromfile(path + ".y", np.int64).astype(np.float32))
        self.weights = np.fromfile(path + ".w", np.float32)
        inputs.sum()  # Every page is in the page table before anything is measured.
        # Gradients are sums over the samples of an update. Worker 0's optimizer counts.
        of_update = self.batch // NP if ASYNC else self.batch
        self.store.set_optimizer(
            mx.optimizer.SGD(learning_rate=self.rate, rescale_grad=1 / of_update, wd=0)
        )
        self.store._barrier()
        self.restart()

    def restart(self):
        self.net = Net(self.widths)
        self.net.initialize()
        parameters = list(self.net.collect_params().values())
        begin = 0
        for parameter in parameters:
            count = int(np.prod(parameter.shape))
            values = self.weights[begin : begin + count].reshape(parameter.shape)
            parameter.set_data(mx.nd.array(values))
            begin += count
        self.net.hybridize(static_alloc=True, static_shape=True)
        self.entries = []
        for parameter in parameters:
            self.store.init(Training.keys, parameter.data())
            self.entries.append((Training.keys, parameter.data(), parameter.grad()))
            Training.keys += 1
        self.next = 0

    def train(self, steps):
        inputs, targets, net, store = self.inputs, self.targets, self.net, self.store
        share = self.batch // NP
        mine = RANK * share
        losses = None
        for _ in range(steps):
            begin = self.next + mine
            with autograd.record():
                losses = net(inputs[begin : begin + share], targets[begin : begin + share])
            losses.backward()
            # What the next forward needs first has the highest priority.
            for place, (key, _, gradient) in enumerate(self.entries):
                store.push(key, gradient, priority=-place)
            for place, (key, data, _) in enumerate(self.entries):
                store.pull(key, data, priority=-place)
            self.next = (self.next + self.batch) % self.samples
        mx.nd.waitall()
        return losses

    def verify(self, steps):
        loss = float(self.train(steps).mean().asscalar())
        self.restart()
        return loss

    def measure(self, steps):
        self.store._barrier()
        start = time.perf_counter()
        self.train(steps)
        return time.perf_counter() - start


def main():
    store = mx.kv.create("dist_async" if ASYNC else "dist_sync")
    return serve(lambda *words: Training(store, *words))


if __name__ == "__main__":
    sys.exit(main())
