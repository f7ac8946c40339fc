"""What a process of a job on an executor calls, and how it travels there."""

import pickle
import sys
from typing import Any


def pack(function: Any, args: Any, kwargs: Any) -> bytes:
    """For `result_of()` on an executor; functions of the driver's script travel too."""
    from pyspark import cloudpickle

    content: bytes = cloudpickle.dumps((function, args, kwargs))
    return content


def result_of(call: bytes, context: Any) -> bytes:
    """Calls the function, with the context of a cluster if there is one; what it returns, packed."""
    from pyspark import cloudpickle

    function, args, kwargs = pickle.loads(call)
    if context is None:
        result = function(*args, **kwargs)
    else:
        if isinstance(args, list):
            sys.argv = args  # They are a command line.
        function(args, context)
        result = None
    content: bytes = cloudpickle.dumps(result)
    return content
