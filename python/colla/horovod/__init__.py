"""What ``import horovod`` means where ``colla.aliases`` takes Horovod's place."""

from colla import __version__, run

__all__ = ["__version__", "run"]
