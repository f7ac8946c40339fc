"""Memory that ranks of one host share: torch asks the backend for it, and reduces there without a copy."""

MEMORY = """
import gc

from torch.nn.parallel import DistributedDataParallel

init()
backend = dist.group.WORLD._get_backend(torch.device("cpu"))


def is_shared(tensor):
    for line in open("/proc/self/maps"):
        begin, end = (int(address, 16) for address in line.split()[0].split("-"))
        if begin <= tensor.data_ptr() < end:
            return "memfd:" in line
    raise AssertionError("it is nowhere")


def regions():
    return sum("memfd:" in line for line in open("/proc/self/maps"))


assert backend.supports_tensor_alloc(torch.device("cpu"))
before = regions()
mine = backend.allocate_tensor(1000, dtype=torch.float64, device=torch.device("cpu"))
assert is_shared(mine) and mine.dtype == torch.float64 and mine.shape == (1000,)
mine.fill_(rank + 1)
dist.all_reduce(mine)
assert (mine == sum(range(1, size + 1))).all()
# One rank's is shared, another's not.
mixed = mine if rank == 0 else mine.clone()
mixed.fill_(rank + 1)
dist.all_reduce(mixed)
assert (mixed == sum(range(1, size + 1))).all()
del mine, mixed
gc.collect()
assert regions() <= before + 1, "what is freed goes"
assert backend.allocate_tensor(0, dtype=torch.float32, device=torch.device("cpu")).numel() == 0

# DDP's buckets, and views of them, before and after the group's end.
seen = []


def hook(state, bucket):
    seen.append(bucket.buffer())
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])


model = DistributedDataParallel(torch.nn.Linear(100, 10), gradient_as_bucket_view=True)
model.register_comm_hook(None, hook)
for _ in range(3):  # Buckets are made anew after the first step.
    model.zero_grad()
    model(torch.ones(2, 100)).sum().backward()
    assert (model.module.weight.grad == 2 * size).all()
wanted = os.environ.get("DDP_DISABLE_COMM_MEM") == "0"
assert [is_shared(buffer) for buffer in seen] == [wanted] * 3
grad = model.module.weight.grad
dist.destroy_process_group()
del model, seen, backend
gc.collect()
assert (grad == 2 * size).all()
grad.zero_()
say("fine", wanted)
"""


def outputs(ranks):
    assert ranks.wait() == [0, 0], "".join(ranks.text(rank) for rank in range(2))
    return [ranks.text(rank).strip() for rank in range(2)]


def test_buckets_lie_in_shared_memory(torch_ranks):
    assert outputs(torch_ranks(MEMORY, 2)) == ["fine True"] * 2


def test_buckets_lie_elsewhere_if_told_so(torch_ranks):
    assert outputs(torch_ranks(MEMORY, 2, env={"DDP_DISABLE_COMM_MEM": "1"})) == ["fine False"] * 2
