"""Training that goes on when hosts come and go.

Members can't join and leave yet: when a rank is lost, the others can't form a new job, and the run ends.
What is here is how programs are written for it, and what such a program does while all stay.
"""

from collections.abc import Callable
from typing import Any

from colla._elastic_run import run_loop
from colla._elastic_state import HostUpdateResult, ObjectState, State
from colla.torch._world import init, shutdown
from colla.torch.elastic.sampler import ElasticSampler
from colla.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "HostUpdateResult", "ObjectState", "State", "TorchState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for the training, a function whose first argument is a ``State``.

    Ranks start from the state of rank 0. When a collective fails (``HorovodInternalError``) all go back to
    their last commit and start it again; when hosts have changed (``HostsUpdatedInterrupt``) they start it
    again as they are. A training that fails three times without a commit in between is not started again:
    the last error is raised.
    """
    return run_loop(func, _reset)


def _reset() -> None:
    shutdown()
    init()
