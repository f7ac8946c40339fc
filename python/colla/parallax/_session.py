"""What ``parallel_run()`` returns for the graph."""

import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from colla.parallax._config import ProfileConfig

v1 = tf.compat.v1


class Session:
    """A session whose fetches and feeds are lists with an entry for each replica of this worker, of which there is one.

    Everything but ``run()`` is the MonitoredSession's.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def __enter__(self) -> "Session":
        self._session.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._session.__exit__(*error)

    def run(
        self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Runs the graph. `fetches` and the keys of `feed_dict` are tensors, operations or their names."""
        fed = {key: _one(key, value) for key, value in (feed_dict or {}).items()}
        return _listed(fetches, self._session.run(fetches, fed, options, run_metadata))


def _one(key: Any, values: Any) -> Any:
    if not isinstance(values, (list, tuple)) or len(values) != 1:
        name = key if isinstance(key, str) else key.name
        raise ValueError(f"feed_dict takes a list with one value for {name}: a worker has one replica")
    return values[0]


def _listed(fetches: Any, results: Any) -> Any:
    if isinstance(fetches, Mapping):
        return {key: _listed(fetch, results[key]) for key, fetch in fetches.items()}
    if isinstance(fetches, (list, tuple)):
        listed = [_listed(fetch, result) for fetch, result in zip(fetches, results)]
        return type(fetches)(*listed) if hasattr(fetches, "_fields") else type(fetches)(listed)
    return [results]


class Profile(v1.train.SessionRunHook):
    """Traces some calls of ``run()``."""

    def __init__(self, config: ProfileConfig) -> None:
        super().__init__()
        self._folder = config.profile_dir
        self._steps = set(config.profile_steps or ())
        if config.profile_range is not None:
            self._steps.update(range(*config.profile_range))
        self._number = -1

    def before_run(self, run_context: Any) -> Any:
        """Asks for a trace."""
        self._number += 1
        if self._number not in self._steps:
            return None
        return v1.train.SessionRunArgs(None, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes it."""
        if self._number not in self._steps:
            return
        os.makedirs(self._folder, exist_ok=True)
        with open(os.path.join(self._folder, f"run_metadata_{self._number}"), "wb") as file:
            file.write(run_values.run_metadata.SerializeToString())
