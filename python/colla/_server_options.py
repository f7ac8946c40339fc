"""How the servers of a strategy work, as the optimizers of every framework take it."""

import dataclasses

from colla import _strategies


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """How a strategy's servers work; the same on every rank. See ``colla train --help`` for each."""

    backup: int = 0
    max_staleness: int | None = None
    staleness: int = 0
    partitions: int = 0

    def check(self, strategy: str) -> None:
        """Raises ValueError for what `strategy` has no use for."""
        for field in dataclasses.fields(self):
            used_by = _strategies.with_option(field.name.replace("_", "-"))
            if getattr(self, field.name) != field.default and strategy not in used_by:
                raise ValueError(
                    f"ServerOptions({field.name}={getattr(self, field.name)}) is for strategy"
                    f" {' or '.join(used_by)}, not {strategy}"
                )
