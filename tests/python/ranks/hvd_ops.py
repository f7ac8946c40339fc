"""Every collective against plain torch; what a rank would get is computed from all ranks' inputs."""

import itertools
import sys
import warnings

import torch
from _checks import raises, run

import colla.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
SHAPES = [(), (1,), (17,), (3, 5, 2), (0,), (4, 0), (1000, 7)]


def inputs(shape, dtype, seed=0):
    """What each rank brings: small whole numbers, whose sums and products have no rounding."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 4, shape, generator=generator).to(dtype) for _ in range(SIZE)]


def check_allreduce():
    for dtype, shape in itertools.product(FLOATS + INTEGERS, SHAPES):
        all_of_them = inputs(shape, dtype)
        stacked = torch.stack(all_of_them)
        wide = stacked.to(torch.float64)
        average = wide.sum(0) / SIZE
        expected = {
            hvd.Sum: wide.sum(0),
            hvd.Min: wide.amin(0),
            hvd.Max: wide.amax(0),
            hvd.Product: wide.prod(0),
            hvd.Average: average if dtype.is_floating_point else average.trunc(),
        }
        for op, result in expected.items():
            mine = all_of_them[RANK].clone()
            got = hvd.allreduce(mine, op=op)
            assert got.dtype == dtype and got.shape == mine.shape
            torch.testing.assert_close(got, result.to(dtype), msg=f"{op} {dtype} {shape}")
            assert torch.equal(mine, all_of_them[RANK])
            same = hvd.allreduce_(mine, op=op)
            assert same is mine and torch.equal(mine, got)


def check_bool():
    mine = torch.tensor([False, RANK == 0, True])
    assert hvd.allreduce(mine, op=hvd.Sum).tolist() == [False, True, True]
    assert hvd.allreduce(mine, op=hvd.Min).tolist() == [False, SIZE == 1, True]
    assert hvd.allgather(mine).tolist() == [x for rank in range(SIZE) for x in (False, rank == 0, True)]
    assert hvd.broadcast(mine, SIZE - 1).tolist() == [False, SIZE == 1, True]


def check_scale_and_average():
    mine = torch.tensor([1.0, 2.0]) * (RANK + 1)
    total = torch.tensor([1.0, 2.0]) * (SIZE * (SIZE + 1) / 2)
    torch.testing.assert_close(
        hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0), total * 1.5
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.testing.assert_close(hvd.allreduce(mine, average=False), total)
        torch.testing.assert_close(hvd.allreduce(mine, average=True), total / SIZE)
    assert {warning.category for warning in caught} == {DeprecationWarning}
    with raises(ValueError, "op alone"):
        hvd.allreduce(mine, average=True, op=hvd.Sum)
    with raises(ValueError, "takes Average"):
        hvd.allreduce(mine, op="sum")
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        got = hvd.allreduce(mine, op=hvd.Sum, compression=compression)
        assert got.dtype == torch.float32
        torch.testing.assert_close(got, total)


def check_grouped():
    tensors = [torch.full((n,), float(RANK + n)) for n in range(1, 6)]
    sums = [torch.full((n,), float(sum(r + n for r in range(SIZE)))) for n in range(1, 6)]
    for got, expected in zip(hvd.grouped_allreduce(tensors, op=hvd.Sum), sums, strict=True):
        torch.testing.assert_close(got, expected)
    handle = hvd.grouped_allreduce_async(tensors, name="group", op=hvd.Sum)
    for got, expected in zip(hvd.synchronize(handle), sums, strict=True):
        torch.testing.assert_close(got, expected)
    gathered = hvd.grouped_allgather([torch.full((RANK + 1, 2), RANK), torch.tensor([RANK])])
    assert gathered[0][:, 0].tolist() == [r for r in range(SIZE) for _ in range(r + 1)]
    assert gathered[1].tolist() == list(range(SIZE))
    scattered = hvd.grouped_reducescatter([torch.ones(SIZE, 3), torch.ones(2 * SIZE)], op=hvd.Sum)
    assert torch.equal(scattered[0], torch.full((1, 3), float(SIZE)))
    assert torch.equal(scattered[1], torch.full((2,), float(SIZE)))
    same = hvd.grouped_allreduce_(tensors, op=hvd.Sum)
    assert all(a is b and torch.equal(a, c) for a, b, c in zip(same, tensors, sums))
    with raises(ValueError, "at least one"):
        hvd.grouped_allreduce_async([])


def check_not_contiguous():
    mine = (torch.arange(12.0).view(3, 4) + RANK).t()
    expected = sum(torch.arange(12.0).view(3, 4).t() + r for r in range(SIZE))
    assert torch.equal(hvd.allreduce(mine, op=hvd.Sum), expected)
    assert torch.equal(hvd.allgather(mine)[:4], torch.arange(12.0).view(3, 4).t())
    strides = mine.stride()
    assert hvd.allreduce_(mine, op=hvd.Sum) is mine
    assert torch.equal(mine, expected) and mine.stride() == strides
    hvd.broadcast_(mine, 0)
    assert torch.equal(mine, expected)


def check_allgather():
    for dtype in FLOATS + INTEGERS:
        parts = [torch.full((rank + 1, 3), rank + 1).to(dtype) for rank in range(SIZE)]
        assert torch.equal(hvd.allgather(parts[RANK]), torch.cat(parts))
    nothing = [torch.ones(0 if rank == 0 else 2, 5) * rank for rank in range(SIZE)]
    assert torch.equal(hvd.allgather(nothing[RANK]), torch.cat(nothing))
    with raises(ValueError):
        hvd.allgather(torch.tensor(1.0))


def check_broadcast():
    for dtype, root in itertools.product(FLOATS + INTEGERS, range(SIZE)):
        mine = torch.full((4, 2), RANK + 1).to(dtype)
        theirs = torch.full((4, 2), root + 1).to(dtype)
        assert torch.equal(hvd.broadcast(mine, root), theirs)
        assert mine[0, 0] == RANK + 1
        assert hvd.broadcast_(mine, root) is mine and torch.equal(mine, theirs)
    with raises(ValueError):
        hvd.broadcast(torch.ones(1), SIZE)


def check_alltoall():
    even = torch.arange(2 * SIZE) + 100 * RANK
    assert hvd.alltoall(even).tolist() == [100 * r + 2 * RANK + i for r in range(SIZE) for i in (0, 1)]
    # Rank r sends r + p rows to rank p; one row more is not sent at all.
    rows = [RANK + p for p in range(SIZE)]
    mine = torch.full((sum(rows) + 1, 2), RANK)
    for splits in (rows, torch.tensor(rows), torch.tensor(rows, dtype=torch.int32)):
        got, received = hvd.alltoall(mine, splits)
        assert received.tolist() == [r + RANK for r in range(SIZE)]
        assert got[:, 0].tolist() == [r for r in range(SIZE) for _ in range(r + RANK)]
        if torch.is_tensor(splits):
            assert received.dtype == splits.dtype
    with raises(ValueError):
        hvd.alltoall(torch.ones(SIZE - 1), torch.ones(SIZE, dtype=torch.int32))
    with raises(ValueError, "whole number"):
        hvd.alltoall(torch.ones(SIZE), torch.ones(SIZE))
    with raises(ValueError, f"for {SIZE} ranks"):
        hvd.alltoall(torch.ones(SIZE), [1] * (SIZE + 1))
    if SIZE > 1:
        with raises(ValueError):
            hvd.alltoall(torch.ones(SIZE + 1))


def check_reducescatter():
    for dtype, length in itertools.product(FLOATS + [torch.int32, torch.int64], (SIZE, 2 * SIZE + 1, 1)):
        mine = (torch.arange(length * 2) % 5).view(length, 2).to(dtype)
        shares = [length // SIZE + (r < length % SIZE) for r in range(SIZE)]
        expected = (mine * SIZE).split(shares)[RANK]
        torch.testing.assert_close(hvd.reducescatter(mine, op=hvd.Sum), expected)
        torch.testing.assert_close(hvd.reducescatter(mine), mine.split(shares)[RANK])
    with raises(RuntimeError):
        hvd.reducescatter(torch.ones(4 * SIZE), op=hvd.Adasum)
    with raises((ValueError, RuntimeError)):
        hvd.reducescatter(torch.tensor(1.0))


def check_adasum():
    if SIZE & (SIZE - 1):
        with raises(NotImplementedError):
            hvd.allreduce(torch.ones(3), op=hvd.Adasum)
        return
    # Vectors at right angles add up; equal ones stay as they are.
    mine = torch.zeros(SIZE)
    mine[RANK] = RANK + 1.0
    torch.testing.assert_close(hvd.allreduce(mine, op=hvd.Adasum), torch.arange(1.0, SIZE + 1))
    torch.testing.assert_close(hvd.allreduce(torch.full((9,), 0.5), op=hvd.Adasum), torch.full((9,), 0.5))


def check_any_order():
    """Each rank starts 100 operations in an order of its own, and waits in another."""
    names = [str(i) for i in range(100)]
    mine = names[RANK * 7 % 100 :] + names[: RANK * 7 % 100]
    handles = {}
    for name in mine if RANK % 2 == 0 else reversed(mine):
        handles[name] = hvd.allreduce_async(torch.full((int(name) + 1,), float(name)), name=name, op=hvd.Sum)
    for name in names:
        got = hvd.synchronize(handles[name])
        assert torch.equal(got, torch.full((int(name) + 1,), float(name) * SIZE))
    assert hvd.synchronize(handles["0"]) is None
    with raises(ValueError, "no operation"):
        hvd.poll(handles["0"])


def check_poll():
    handle = hvd.allreduce_async(torch.ones(5), op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle).sum() == 5 * SIZE


def check_sparse():
    def tensor(rank):
        return torch.sparse_coo_tensor(torch.tensor([[0, rank + 1]]), torch.full((2, 3), rank + 1.0), (SIZE + 1, 3))

    whole = sum(tensor(rank).to_dense() for rank in range(SIZE))
    for op, expected in ((hvd.Sum, whole), (hvd.Average, whole / SIZE)):
        got = hvd.sparse_allreduce_async(tensor(RANK), "sparse", op)()
        assert got.is_sparse
        torch.testing.assert_close(got.to_dense(), expected)


def check_gradients():
    def gradient(function, shape=(4, 3)):
        tensor = torch.ones(shape, dtype=torch.float64, requires_grad=True)
        output = function(tensor)
        weights = torch.arange(output.numel(), dtype=torch.float64).view_as(output) + RANK
        (output * weights).sum().backward()
        return tensor.grad, weights

    got, mine = gradient(lambda t: hvd.allreduce(t, op=hvd.Sum))
    torch.testing.assert_close(got, hvd.allreduce(mine, op=hvd.Sum))
    got, mine = gradient(lambda t: hvd.grouped_allreduce([t, t])[1])
    torch.testing.assert_close(got, hvd.allreduce(mine))
    got, mine = gradient(hvd.allgather, (RANK + 1, 2))
    first = sum(range(1, RANK + 1))
    torch.testing.assert_close(got, hvd.allreduce(mine)[first : first + RANK + 1])
    got, mine = gradient(lambda t: hvd.broadcast(t, 0))
    torch.testing.assert_close(got, hvd.allreduce(mine) * (RANK == 0))
    got, mine = gradient(lambda t: hvd.reducescatter(t, op=hvd.Sum), (SIZE, 3))
    torch.testing.assert_close(got, hvd.allgather(mine) * SIZE)
    got, mine = gradient(lambda t: hvd.reducescatter(t), (SIZE, 3))
    torch.testing.assert_close(got, hvd.allgather(mine))
    splits = [p + 1 for p in range(SIZE)]
    got, mine = gradient(lambda t: hvd.alltoall(t, splits)[0], (sum(splits), 2))
    back, _ = hvd.alltoall(mine, [RANK + 1] * SIZE)
    torch.testing.assert_close(got, back)


def check_mismatches():
    """The name fails on all ranks; everything else goes on."""
    if SIZE == 1:
        return
    with raises(hvd.HorovodInternalError, "shape"):
        hvd.allreduce(torch.ones(3 + RANK), name="shapes")
    with raises(hvd.HorovodInternalError, "float"):
        hvd.allreduce(torch.ones(3, dtype=torch.float32 if RANK == 0 else torch.int32), name="types")
    with raises(hvd.HorovodInternalError):
        hvd.allreduce(torch.ones(3), op=hvd.Sum if RANK == 0 else hvd.Max, name="ops")
    with raises(hvd.HorovodInternalError):
        hvd.broadcast(torch.ones(3), RANK, name="roots")
    with raises(hvd.HorovodInternalError):
        hvd.allgather(torch.ones(2, 3 + RANK), name="rows")
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum, name="shapes") == SIZE


def check_duplicates():
    if RANK == 0:
        handle = hvd.allreduce_async(torch.ones(2), name="twice")
        if SIZE > 1:
            with raises(ValueError, "twice"):
                hvd.allreduce_async(torch.ones(2), name="twice")
        # An operation of another kind is another one.
        other = hvd.allgather_async(torch.ones(2), name="twice")
    hvd.barrier()
    if RANK > 0:
        handle = hvd.allreduce_async(torch.ones(2), name="twice")
        other = hvd.allgather_async(torch.ones(2), name="twice")
    assert torch.equal(hvd.synchronize(handle), torch.ones(2))
    assert len(hvd.synchronize(other)) == 2 * SIZE


def check_bad_tensors():
    with raises(ValueError, "complex64"):
        hvd.allreduce(torch.ones(2, dtype=torch.complex64))
    with raises(ValueError, "dense"):
        hvd.allreduce_async_(torch.eye(2).to_sparse())
    with raises(ValueError, "meta"):
        hvd.broadcast_async(torch.ones(2, device="meta"), 0)
    with raises(TypeError, "list"):
        hvd.allgather_async([1, 2])


def check_process_sets():
    if SIZE == 1:
        return
    even = hvd.add_process_set(range(0, SIZE, 2))
    odd = hvd.add_process_set(hvd.ProcessSet(range(1, SIZE, 2)))
    mine, other = (even, odd) if RANK % 2 == 0 else (odd, even)
    assert mine.included() and not other.included()
    assert mine.size() == len(mine.ranks) and mine.rank() == RANK // 2
    with raises(ValueError, "not in"):
        other.rank()
    got = hvd.allreduce(torch.tensor([float(RANK)]), op=hvd.Sum, process_set=mine)
    assert got == sum(mine.ranks)
    assert hvd.allgather(torch.tensor([RANK]), process_set=mine).tolist() == mine.ranks
    assert hvd.broadcast(torch.tensor([RANK]), mine.ranks[-1], process_set=mine) == mine.ranks[-1]
    assert hvd.broadcast_object(RANK, mine.ranks[-1], process_set=mine) == mine.ranks[-1]
    assert hvd.reducescatter(torch.ones(len(mine.ranks)), op=hvd.Sum, process_set=mine) == len(mine.ranks)
    hvd.barrier(mine)
    with raises(ValueError):
        hvd.allreduce(torch.ones(1), process_set=other)
    with raises(ValueError):
        hvd.add_process_set([0, SIZE])
    with raises(ValueError):
        hvd.add_process_set(range(SIZE))
    with raises(ValueError, "can't be used"):
        hvd.allreduce(torch.ones(1), process_set=hvd.ProcessSet([0]))
    assert hvd.remove_process_set(odd) and hvd.remove_process_set(even)
    assert odd.process_set_id is None and not hvd.remove_process_set(odd)
    assert not hvd.remove_process_set(hvd.global_process_set)
    assert hvd.global_process_set.ranks == list(range(SIZE)) and hvd.global_process_set.size() == SIZE


def check_join():
    """Ranks with less data join, and the others go on; unnamed operations fit together afterwards."""
    for first in range(SIZE):
        if RANK != first:
            got = hvd.allreduce(torch.full((3,), 2.0), op=hvd.Sum)
            assert torch.equal(got, torch.full((3,), 2.0 * (SIZE - 1))), got
            torch.testing.assert_close(hvd.allreduce(torch.ones(3)), torch.full((3,), (SIZE - 1) / SIZE))
            if SIZE > 1:
                with raises(hvd.HorovodInternalError):
                    hvd.allgather(torch.ones(1))
        last = hvd.join()
        assert 0 <= last < SIZE and (SIZE == 1 or last != first)
        assert hvd.allgather_object(last) == [last] * SIZE
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum) == SIZE


def check_objects():
    thing = {"rank": RANK, "tensor": torch.arange(3) * RANK, "text": "x" * (RANK + 1)}
    gathered = hvd.allgather_object(thing)
    assert [entry["rank"] for entry in gathered] == list(range(SIZE))
    assert [len(entry["text"]) for entry in gathered] == list(range(1, SIZE + 1))
    assert hvd.broadcast_object(thing if RANK == SIZE - 1 else None, SIZE - 1)["rank"] == SIZE - 1


def check_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(RANK + 1)
    root = SIZE - 1
    hvd.broadcast_parameters(model.state_dict(), root)
    assert all((tensor == root + 1).all() for tensor in model.state_dict().values())
    hvd.broadcast_parameters(list(model.named_parameters()), 0)
    hvd.broadcast_parameters(list(model.parameters()), 0)
    with raises(ValueError, "dict or a list"):
        hvd.broadcast_parameters(model.named_parameters(), 0)


def check_memory():
    """Operations leave nothing behind: memory grows for a while, and then no more."""

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def growth():
        before = resident()
        for _ in range(200):
            hvd.allreduce(torch.ones(25_000))
        return resident() - before

    grown = [growth() for _ in range(20)]
    assert min(grown) < 200 * 100, grown


def check_names():
    assert hvd.size() == SIZE and hvd.local_size() == SIZE and hvd.local_rank() == RANK
    assert hvd.cross_size() == 1 and hvd.cross_rank() == 0 and hvd.is_homogeneous()
    assert not any(
        built()
        for built in (hvd.mpi_built, hvd.mpi_enabled, hvd.gloo_built, hvd.gloo_enabled, hvd.nccl_built)
        + (hvd.ddl_built, hvd.ccl_built, hvd.cuda_built, hvd.rocm_built)
    )
    with raises(ValueError, "MPI"):
        hvd.mpi_threads_supported()
    hvd.init()  # A second time is fine.
    hvd.init(comm=list(range(SIZE)))
    assert hvd.is_initialized()


run([value for name, value in list(globals().items()) if name.startswith("check_")], lambda name: print("ok", name))
sys.exit(0)
