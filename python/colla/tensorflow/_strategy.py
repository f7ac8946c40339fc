"""A strategy of DistributedOptimizer, from its arguments to what an optimizer needs for it."""

from typing import Any

from colla import _strategies
from colla._core import Op
from colla._process_sets import ProcessSet, global_process_set
from colla._reductions import Average
from colla.tensorflow._gradients import check_strategy
from colla.tensorflow._local_sgd import LocalRounds, LocalSgdOptions
from colla.tensorflow._servers import Rule, Served, ServerOptions


class Exchange:
    """What ranks exchange: gradients, or variables with servers or with each other. ValueError for arguments that do not
    fit together."""

    def __init__(
        self,
        strategy: str | None,
        server_options: ServerOptions | None,
        local_sgd_options: LocalSgdOptions | None,
        op: Op,
        process_set: ProcessSet,
        passes: int,
    ) -> None:
        self.strategy = check_strategy(strategy)
        self.servers = _strategies.find(self.strategy).servers
        self.hybrid = self.strategy == "hybrid"
        self.local = self.strategy == "local-sgd"
        self._server_options = server_options or ServerOptions()
        self._server_options.check(self.strategy)
        self._local_options = local_sgd_options or LocalSgdOptions()
        if local_sgd_options is not None and not self.local:
            raise ValueError(f"local_sgd_options are for strategy local-sgd, not {self.strategy}")
        if self.strategy == "allreduce":
            return
        if not self.servers and not self.local:
            raise NotImplementedError(f"strategy {self.strategy} is not for Python: use colla train or colla::Trainer")
        if op != Average or process_set is not global_process_set:
            raise ValueError(f"strategy={self.strategy!r} is for op=Average of all ranks alone")
        if passes != 1:
            raise ValueError(f"strategy={self.strategy!r} takes backward_passes_per_step=1 alone, not {passes}")

    def serve(self, optimizer: Any) -> Served:
        """This rank's end of servers that run `optimizer`."""
        return Served(self.strategy, Rule(optimizer), self._server_options)

    def start_local(self, made: Any) -> Any:
        """`made`, with rounds of local-sgd."""
        made.__dict__["_rounds"] = LocalRounds(self._local_options)
        return made
