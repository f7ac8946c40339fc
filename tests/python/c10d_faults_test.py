"""init_process_group("colla"): what happens when ranks die, hang, do not come, or just leave."""

import signal

# A rank tells what its operation raised.
TELL = """
def tell(name, operation):
    begun = time.monotonic()
    try:
        operation()
        say(name, "passed")
    except Exception as error:
        first = str(error).splitlines()[0]
        say(name, "raised", type(error).__name__, first, f"[{time.monotonic() - begun:.1f} s]")
"""

KILLED = (
    TELL
    + """
init()
other = dist.new_group()
dist.barrier()
dist.barrier(group=other)
say("ready")
if rank == 1:
    time.sleep(600)
tell("all_reduce", lambda: dist.all_reduce(torch.ones(100_000)))
tell("after", lambda: dist.barrier())
tell("recv", lambda: dist.recv(torch.ones(1), 1, group=other))
tell("async", lambda: dist.all_reduce(torch.ones(10), group=other, async_op=True).wait())
say("done")
"""
)


def test_a_killed_rank_is_named_by_all_others(torch_ranks):
    ranks = torch_ranks(KILLED, 3)
    for rank in range(3):
        ranks.await_text(rank, "ready")
    ranks.signal(1, signal.SIGKILL)
    assert ranks.wait() == [0, -signal.SIGKILL, 0]
    for rank in (0, 2):
        said = ranks.text(rank)
        assert "all_reduce raised DistNetworkError" in said, said
        assert "after raised Dist" in said
        assert "recv raised DistNetworkError" in said
        assert "async raised DistNetworkError" in said
        for line in said.splitlines():
            assert "raised" not in line or "rank 1 on host" in line, line


STOPPED = (
    TELL
    + """
init()
other = dist.new_group()
for group in (dist.group.WORLD, other):
    dist.barrier(group=group)
    group._get_backend(torch.device("cpu")).set_timeout(datetime.timedelta(seconds=5))
say("ready")
if rank == 2:
    time.sleep(600)
while not os.path.exists(sys.argv[3] + ".go"):
    time.sleep(0.02)
tell("all_reduce", lambda: dist.all_reduce(torch.ones(10)))
tell("recv", lambda: dist.recv(torch.ones(1), 2, tag=5, group=other))
# Both are there when the barrier begins.
other._get_backend(torch.device("cpu")).set_timeout(datetime.timedelta(seconds=180))
dist.send(torch.ones(1), 1, group=other) if rank == 0 else dist.recv(torch.ones(1), 0, group=other)
tell("monitored", lambda: other.monitored_barrier(datetime.timedelta(seconds=5)))
"""
)


def test_a_rank_that_hangs_is_named_when_the_time_is_over(torch_ranks, tmp_path):
    ranks = torch_ranks(STOPPED, 3)
    for rank in range(3):
        ranks.await_text(rank, "ready")
    ranks.signal(2, signal.SIGSTOP)
    (tmp_path / "0" / "store.go").touch()
    for rank in (0, 1):
        assert ranks.processes[rank].wait(180) == 0, ranks.text(rank)
        said = ranks.text(rank)
        assert "all_reduce raised DistBackendError" in said, said
        assert "recv raised DistBackendError" in said
        for line in said.splitlines():
            if line.startswith(("all_reduce", "recv")):
                # Who comes too late to be waited for is told that the group is broken, and why.
                assert "Timed out" in line or "is broken: timeout" in line, line
                assert "rank 2 on host" in line, line
    assert "Rank 2 failed to pass monitoredBarrier in 5000 ms" in ranks.text(0)
    assert "Rank 1 successfully reached monitoredBarrier, but" in ranks.text(1)


# torch's own wrapper, which looks for everybody before each collective.
DETAIL = (
    TELL
    + """
init()
group = dist.new_group(timeout=datetime.timedelta(seconds=2))
dist.all_reduce(torch.ones(10), group=group)
if rank != 1:
    tell("all_reduce", lambda: dist.all_reduce(torch.ones(10), group=group))
dist.barrier()
"""
)


def test_torchs_debug_wrapper_finds_a_rank_that_hangs(torch_ranks):
    ranks = torch_ranks(DETAIL, 3, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
    assert ranks.wait() == [0, 0, 0], ranks.text(0)
    assert "all_reduce raised RuntimeError [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 2000 ms" in ranks.text(0)
    assert "check rank 0 logs for faulty rank" in ranks.text(2)


ABSENT = (
    TELL
    + """
if rank == 1:
    sys.exit(0)
tell("init", lambda: init(seconds=2))
"""
)


def test_a_rank_that_does_not_come_is_named(torch_ranks):
    ranks = torch_ranks(ABSENT, 2)
    assert ranks.wait() == [0, 0]
    assert "init raised DistStoreError colla: rank 1 did not come within 2000 ms" in ranks.text(0)


MISMATCH = (
    TELL
    + """
init()
tell("mismatch", lambda: dist.all_reduce(torch.ones(10 if rank == 0 else 11)))
"""
)


def test_calls_that_differ_are_told_apart(torch_ranks):
    ranks = torch_ranks(MISMATCH, 2)
    assert ranks.wait() == [0, 0]
    for rank in range(2):
        said = ranks.text(rank)
        assert "mismatch raised DistBackendError" in said, said
        assert "allreduce of 10 float32" in said and "allreduce of 11 float32" in said


LEAVES = """
init()
dist.all_reduce(torch.ones(1000))
request = dist.isend(torch.ones(4), 1 - rank)
dist.recv(torch.ones(4), 1 - rank)
request.wait()
dist.all_reduce(torch.ones(10), async_op=True).wait()
if rank == 0:
    # Nobody answers these, and nobody waits for them.
    unanswered = dist.all_reduce(torch.ones(10), async_op=True)
    lost = dist.irecv(torch.ones(4), 1)
    also = dist.isend(torch.ones(1_000_000), 1)
else:
    dist.new_group([1], use_local_synchronization=True)
say("leaving")
"""


def test_a_program_may_end_without_more_ado(torch_ranks):
    ranks = torch_ranks(LEAVES, 2)
    assert ranks.wait() == [0, 0], ranks.text(0) + ranks.text(1)
    for rank in range(2):
        # Nothing but what it says itself: no complaint of a thread, no stack.
        assert ranks.text(rank) == "leaving\n"
