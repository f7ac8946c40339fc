"""A study as report.json has it, with what figures and tables ask of it."""

import json
import pathlib
from typing import Any

from colla.study.problem import Problem

# What every report.json has.
_PARTS = ["study", "program", "data", "synthetic", "command", "began", "interrupted", "colla_version", "torch_version",
          "machine", "steps", "seed", "shuffle", "runs_planned", "runs_done", "left_out", "notes", "target_losses",
          "baseline", "unit", "loss", "advice", "equality", "variants"]


class Study:
    def __init__(self, directory: str) -> None:
        self.directory = pathlib.Path(directory)
        path = self.directory / "report.json"
        if not path.exists():
            raise Problem(f"{directory} holds no finished study: there is no {path}")
        try:
            self.json: dict[str, Any] = json.loads(path.read_text())
            if self.json["format"] != 1:
                raise Problem(f"{path} has format {self.json['format']}, which a newer Colla wrote")
            missing = [name for name in _PARTS if name not in self.json]
            if missing:
                raise Problem(f"{path} is broken: it has no {missing[0]}")
            self.variants: list[dict[str, Any]] = self.json["variants"]
            self.advice: dict[str, Any] = self.json["advice"]
        except (ValueError, KeyError, TypeError) as error:
            raise Problem(f"{path} is broken: {error}") from error

    def __getitem__(self, name: str) -> Any:
        return self.json[name]

    @property
    def done(self) -> list[dict[str, Any]]:
        """Variants with a run that came to its end."""
        return [variant for variant in self.variants if variant["runs_done"] > 0]

    @property
    def measured(self) -> list[dict[str, Any]]:
        """Those that are no alternatives to more workers."""
        return [variant for variant in self.done if variant["purpose"] != "alternative"]

    @property
    def alternatives(self) -> list[dict[str, Any]]:
        return [variant for variant in self.done if variant["purpose"] == "alternative"]

    @property
    def baseline(self) -> dict[str, Any] | None:
        return self.find(self["baseline"])

    def find(self, identity: str) -> dict[str, Any] | None:
        return next((variant for variant in self.variants if variant["id"] == identity), None)

    @property
    def most_workers(self) -> int:
        return max((variant["workers"] for variant in self.measured), default=1)

    @property
    def published(self) -> list[dict[str, Any]]:
        """What others published of the experiment; studies of earlier versions have none."""
        return self.json.get("published", [])

    @property
    def peers(self) -> list[dict[str, Any]]:
        """Other systems."""
        return [variant for variant in self.done if variant["purpose"] == "peer"]

    def compared(self) -> list[dict[str, Any]]:
        """The variants that curves show: one worker, and each strategy with the most workers."""
        most = self.most_workers
        chosen = [variant for variant in self.measured
                  if variant["id"] == self["baseline"]
                  or (variant["purpose"] == "strategy" and variant["workers"] in (most, 1))]
        return chosen or self.measured


class Suite:
    """Several studies that belong together, each in a directory of its own."""

    def __init__(self, directory: pathlib.Path, json: dict[str, Any]) -> None:
        self.directory = directory
        try:
            self.name: str = json["suite"]
            self.command: str = json["command"]
            # A part that was not made yet, or failed, has no report.
            made = [(part["title"], part["name"]) for part in json["parts"]
                    if (directory / part["name"] / "report.json").exists()]
        except (KeyError, TypeError) as error:
            raise Problem(f"{directory / 'suite.json'} is broken: it has no {error}") from error
        if not made:
            raise Problem(f"{directory} holds no finished study: no part of it has a report.json")
        self.parts = [(title, name, Study(str(directory / name))) for title, name in made]
        self.missing = [part["title"] for part in json["parts"] if part["name"] not in {name for _, name in made}]

    @property
    def studies(self) -> list[Study]:
        return [study for _, _, study in self.parts]

    @staticmethod
    def of(directory: str) -> "Suite | None":
        path = pathlib.Path(directory) / "suite.json"
        if not path.exists():
            return None
        try:
            return Suite(pathlib.Path(directory), json.loads(path.read_text()))
        except ValueError as error:
            raise Problem(f"{path} is broken: {error}") from error


def first_run(variant: dict[str, Any]) -> dict[str, Any] | None:
    """The run that is drawn: the first one that came to its end."""
    return next((run for run in variant["runs"] if run["status"] == "done"), None)


def unit_of_bytes(most: float) -> tuple[float, str]:
    for size, unit in (1e9, "GB"), (1e6, "MB"), (1e3, "kB"):
        if most >= size:
            return size, unit
    return 1, "bytes"


def number(value: float | None, digits: int = 3) -> str:
    """A number with `digits` digits that count, and thousands apart."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return text if "e" not in text else f"{value:.{digits - 1}e}"
