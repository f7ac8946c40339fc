"""Training inside Apache Spark.

    import colla.spark
    results = colla.spark.run(train, args=(0.1,), num_proc=2)

``run()`` calls a function as the workers of a job, on executors, as horovod.spark.run() does; ``run_program()`` runs a
C++ program so. ``TFCluster`` and the
modules beside it have TensorFlowOnSpark's API: a program of its changes its imports,
``from colla.spark import TFCluster, TFNode``.
"""

from colla.spark._program import run_program
from colla.spark._run import run

__all__ = ["run", "run_program"]
