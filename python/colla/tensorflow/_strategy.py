"""A strategy of DistributedOptimizer, from its arguments to what an optimizer needs for it."""

from typing import Any

from colla._core import Op
from colla._process_sets import ProcessSet, global_process_set
from colla._reductions import Average
from colla.tensorflow._gradients import check_strategy
from colla.tensorflow._local_sgd import LocalRounds, LocalSgdOptions


class Exchange:
    """What ranks exchange: gradients, or variables. ValueError for arguments that do not fit together."""

    def __init__(
        self,
        strategy: str | None,
        local_sgd_options: LocalSgdOptions | None,
        op: Op,
        process_set: ProcessSet,
        passes: int,
    ) -> None:
        self.strategy = check_strategy(strategy)
        self.local = self.strategy == "local-sgd"
        self._local_options = local_sgd_options or LocalSgdOptions()
        if local_sgd_options is not None and not self.local:
            raise ValueError(f"local_sgd_options are for strategy local-sgd, not {self.strategy}")
        if self.strategy == "allreduce":
            return
        if not self.local:
            raise NotImplementedError(
                f"strategy {self.strategy} is not for TensorFlow yet: use allreduce or local-sgd, or colla.torch"
            )
        if op != Average or process_set is not global_process_set:
            raise ValueError(f"strategy={self.strategy!r} is for op=Average of all ranks alone")
        if passes != 1:
            raise ValueError(f"strategy={self.strategy!r} takes backward_passes_per_step=1 alone, not {passes}")

    def start_local(self, made: Any) -> Any:
        """`made`, with rounds of local-sgd."""
        made.__dict__["_rounds"] = LocalRounds(self._local_options)
        return made
