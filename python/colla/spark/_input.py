"""What may be fed."""

from typing import Any


class InputMode:
    """Where the workers of a cluster have their data from."""

    TENSORFLOW = 0
    """map_fun reads it."""
    FILES = TENSORFLOW
    SPARK = 1
    """``train()`` and ``inference()`` feed it."""


def check_rows(data: Any) -> None:
    """Raises TypeError, in one line, for what has no rows to feed."""
    if hasattr(data, "mapInArrow") and hasattr(data, "rdd"):
        kinds = [field.dataType.typeName() for field in data.schema.fields]
        if any(kind == "udt" for kind in kinds):
            names = [field.name for field, kind in zip(data.schema.fields, kinds) if kind == "udt"]
            raise TypeError(
                f"column {', '.join(names)} is of a type of the user's own: use vector_to_array() of pyspark.ml.functions"
            )
        return
    if not (hasattr(data, "mapPartitions") and hasattr(data, "getNumPartitions")):
        raise TypeError(f"only an RDD, a DataFrame or a DStream can be fed, not {type(data).__name__}")
