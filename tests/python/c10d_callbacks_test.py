"""init_process_group("colla"): what a program attaches to futures may do anything, also wait for other operations."""

import pytest

# Each callback waits for a collective that begins after the callback's own has ended.
NESTED = """
init(seconds=20)
t, u = torch.ones(4), torch.full((4,), 2.0)

future = dist.all_reduce(t, async_op=True).get_future()
sum = future.then(lambda f: dist.all_reduce(u, async_op=True).get_future().wait()[0]).wait()
assert sum.tolist() == [2.0 * size] * 4 and t.tolist() == [1.0 * size] * 4

# Deeper, and with a call that blocks.
def after(depth):
    def callback(f):
        value = f.value()[0]
        if depth == 0:
            dist.all_reduce(value)
            return value
        return dist.all_reduce(value, async_op=True).get_future().then(after(depth - 1)).wait()
    return callback

value = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(after(5)).wait()
assert value.item() == size**7, value

# A callback that waits for its own operation.
work = dist.all_reduce(torch.ones(1), async_op=True)
assert work.get_future().then(lambda f: work.wait()).wait()
work.wait()

# What is attached to a message.
other = (rank + 1) % size
sent = dist.isend(torch.full((3,), float(rank)), other)
message = torch.empty(3)
received = dist.irecv(message, (rank - 1) % size)
both = received.get_future().then(lambda f: dist.all_reduce(message, async_op=True).get_future().wait()[0])
assert both.wait().tolist() == [size * (size - 1) / 2] * 3
sent.wait()

# As with Gloo, what is attached has run when wait() returns.
seen = []
work = dist.all_reduce(torch.ones(1), async_op=True)
work.get_future().then(lambda f: (time.sleep(0.05), seen.append(1)))
work.wait()
assert seen == [1]
say("nested")
dist.destroy_process_group()
"""


def test_a_callback_may_wait_for_a_different_operation(torch_ranks):
    ranks = torch_ranks(NESTED, 2)
    assert ranks.wait(100) == [0, 0], ranks.text(0) + ranks.text(1)
    assert ranks.text(0) == ranks.text(1) == "nested\n"


# Rank 0 attaches its callback to what is done, where it runs at once; rank 1 before, so that it runs on a thread of its own,
# after the program has gone on. What the two call has one shape: nothing but the order tells it apart.
ONE_ORDER = """
import queue

init(seconds=60)
first, nested, later = torch.ones(3), torch.full((3,), 10.0), torch.full((3,), 100.0)


def callback(f):
    time.sleep(0.2)
    return dist.all_reduce(nested, async_op=True).get_future().then(lambda f: dist.all_reduce(nested)).wait()


for blocking in (False, True):
    if rank == 0:
        assert store.get(f"attached {blocking}")
        work = dist.all_reduce(first, async_op=True)
        work.wait()
        future = work.get_future().then(callback)
    else:
        future = dist.all_reduce(first, async_op=True).get_future().then(callback)
        store.set(f"attached {blocking}", "yes")
    works = [dist.all_reduce(later, async_op=not blocking) for _ in range(3)]
    future.wait()
    if not blocking:
        for work in works:
            work.wait()
assert nested.tolist() == [10.0 * size**4] * 3 and later.tolist() == [100.0 * size**6] * 3, (nested, later)

# A callback may wait for what the program calls later, though that comes after what the callback calls.
questions, answers = queue.Queue(), queue.Queue()
if rank == 0:
    dist.all_reduce(first, async_op=True).get_future().then(lambda f: answers.put(questions.get().wait()))
    store.set("attached", "yes")
    questions.put(dist.all_reduce(later, async_op=True))
    assert answers.get(timeout=8) is True
else:
    assert store.get("attached")
    dist.all_reduce(first)
    dist.all_reduce(later)
say("in order")
dist.destroy_process_group()
"""


def test_what_callbacks_call_has_one_place_in_the_order(torch_ranks):
    ranks = torch_ranks(ONE_ORDER, 2)
    assert ranks.wait(100) == [0, 0], ranks.text(0) + ranks.text(1)
    assert ranks.text(0) == ranks.text(1) == "in order\n"


# Rank 0's callbacks never return. Nothing that others, or rank 0 itself, do later waits for them.
STUCK = """
import threading

init(seconds=60)
dist.barrier()
backend = dist.group.WORLD._get_backend(torch.device("cpu"))
backend.set_timeout(datetime.timedelta(seconds=2))
never = threading.Event()
if rank == 0:
    for _ in range(3):
        dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda f: never.wait())
else:
    for _ in range(3):
        dist.all_reduce(torch.ones(1), async_op=True).wait()
value = torch.ones(1)
dist.all_reduce(value)
dist.all_reduce(value, async_op=True).wait()
assert value.item() == 4
if rank == 0:
    begun = time.monotonic()
    try:
        dist.all_reduce(value, async_op=True).get_future().wait()
    except dist.DistBackendError as error:
        say("raised", "Timed out" in str(error) and "rank 1" in str(error), time.monotonic() - begun < 10)
    message = dist.irecv(torch.ones(1), 1)
    message.get_future().then(lambda f: never.wait())
    begun = time.monotonic()
    message.wait()
    say("received", time.monotonic() - begun < 10)
    begun = time.monotonic()
    dist.destroy_process_group()
    say("destroyed", time.monotonic() - begun < 10)
else:
    message = dist.isend(torch.ones(1), 0)
    time.sleep(600)
"""


def test_a_timeout_fires_whatever_a_callback_does(torch_ranks):
    ranks = torch_ranks(STUCK, 2)
    assert ranks.processes[0].wait(100) == 0, ranks.text(0)
    said = ranks.text(0)
    assert "raised True True\n" in said and "received True\n" in said and "destroyed True\n" in said, said
    assert "a callback of a future has not returned for 0.5 s" in said
    assert "a callback of a future did not return before its process group ended" in said


# Its compressed steps wait for two more collectives in callbacks of the first. With several buckets, callbacks of one run
# while the program calls what the next one begins with; Gloo's ranks get into each other's way there.
POWER_SGD = """
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel


def train(group, **options):
    torch.manual_seed(5)
    layers = [torch.nn.Linear(64, 64) for _ in range(6)]
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), *layers, torch.nn.Linear(64, 8))
    model = DistributedDataParallel(model, process_group=group, **options)
    state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(25):
        optimizer.zero_grad()
        x = torch.randn(16, 32, generator=generator)
        model(x).sub(x[:, :8]).square().mean().backward()
        optimizer.step()
    assert state.compression_stats()[2] > 0  # Some steps were compressed.
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def check_same(weights):
    everybody = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(everybody, weights)
    assert all(torch.equal(other, weights) for other in everybody)


init(seconds=60)
weights = train(dist.group.WORLD)
check_same(weights)
check_same(train(dist.group.WORLD, bucket_cap_mb=0.02))
torch.testing.assert_close(weights, train(dist.new_group(backend="gloo")))
say("trained")
dist.destroy_process_group()
"""


@pytest.mark.parametrize("size", [2, 3])
def test_power_sgd_trains(torch_ranks, size):
    ranks = torch_ranks(POWER_SGD, size)
    assert ranks.wait(200) == [0] * size, "".join(ranks.text(rank) for rank in range(size))
    assert "trained\n" in ranks.text(0)
