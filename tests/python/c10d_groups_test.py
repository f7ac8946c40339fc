"""Groups that are made from groups: split and merged, as torch's ProcessGroup offers it."""

GROUPS = """

init()
world = dist.group.WORLD
backend = world._get_backend(torch.device("cpu"))


def total(group, value=rank):
    data = torch.tensor([float(value)])
    group.allreduce([data]).wait()
    return data.item()


assert backend.supports_splitting

# Halves, by the ranks of the group that is split; order does not matter.
mine = [[0, 2], [3, 1]][rank % 2]
half = world.split_group(mine, timeout=datetime.timedelta(seconds=40))
assert (half.rank(), half.size()) == (sorted(mine).index(rank), 2)
assert half._get_backend(torch.device("cpu")).name() == "colla"
assert total(half) == sum(mine)
assert total(world) == sum(range(size))

# Who is not in it gets none, and holds nobody up.
pair = world.split_group([1, 2], group_name="pair")
assert (pair is not None) == (rank in (1, 2))
if pair is not None:
    assert pair.group_name == "pair"
    assert total(pair) == 3

# Split again, down to one.
alone = half.split_group([half.rank()])
assert alone.size() == 1 and total(alone) == rank

# Groups that did not know each other meet at a store; ranks are those of arrival.
store = dist.PrefixStore("merge", world.get_group_store())
merged = half.merge_remote_group(store, size, datetime.timedelta(seconds=50), "merged")
assert merged.size() == size and merged.group_name == "merged"
places = [torch.zeros(1) for _ in range(size)]
merged.allgather([places], [torch.tensor([float(rank)])]).wait()
assert places[merged.rank()].item() == rank
assert sorted(place.item() for place in places) == list(range(size))

# A callback that wants Python's lock is under way while the group goes.
ran = []
future = merged.allreduce([torch.ones(1 << 20)]).get_future().then(lambda done: ran.append(done.value()[0][0].item()))
del merged
future.wait()
assert ran == [size]

# torch's own function splits for accelerators alone, and says so.
try:
    dist.split_group(split_ranks=[[0, 1], [2, 3]])
except RuntimeError as error:
    assert "split" in str(error), error
else:
    raise AssertionError("it splits")
say("groups")
if rank == 0:
    dist.destroy_process_group()
# Others leave as they are: with groups that nobody destroyed.
"""


def test_groups_split_and_merge(torch_ranks):
    ranks = torch_ranks(GROUPS, 4)
    assert ranks.wait() == [0] * 4, "".join(ranks.text(rank) for rank in range(4))
    for rank in range(4):
        assert "groups" in ranks.text(rank)


LATE = """
init()
if rank < 2:
    try:
        dist.group.WORLD.split_group([0, 1, 2], timeout=datetime.timedelta(seconds=2))
    except dist.DistError as error:
        say("refused:", error)
    store.set(f"refused{rank}", "")
else:
    store.wait(["refused0", "refused1"])
    time.sleep(3)  # Longer than that group's patience, which the barrier must not have.
# Nobody else is harmed, and the short patience was for that group alone.
dist.barrier()
dist.destroy_process_group()
"""


def test_a_split_names_who_did_not_come(torch_ranks):
    ranks = torch_ranks(LATE, 3)
    assert ranks.wait() == [0] * 3, "".join(ranks.text(rank) for rank in range(3))
    assert "rank 2 did not come" in ranks.text(0)
    assert "refused: colla: rank 0 did not say within 2000 ms where a group of 3 meets" in ranks.text(1)
