"""Starting a training again until it ends by itself."""

import functools
from collections.abc import Callable
from typing import Any

from colla.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from colla.torch.elastic._state import State


def run_loop(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """`func` with its state synchronized before, and `reset` between a failure and the next start."""

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        skip_sync = False
        while True:
            try:
                if not skip_sync:
                    state.sync()
                return func(state, *args, **kwargs)
            except HorovodInternalError:
                state.restore()
                skip_sync = False
            except HostsUpdatedInterrupt as interrupt:
                skip_sync = interrupt.skip_sync
            reset()
            state.on_reset()

    return wrapper
