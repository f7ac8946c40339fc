"""Starting a training again until it ends by itself."""

import functools
from collections.abc import Callable
from typing import Any

from colla.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from colla._elastic_state import State


# Failures with no commit between them, after which another start would only fail again.
_MOST_FAILURES = 3


def run_loop(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """`func` with its state synchronized before, and `reset` between a failure and the next start.

    Without progress it gives up: the third failure since the last commit is raised.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        skip_sync = False
        failures, commits = 0, state._commits
        while True:
            try:
                if not skip_sync:
                    state.sync()
                return func(state, *args, **kwargs)
            except HorovodInternalError as error:
                failures, commits = (failures if state._commits == commits else 0) + 1, state._commits
                if failures == _MOST_FAILURES:
                    raise HorovodInternalError(
                        f"the training failed {failures} times without a commit in between, the last time with: {error}"
                    ) from error
                state.restore()
                skip_sync = False
            except HostsUpdatedInterrupt as interrupt:
                skip_sync = interrupt.skip_sync
            reset()
            state.on_reset()

    return wrapper
