"""``colla plot``: the curves of training directories, from their log.txt, as PNG or SVG."""

import pathlib

from colla.study import style
from colla.study.problem import Problem

_HEADER = "step\tstart\tend\tloss\taccuracy"
_MARKS = list(style.MARKERS.values())


def read(run: str) -> dict[str, list[float]]:
    """Columns of a run's log."""
    path = pathlib.Path(run) / "log.txt"
    if not path.exists():
        raise Problem(f"{run} holds no run: there is no {path}")
    lines = path.read_text(errors="replace").splitlines()
    if not lines or lines[0] != _HEADER:
        raise Problem(f"{path} is not the log of a run: it does not begin with {_HEADER.split()}")
    columns: dict[str, list[float]] = {name: [] for name in _HEADER.split()}
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split("\t")
        try:
            values = [float(field) for field in fields]
        except ValueError:
            values = []
        if len(values) != len(columns):
            if number == len(lines):  # A crash cut it.
                break
            raise Problem(f"{path} is broken: line {number} is not five numbers")
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    if len(columns["step"]) < 2:
        raise Problem(f"{path} has fewer than two steps: there is no curve to draw")
    return columns


def _smooth(values: list[float]) -> list[float]:
    window = max(1, len(values) // 50)
    result, total = [], 0.0
    for index, value in enumerate(values):
        total += value
        if index >= window:
            total -= values[index - window]
        result.append(total / min(index + 1, window))
    return result


def write(runs: list[str], out: str, against: str) -> None:
    kind = pathlib.Path(out).suffix.lstrip(".")
    if kind not in ("png", "svg"):
        raise Problem(f"--out is {out}, but takes a name that ends with .png or .svg")
    logs = [(run, read(run)) for run in runs]
    # Models without an accuracy have nan there.
    names = ["loss"] + (["accuracy"] if any(value == value for _, log in logs for value in log["accuracy"]) else [])
    drawn, grid = style.figure(width=4.6 * len(names) + 0.8, height=3.6, ncols=len(names), squeeze=False)
    for axes, name in zip(grid[0], names, strict=True):
        for index, (run, log) in enumerate(logs):
            axes.plot(log["step"] if against == "step" else log["end"], _smooth(log[name]), label=run,
                      color=style.PARTS[index % len(style.PARTS)], marker=_MARKS[index % len(_MARKS)],
                      markevery=max(1, len(log["step"]) // 8), linestyle=["-", "--", ":"][index // 8 % 3])
        axes.set_xlabel("step" if against == "step" else "seconds of training")
        axes.set_ylabel(f"training {name}")
        axes.set_xlim(left=0)
    handles, labels = grid[0][0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=2)
    style.save(drawn, out, kind)
    print(out)
