"""How processes that torchrun started find out which of them share a host.

torchrun tells a process how many its own agent has started. With an agent for each process, as Spark's
TorchDistributor starts them, that says nothing about hosts: all of them may be on one. So such processes meet
through the store that torchrun serves them, as the process groups of torch.distributed do, and compare their hosts.
"""

import datetime
import os
import time
from collections.abc import Mapping

import torch.distributed as dist

from colla._meeting import Meeting

# With the variables of colla run, or with lists of hosts, these say who is where. A job for which the user has
# named a store meets there.
_SAID_OTHERWISE = ("COLLA_RANK", "COLLA_WORKER_HOSTS", "COLLA_STORE")

_TIMEOUT = datetime.timedelta(minutes=5)
_PAUSE = 0.02  # Seconds between two looks at the store.


def needs_meeting(environment: Mapping[str, str]) -> bool:
    """Whether several agents of torchrun have started this job, and nothing else says where its processes are."""
    return (
        "TORCHELASTIC_RUN_ID" in environment
        and not any(environment.get(name) for name in _SAID_OTHERWISE)
        and environment.get("LOCAL_WORLD_SIZE") != environment.get("WORLD_SIZE")
    )


def meeting() -> Meeting:
    """Where the processes of this torchrun meet. All of them call it."""
    store, rank, size = next(dist.rendezvous("env://", timeout=_TIMEOUT))
    store = dist.PrefixStore("colla/meeting", store)
    store = dist.PrefixStore(_agree(store, rank, size), store)
    rounds = iter(range(2))

    def allgather(text: str) -> list[str]:
        prefix = f"{next(rounds)}/"
        store.set(f"{prefix}{rank}", text)
        keys = [f"{prefix}{other}" for other in range(size)]
        _await(store, keys)
        return [store.get(key).decode() for key in keys]

    return Meeting(rank, size, allgather)


def _agree(store: "dist.Store", rank: int, size: int) -> str:
    """A name for this meeting, which no other has.

    torchrun may serve one store to processes that failed and to those that take their place, and a process may come
    back to it by itself. So what is found there may be of ranks that are gone. Each rank writes down a number that it
    has just made up. Rank 0 proposes a meeting of the numbers that it finds, and proposes anew whenever one of them
    changes, until every rank has accepted the same proposal.
    """
    mine = os.urandom(8).hex()
    here = [f"here/{other}" for other in range(size)]
    store.set(here[rank], mine)
    end = time.monotonic() + _TIMEOUT.total_seconds()
    name, numbers, accepted = "", [], here
    while time.monotonic() < end:
        if rank == 0:
            _await(store, here)
            found = [store.get(key).decode() for key in here]
            if found != numbers:
                name, numbers = os.urandom(8).hex(), found
                store.set("proposal/0", " ".join([name, *numbers]))
        else:
            _await(store, ["proposal/0"])
            name, *numbers = store.get("proposal/0").decode().split()
        if len(numbers) == size and numbers[rank] == mine:
            accepted = [f"{name}/accepted/{other}" for other in range(size)]
            store.set(accepted[rank], "")
            if rank == 0 and store.check(accepted):
                store.set(f"{name}/agreed", "")
            if store.check([f"{name}/agreed"]):
                return name
        time.sleep(_PAUSE)
    raise _missing(store, accepted)


def _await(store: "dist.Store", keys: list[str]) -> None:
    try:
        store.wait(keys, _TIMEOUT)
    except dist.DistStoreError:
        raise _missing(store, keys) from None


def _missing(store: "dist.Store", keys: list[str]) -> RuntimeError:
    """What to say when somebody has not written a key in time. Keys end with the rank that writes them."""
    ranks = ", ".join(key.rpartition("/")[2] for key in keys if not store.check([key]))
    return RuntimeError(f"rank {ranks} did not come within {_TIMEOUT.seconds} s to form a job with the others")
