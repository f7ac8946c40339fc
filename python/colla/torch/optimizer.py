"""Optimizers that agree with the other ranks before they change parameters."""

import contextlib
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from colla import _strategies
from colla._core import Op, count_step
from colla.torch import _world, ops
from colla.torch.compression import Compression, Compressor
from colla.torch.functions import broadcast_object
from colla.torch.ops import Adasum, Average
from colla.torch.process_sets import ProcessSet, global_process_set

if TYPE_CHECKING:
    from colla.torch._local_sgd import LocalSgdOptions
    from colla.torch._servers import ServerOptions

_Params = list[torch.nn.Parameter]


def _check_names(named: Sequence[Any], params: _Params) -> dict[torch.nn.Parameter, str]:
    if any(not isinstance(entry, tuple) for entry in named):
        raise ValueError("named_parameters takes pairs of a name and a parameter, as model.named_parameters() gives")
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"names in named_parameters must differ, but these stand there twice: {', '.join(twice)}")
    by_param = {param: name for name, param in named}
    unnamed = sum(param not in by_param for param in params)
    if unnamed:
        raise ValueError(f"named_parameters lacks {unnamed} of the optimizer's {len(params)} parameters")
    return by_param


class _Distributed(torch.optim.Optimizer):
    """What both kinds have in common: names, and hooks that count backward passes.

    Comes before the class of the optimizer that it takes the place of, so that super() is the latter.
    """

    def _setup(
        self, strategy: str, named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None, passes: int
    ) -> None:
        self.strategy = strategy
        if named_parameters is None:
            named_parameters = [
                (f"noname.{i}.{j}", param)
                for i, group in enumerate(self.param_groups)
                for j, param in enumerate(group["params"])
            ]
        params = [param for group in self.param_groups for param in group["params"]]
        self._parameter_names = _check_names(list(named_parameters), params)
        self.backward_passes_per_step = passes
        # Backward passes until a parameter's gradient is sent.
        self._passes_left: dict[torch.nn.Parameter, int] = {}
        # How to finish what has been sent.
        self._handles: dict[torch.nn.Parameter, Callable[[], None]] = {}
        self._under_way = False  # Backward has run since the last step.

    def _register(self, params: Iterable[torch.nn.Parameter]) -> None:
        # A model may outlive its optimizer.
        this = weakref.ref(self)

        def hook(param: Any) -> None:
            optimizer = this()
            if optimizer is not None:
                optimizer._on_gradient(param)

        for param in params:
            if param.requires_grad:
                self._passes_left[param] = self.backward_passes_per_step
                param.register_post_accumulate_grad_hook(hook)

    def _on_gradient(self, param: torch.nn.Parameter) -> None:
        if self._passes_left[param] <= 0:
            raise AssertionError(
                f"the gradient of {self._parameter_names[param]} was computed more than backward_passes_per_step ="
                f" {self.backward_passes_per_step} times before step(): give a larger number to accumulate gradients"
            )
        self._under_way = True
        self._passes_left[param] -= 1
        if self._passes_left[param] == 0:
            self._on_ready(param)

    def _on_ready(self, param: torch.nn.Parameter) -> None:
        """The last backward pass for `param` before step() is over."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Waits for all that has been sent."""
        for finish in self._handles.values():
            finish()
        self._forget()

    def _forget(self) -> None:
        self._handles.clear()
        self._under_way = False
        for param in self._passes_left:
            self._passes_left[param] = self.backward_passes_per_step

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Gradients of so many backward passes are added up before they are sent."""
        if passes <= 0:
            raise ValueError(f"backward_passes_per_step must be above 0, not {passes}")
        self.backward_passes_per_step = passes
        for param in self._passes_left:
            self._passes_left[param] = passes

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters, on all ranks."""
        super().add_param_group(param_group)
        number = len(self.param_groups) - 1
        params = self.param_groups[number]["params"]
        self._parameter_names.update({param: f"noname.{number}.{j}" for j, param in enumerate(params)})
        if self._passes_left:
            self._register(params)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As the optimizer's own; what has been sent for the next step is forgotten."""
        self._forget()
        super().load_state_dict(state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As the optimizer's own, but not between backward and step, when gradients are on their way."""
        if self._under_way:
            raise AssertionError(
                "zero_grad() was called after backward() and before step() or synchronize(), while gradients are"
                " on their way to other ranks"
            )
        super().zero_grad(set_to_none)


class _GradientOptimizer(_Distributed):
    """Reduces gradients while backward still runs."""

    def _start(
        self,
        compression: type[Compressor],
        op: Op,
        predivide: float,
        groups: int | Sequence[Sequence[torch.Tensor]] | None,
        sparse_as_dense: bool,
        process_set: ProcessSet,
    ) -> None:
        self._compression = compression
        self.op = op
        self.gradient_predivide_factor = predivide
        self.sparse_as_dense = sparse_as_dense
        self.process_set = process_set
        self._synchronized = False
        self._should_synchronize = True
        self._sparse: set[torch.nn.Parameter] = set()
        # Parameters whose gradients travel together, and how many of them are still to come.
        self._units: dict[torch.nn.Parameter, _Params] = {}
        self._missing: dict[torch.nn.Parameter, int] = {}  # By the first of a unit.
        _check_groups(groups)
        if process_set.included() and process_set.size() != 1:
            self._register([param for group in self.param_groups for param in group["params"]])
            if groups is not None:
                self._group(groups)

    def _group(self, groups: int | Sequence[Sequence[torch.Tensor]]) -> None:
        # In the order of one rank, so that all form the same groups.
        by_name = {self._parameter_names[param]: param for param in self._passes_left}
        root = (self.process_set.ranks or [0])[0]
        order = broadcast_object(list(by_name), root, process_set=self.process_set)
        if sorted(order) != sorted(by_name):
            raise ValueError(f"rank {root} has other parameters than rank {_world.rank()}")
        params = [by_name[name] for name in order]
        units: list[_Params]
        if isinstance(groups, int):
            count, more = divmod(len(params), groups)
            ends = [i * count + min(i, more) for i in range(groups + 1)]
            units = [params[begin:end] for begin, end in zip(ends, ends[1:])]
        else:
            units = [[param for param in group if param in self._passes_left] for group in groups]  # type: ignore
            named = {param for unit in units for param in unit}
            units += [[param] for param in params if param not in named]
        for unit in units:
            for param in unit:
                self._units[param] = unit

    def _unit(self, param: torch.nn.Parameter) -> _Params:
        return self._units.get(param, [param])

    def _on_ready(self, param: torch.nn.Parameter) -> None:
        unit = self._unit(param)
        left = self._missing.get(unit[0], len(unit)) - 1
        self._missing[unit[0]] = left
        if left == 0:
            self._launch(unit)

    def _launch(self, unit: _Params) -> None:
        dense: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        for param in unit:
            if param.grad is None:
                # Others may have computed one. They expect the same kind.
                zeros = torch.zeros_like(param)
                param.grad = zeros.to_sparse(1) if param in self._sparse else zeros
            if param.grad.is_sparse:
                self._sparse.add(param)
            if param.grad.is_sparse and not self.sparse_as_dense:
                self._handles[param] = self._launch_sparse(param)
            else:
                dense.append((param, param.grad.to_dense() if param.grad.is_sparse else param.grad))
        if not dense:
            return
        compressed = [self._compression.compress(gradient) for _, gradient in dense]
        predivide = self.gradient_predivide_factor
        handle = ops.grouped_allreduce_async_(
            [small for small, _ in compressed],
            name=self._parameter_names[unit[0]],
            op=self.op,
            prescale_factor=1 / predivide,
            postscale_factor=predivide,
            process_set=self.process_set,
        )

        def finish() -> None:
            for (param, _), small, (_, context) in zip(dense, ops.synchronize(handle), compressed):
                reduced = self._compression.decompress(small, context)
                assert param.grad is not None
                if param.grad.is_sparse:
                    param.grad = reduced.to_sparse(param.grad.sparse_dim())
                elif param.grad is not reduced:
                    param.grad.copy_(reduced)

        self._handles[dense[0][0]] = finish

    def _launch_sparse(self, param: torch.nn.Parameter) -> Callable[[], None]:
        assert param.grad is not None
        result = ops.sparse_allreduce_async(
            param.grad, self._parameter_names[param], self.op, process_set=self.process_set
        )

        def finish() -> None:
            param.grad = result()

        return finish

    def synchronize(self) -> None:
        """Waits until the gradients of all ranks are reduced, for instance in order to clip them.

        Follow it with ``with optimizer.skip_synchronize(): optimizer.step()``.
        """
        for param in self._passes_left:
            unit = self._unit(param)
            if param is unit[0] and self._missing.get(param, len(unit)) > 0:
                self._launch(unit)
        self._finish()
        self._synchronized = True

    def _forget(self) -> None:
        super()._forget()
        self._missing.clear()
        self._synchronized = False

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Inside, step() takes gradients as they are: ``synchronize()`` was called before."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Reduces gradients, unless that has been done, and changes the parameters."""
        count_step()
        if not self._should_synchronize or closure is None:
            if self._should_synchronize:
                if self._synchronized:
                    warnings.warn(
                        "optimizer.step() called without optimizer.skip_synchronize() after optimizer.synchronize():"
                        " gradients are reduced twice",
                        stacklevel=2,
                    )
                self.synchronize()
            self._synchronized = False
            return super().step(closure)  # type: ignore[arg-type]

        def reduced() -> Any:
            loss = closure()
            self.synchronize()
            return loss

        self._synchronized = False
        loss = super().step(reduced)
        self._synchronized = False
        return loss


class _DeltaOptimizer(_Distributed):
    """Lets the optimizer make its own step for each parameter, and combines the steps with Adasum."""

    def _start(self, compression: type[Compressor]) -> None:
        self._compression = compression
        self._register([param for group in self.param_groups for param in group["params"]])

    def _on_ready(self, param: torch.nn.Parameter) -> None:
        before = param.detach().clone()
        self._step_alone(param)
        delta = param.detach() - before
        with torch.no_grad():
            param.copy_(before)  # Until step() nothing has happened.
        small, context = self._compression.compress(delta)
        handle = ops.allreduce_async_(small, name=self._parameter_names[param], op=Adasum)

        def finish() -> None:
            with torch.no_grad():
                param.add_(self._compression.decompress(ops.synchronize(handle), context))

        self._handles[param] = finish

    def _step_alone(self, param: torch.nn.Parameter) -> None:
        groups = [group["params"] for group in self.param_groups]
        try:
            for group, params in zip(self.param_groups, groups):
                group["params"] = [other for other in params if other is param]
            super().step()
        finally:
            for group, params in zip(self.param_groups, groups):
                group["params"] = params

    def synchronize(self) -> None:
        """Does nothing: there are no reduced gradients to wait for."""

    def skip_synchronize(self) -> "contextlib.AbstractContextManager[None]":
        """Raises AssertionError: steps, not gradients, are combined."""
        raise AssertionError("an optimizer with op=Adasum can't skip synchronization")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Changes the parameters by the combined steps of all ranks."""
        count_step()
        loss = closure() if closure is not None else None
        for param in self._passes_left:
            if param not in self._handles:
                self._on_ready(param)
        self._finish()
        return loss


def _check_groups(groups: Any) -> None:
    if groups is None or (isinstance(groups, int) and groups > 0):
        return
    if not isinstance(groups, (list, tuple)):
        raise ValueError(f"groups takes a number above 0 or lists of parameters, not {groups!r}")
    params = [param for group in groups for param in group]
    if any(not isinstance(param, torch.Tensor) for param in params):
        raise ValueError("groups takes lists of parameters")
    if len(set(params)) < len(params):
        raise ValueError("a parameter may stand in groups only once")


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: Op = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[torch.Tensor]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    strategy: str | None = None,
    server_options: "ServerOptions | None" = None,
    local_sgd_options: "LocalSgdOptions | None" = None,
) -> Any:
    """An optimizer like `optimizer`, of a class derived from its own, that reduces gradients over ranks.

    That begins while ``backward()`` still runs, gradient by gradient, and ``step()`` waits for it. What the
    optimizer holds (state, parameter groups) is that of `optimizer`, which is not to be used any more.

    Args:
        named_parameters: ``model.named_parameters()``, with all parameters of the optimizer. Ranks' gradients
            are matched by name.
        compression: ``Compression.fp16`` or ``bf16``: gradients travel with 16 bits.
        backward_passes_per_step: Gradients of so many backward passes are added up before they are sent.
        op: Average, Sum, Min, Max, Product, or Adasum, which combines the steps of ranks' optimizers instead
            of gradients.
        gradient_predivide_factor: With Average: gradients are divided by it before they are added, and by
            size / factor after it.
        num_groups: The old name of `groups`.
        groups: Gradients that travel together: how many such groups, or lists of parameters.
        sparse_as_dense: Sparse gradients are reduced as dense ones.
        process_set: The ranks that take part. On others the optimizer is as it was.
        strategy: Beyond Horovod: ``allreduce``; ``ps-sync``, ``ps-async`` or ``ps-ssp``, where parameter servers
            hold the parameters and run the optimizer; or ``hybrid``, where they do so for parameters with sparse
            gradients, such as those of ``nn.Embedding(sparse=True)``; or ``local-sgd``, where ranks train by
            themselves and average parameters now and then. None: what ``colla run --strategy`` says.
        server_options: How the servers work; ValueError for an option that the strategy does not use.
        local_sgd_options: How often local-sgd averages, and its outer optimizer.
    """
    if not isinstance(op, Op):
        raise ValueError(f"op is {op!r}, but takes Average, Sum, Adasum, Min, Max or Product")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor is for op=Average alone")
    if num_groups != 0:
        warnings.warn("num_groups is deprecated: use groups", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if backward_passes_per_step <= 0:
        raise ValueError(f"backward_passes_per_step must be above 0, not {backward_passes_per_step}")

    from colla.torch import _local_sgd, _servers  # They derive from the classes here.

    strategy = strategy or os.environ.get("COLLA_STRATEGY") or "allreduce"
    traits = _strategies.find(strategy)
    if local_sgd_options is not None and strategy != _local_sgd.STRATEGY:
        raise ValueError(f"local_sgd_options are for strategy {_local_sgd.STRATEGY}, not {strategy}")
    if strategy != "allreduce" and (op != Average or process_set is not global_process_set):
        raise ValueError(f"strategy={strategy!r} is for op=Average of all ranks alone")
    server_options = server_options or _servers.ServerOptions()
    server_options.check(strategy)

    wrapped = type(optimizer)
    kind: type[_Distributed] = _GradientOptimizer
    if strategy == _local_sgd.STRATEGY:
        kind = _local_sgd.LocalOptimizer
    elif traits.servers:
        kind = _servers.HybridOptimizer if strategy == "hybrid" else _servers.ServerOptimizer
    elif strategy != "allreduce":
        raise NotImplementedError(f"strategy {strategy} is not for Python yet: use colla train or colla::Trainer")
    elif op == Adasum and process_set.size() != 1:
        kind = _DeltaOptimizer
    derived: Any = type(wrapped.__name__, (kind, wrapped), {"_wrapped": wrapped})
    made = derived.__new__(derived)
    # A scheduler may have put a counter around the old one's step().
    made.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    made._setup(strategy, named_parameters, backward_passes_per_step)
    if kind is _DeltaOptimizer:
        if process_set is not global_process_set:
            raise NotImplementedError("op=Adasum is for the set of all ranks alone")
        made._start(compression)
    elif kind is _servers.ServerOptimizer:
        made._start(server_options)
    elif kind is _local_sgd.LocalOptimizer:
        made._start(local_sgd_options or _local_sgd.LocalSgdOptions())
    else:
        if kind is _servers.HybridOptimizer:
            made._choose(server_options)
        made._start(compression, op, gradient_predivide_factor, groups, sparse_as_dense, process_set)
    return made
