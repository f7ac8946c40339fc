"""CPython's own tests of multiprocessing.Pool, as they are installed with Python, on colla.Pool.

Left out are tests that look inside of the pool or never meet it: LEFT_OUT.
"""

import multiprocessing
import multiprocessing.pool
import sys
import unittest.mock

import pytest

import colla

suite = pytest.importorskip("test._test_multiprocessing", reason="Python's own tests are not installed")

LEFT_OUT = {
    "test_make_pool": "counts the list _pool",
    "test_resource_warning": "sets _state",
    "test_pool_worker_lifetime": "reads _pool and calls _repopulate_pool()",
    "test_worker_finalization_via_atexit_handler_of_multiprocessing": "starts a program with multiprocessing's pool",
}
# Of the class it is in, whatever else is there.
ALONE = {
    "TestInitializers": ["test_pool_initializer"],
    "TestStdinBadfiledescriptor": ["test_pool_in_process"],
    "TestPoolNotLeakOnFailure": ["test_release_unused_processes"],
}


@pytest.fixture(autouse=True, scope="module")
def instead_of_multiprocessings():
    multiprocessing.set_start_method("fork", force=True)
    with (
        unittest.mock.patch.object(multiprocessing, "Pool", colla.Pool),
        unittest.mock.patch.object(multiprocessing.pool, "Pool", colla.Pool),
        # With cloudpickle a pool sends what these tests expect it to refuse.
        unittest.mock.patch.dict(sys.modules, {"cloudpickle": None}),
    ):
        yield
    multiprocessing.set_start_method(None, force=True)


def on_colla(kind: type) -> type:
    """The class of tests `kind`, with colla.Pool."""
    members = {name: None for name in LEFT_OUT if hasattr(kind, name)}
    if not issubclass(kind, unittest.TestCase):
        members |= {"TYPE": "processes", "Pool": staticmethod(colla.Pool), "manager": None}
        return type(kind.__name__.strip("_"), (kind, unittest.TestCase), members | {"__module__": __name__})
    wanted = ALONE[kind.__name__]
    members |= {name: None for name in dir(kind) if name.startswith("test") and name not in wanted}
    return type(kind.__name__, (kind,), members | {"__module__": __name__})


TestPool = on_colla(suite._TestPool)
TestPoolWorkerErrors = on_colla(suite._TestPoolWorkerErrors)
TestPoolWorkerLifetime = on_colla(suite._TestPoolWorkerLifetime)
TestInitializers = on_colla(suite.TestInitializers)
TestStdinBadfiledescriptor = on_colla(suite.TestStdinBadfiledescriptor)
TestPoolNotLeakOnFailure = on_colla(suite.TestPoolNotLeakOnFailure)
