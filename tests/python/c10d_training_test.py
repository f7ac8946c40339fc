"""init_process_group("colla") under torch's own ways to train in parallel."""

# DDP, in several ways; each must give the weights of plain training with colla's own average.
DDP = """
import copy
import hashlib

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

init()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embed = torch.nn.Embedding(50, 8)
        self.hidden = torch.nn.Linear(8, 40)
        self.unused = torch.nn.Linear(3, 3)
        self.out = torch.nn.Linear(40, 5)

    def forward(self, x, use=False):
        x = torch.relu(self.hidden(self.embed(x).mean(1)))
        return self.out(x) + (self.unused(x[:, :3]).sum() if use else 0)


def batches(steps):
    generator = torch.Generator().manual_seed(100 + rank)
    for _ in range(steps):
        yield torch.randint(0, 50, (16, 4), generator=generator), torch.randint(0, 5, (16,), generator=generator)


def train(model, steps=6, after=lambda: None, use=False):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, y in batches(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x, use=use), y).backward()
        after()
        optimizer.step()


def weights(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def by_hand(use=False):
    model = Net()

    def average():
        for p in model.parameters():
            if p.grad is not None:
                dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)

    train(model, after=average, use=use)
    return weights(model)


def ddp(use=False, hook=None, **options):
    model = DistributedDataParallel(Net(), **options)
    if hook:
        model.register_comm_hook(None, hook)
    train(model, use=use)
    return weights(model.module)


def same(name, got, wanted):
    assert torch.equal(got, wanted), f"{name}: {(got - wanted).abs().max()}"
    everybody = [torch.empty_like(got) for _ in range(size)]
    dist.all_gather(everybody, got)
    assert all(torch.equal(got, other) for other in everybody), name


wanted = by_hand()
all_used = by_hand(use=True)
same("plain", ddp(use=True), all_used)
same("unused", ddp(find_unused_parameters=True), wanted)
same("static graph", ddp(use=True, static_graph=True), all_used)
same("small buckets", ddp(use=True, bucket_cap_mb=0.001, gradient_as_bucket_view=True), all_used)
same("hook", ddp(use=True, hook=default_hooks.allreduce_hook), all_used)

# A hook that goes on after its future: Work, Future and callbacks on another thread.
def halves_twice(state, bucket):
    work = dist.all_reduce(bucket.buffer() / size, async_op=True)
    return work.get_future().then(lambda future: future.value()[0] * 0.5).then(lambda future: future.value() * 2)

same("chained hook", ddp(use=True, hook=halves_twice), all_used)

model = DistributedDataParallel(Net())
x, y = next(batches(1))
with model.no_sync():
    model(x, use=True).sum().backward()
model(x, use=True).sum().backward()
gradient = model.module.out.weight.grad.clone()
dist.broadcast(gradient, 0)
assert torch.equal(gradient, model.module.out.weight.grad)

model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with Join([model]):
    for x, y in batches(2 + 2 * rank):
        model(x, use=True).sum().backward()
        optimizer.step()
lengths = weights(model.module)
dist.broadcast(lengths, size - 1)

say("weights", hashlib.sha256(wanted.numpy().tobytes()).hexdigest())
dist.destroy_process_group()
"""


def digest(ranks):
    assert set(ranks.wait()) == {0}, "".join(ranks.text(rank) for rank in range(len(ranks.processes)))
    lines = {ranks.text(rank).splitlines()[-1] for rank in range(len(ranks.processes))}
    assert len(lines) == 1 and lines.copy().pop().startswith("weights ")
    return lines.pop()


def test_ddp_gives_collas_own_bits_run_after_run(torch_ranks):
    assert digest(torch_ranks(DDP, 2)) == digest(torch_ranks(DDP, 2))


def test_ddp_of_four(torch_ranks):
    digest(torch_ranks(DDP, 4))


REST = """
import copy
import gc

import torch.distributed.checkpoint as checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

init()


def net():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 2))


def step(model, optimizer):
    optimizer.zero_grad()
    x = torch.arange(24.0).reshape(4, 6) / 24 + rank
    model(x).square().mean().backward()
    optimizer.step()


# The reference: DDP.
plain = DistributedDataParallel(net())
optimizer = torch.optim.Adam(plain.parameters(), lr=0.1)
for _ in range(4):
    step(plain, optimizer)
wanted = [p.detach().clone() for p in plain.module.parameters()]


def close(name, parameters):
    for got, expected in zip(parameters, wanted, strict=True):
        torch.testing.assert_close(got, expected, msg=lambda text: f"{name}: {text}")




class Complex(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.turn = torch.nn.Parameter(torch.randn(5, 3, dtype=torch.complex64))
        self.bias = torch.nn.Parameter(torch.randn(3))

    def forward(self, x):
        return (x.to(torch.complex64) @ self.turn).abs() + self.bias


# The buckets of complex parameters are in shared memory too, as real numbers.
for options in ({}, {"gradient_as_bucket_view": True}):
    model, local = DistributedDataParallel(Complex(), **options), Complex()
    for _ in range(2):
        for each in (model, local):
            each.zero_grad()
            each(torch.arange(20.0).reshape(4, 5) + rank).sum().backward()
    for ours, own in zip(model.module.parameters(), local.parameters(), strict=True):
        dist.all_reduce(own.grad, op=dist.ReduceOp.AVG)
        torch.testing.assert_close(ours.grad, own.grad)

mesh = init_device_mesh("cpu", (size,))
sharded = net()
for layer in sharded:
    if isinstance(layer, torch.nn.Linear):
        fully_shard(layer, mesh=mesh)
fully_shard(sharded, mesh=mesh)
optimizer = torch.optim.Adam(sharded.parameters(), lr=0.1)
for _ in range(4):
    step(sharded, optimizer)
close("fully_shard", [p.full_tensor().detach() for p in sharded.parameters()])

zero = DistributedDataParallel(net())
optimizer = ZeroRedundancyOptimizer(zero.parameters(), torch.optim.Adam, lr=0.1)
for _ in range(4):
    step(zero, optimizer)
close("ZeroRedundancyOptimizer", [p.detach() for p in zero.module.parameters()])

directory = sys.argv[3] + ".checkpoint"
checkpoint.save({"model": sharded.state_dict()}, checkpoint_id=directory)
fresh = net()
fully_shard(fresh, mesh=mesh)
state = {"model": fresh.state_dict()}
checkpoint.load(state, checkpoint_id=directory)
fresh.load_state_dict(state["model"])
close("checkpoint", [p.full_tensor().detach() for p in fresh.parameters()])

square = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("a", "b"))
tensor = distribute_tensor(torch.arange(16.0).reshape(4, 4), square, [Shard(0), Shard(1)])
assert torch.equal(tensor.full_tensor(), torch.arange(16.0).reshape(4, 4))
assert torch.equal((tensor @ tensor).full_tensor(), torch.arange(16.0).reshape(4, 4) @ torch.arange(16.0).reshape(4, 4))

with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    dist.all_reduce(torch.ones(10))
    dist.broadcast(torch.ones(1), 0, async_op=True).wait()
    dist.barrier()
names = [event.name for event in profile.events()]
for name in ("colla:all_reduce", "colla:broadcast", "colla:barrier"):
    assert names.count(name) == 1, names


def resident():
    gc.collect()
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * 4096


data = torch.ones(250_000)


def calls(count):
    for i in range(count):
        dist.all_reduce(data)
        work = dist.all_reduce(data, async_op=True)
        work.get_future().then(lambda future: None)
        work.wait()
        request = dist.isend(data[:20_000], (rank + 1) % size)
        dist.recv(data[:20_000], (rank - 1) % size)
        request.wait()
        data.fill_(1.0)


calls(50)
before = resident()
calls(500)
grown = resident() - before
assert grown < 4 << 20, f"grown by {grown} bytes"
say("rest")
dist.destroy_process_group()
"""


def test_what_else_torch_trains_with(torch_ranks):
    ranks = torch_ranks(REST, 2)
    assert ranks.wait() == [0, 0], ranks.text(0) + ranks.text(1)
