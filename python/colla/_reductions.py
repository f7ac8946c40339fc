"""What reductions of all frameworks have in common: the operations, and how a program chooses one."""

import warnings

from colla._core import Op

Average = Op.AVERAGE
Sum = Op.SUM
Adasum = Op.ADASUM
Min = Op.MIN
Max = Op.MAX
Product = Op.PRODUCT


def choose_op(op: Op | None, average: bool | None) -> Op:
    """What `op` and its forerunner `average`, of which at most one is given, ask for."""
    if op is not None:
        if average is not None:
            raise ValueError("op and average say the same: give op alone")
        if not isinstance(op, Op):
            raise ValueError(f"op is {op!r}, but takes Average, Sum, Adasum, Min, Max or Product")
        return op
    if average is not None:
        warnings.warn("average is deprecated: use op=Average or op=Sum", DeprecationWarning, stacklevel=3)
        return Average if average else Sum
    return Average
