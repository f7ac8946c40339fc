"""The strategies that a job of several processes can have, as the table of C++ has them (colla/strategy.h)."""

from colla import _core

PROCESSES = tuple(traits for traits in _core.strategies if traits.processes)


def find(name: str) -> _core.StrategyTraits:
    """The strategy with this name; ValueError with those that there are if it has none."""
    for traits in PROCESSES:
        if traits.name == name:
            return traits
    raise ValueError(f"there is no strategy {name!r}: use {', '.join(traits.name for traits in PROCESSES)}")


def with_option(option: str) -> list[str]:
    """The names of the strategies that take an option, which has the name of a flag without its dashes."""
    return [traits.name for traits in PROCESSES if option in traits.options]
