"""Operations of c10d and named ones on two hosts with two ranks each, bit for bit as on one host."""

import base64
import os

import pytest

# Numbers of such sizes that every other order of additions has other bits.
VALUES = """
import zlib

def values(count, seed):
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    sizes = torch.randint(-12, 12, (count,), generator=generator).to(torch.float32)
    return torch.randn(count, generator=generator) * torch.exp2(sizes)


def tell(name, tensor):
    raw = tensor.contiguous().view(torch.uint8).numpy().tobytes()
    say(name, tensor.dtype, tuple(tensor.shape), f"{zlib.crc32(raw):08x}")

COUNTS = [1, 1000, 2049, 300_001]
"""

C10D = (
    VALUES
    + """
init()
for count in COUNTS:
    for dtype in torch.float32, torch.float64, torch.bfloat16:
        data = values(count, 1).to(dtype)
        for op in dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX:
            every = data.clone()
            dist.all_reduce(every, op)
            tell(f"all_reduce {count} {op}", every)
        part = torch.empty_like(data)
        dist.reduce_scatter_tensor(part, torch.cat([values(count, 2 + r).to(dtype) for r in range(size)]))
        tell(f"reduce_scatter {count}", part)
        rooted = data.clone()
        dist.reduce(rooted, 2)
        tell(f"reduce {count}", rooted if rank == 2 else data)
    all = torch.empty(size * count)
    dist.all_gather_into_tensor(all, values(count, 7))
    tell(f"all_gather {count}", all)
    other = torch.empty(size * count)
    dist.all_to_all_single(other, values(size * count, 8))
    tell(f"all_to_all {count}", other)
    cast = values(count, 9)
    dist.broadcast(cast, 3)
    tell(f"broadcast {count}", cast)
handles = [(t := values(5000 + i, i), dist.all_reduce(t, async_op=True)) for i in range(20)]
for tensor, handle in handles:
    handle.wait()
    tell("async", tensor)
dist.destroy_process_group()
say("passed")
"""
)

NAMED = (
    VALUES
    + """
import colla.torch as hvd

hvd.init()
for count in COUNTS:
    data = values(count, 1)
    tell(f"allreduce {count}", hvd.allreduce(data, name=f"sum {count}", op=hvd.Sum))
    tell(f"average {count}", hvd.allreduce(data, name=f"average {count}"))
    tell(f"allgather {count}", hvd.allgather(values(count + rank, 2), name=f"all {count}"))
    tell(f"broadcast {count}", hvd.broadcast(values(count, 3), 3, name=f"cast {count}"))
    tell(f"alltoall {count}", hvd.alltoall(values(size * count, 4), name=f"other {count}"))
    tell(f"reducescatter {count}", hvd.reducescatter(values(size * count, 5), name=f"part {count}", op=hvd.Sum))
# In an order of its own on each rank, and fused.
order = torch.randperm(40, generator=torch.Generator().manual_seed(rank)).tolist()
handles = {i: hvd.allreduce_async(values(100 + 50 * i, i), name=f"fused {i}", op=hvd.Sum) for i in order}
for i in range(40):
    tell(f"fused {i}", hvd.synchronize(handles[i]))
hvd.shutdown()
say("passed")
"""
)


def variables(rank: int, local_size: int, run: str) -> list[str]:
    """What torchrun would set for a rank of four."""
    names = {"RANK": rank, "WORLD_SIZE": 4, "LOCAL_RANK": rank % local_size, "LOCAL_WORLD_SIZE": local_size}
    names |= {"MASTER_PORT": 29519, "TORCHELASTIC_RUN_ID": f"{run}-{os.getpid()}"}
    return ["env", *(f"{name}={value}" for name, value in names.items())]


def told(text: str) -> list[str]:
    """The lines without torch's own warnings, which name a time and a file."""
    return [line for line in text.splitlines() if not line.startswith("[W")]


@pytest.mark.parametrize("script", [C10D, NAMED], ids=["c10d", "named"])
def test_two_hosts_have_the_bits_of_one(torch_ranks, hosts, tmp_path, script):
    prefixes, address = hosts
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_bytes(base64.b64encode(os.urandom(32)))
    secret = {"COLLA_SECRET_FILE": str(file)}
    alone = torch_ranks(script, 4, {"MASTER_ADDR": "127.0.0.1"}, [variables(rank, 4, "one") for rank in range(4)])
    assert alone.wait() == [0] * 4, alone.text(0)
    # The interfaces of the two hosts: their own names are not known to each other.
    places = [
        [*prefixes[rank // 2], *variables(rank, 2, "two"), f"COLLA_INTERFACE=v{'ab'[rank // 2]}"] for rank in range(4)
    ]
    spread = torch_ranks(script, 4, secret | {"MASTER_ADDR": address}, places)
    assert spread.wait() == [0] * 4, spread.text(0)
    for rank in range(4):
        assert told(spread.text(rank)) == told(alone.text(rank))
        assert spread.text(rank).endswith("passed\n")
