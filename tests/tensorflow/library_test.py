"""The kernels' library: when and how it is compiled, and what an import says when something is missing."""

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import ROOT

IMPORT = "import sys, colla.tensorflow; print('torch' in sys.modules)"


def start(python, script=IMPORT, **variables):
    return subprocess.Popen(
        [python, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | variables,
    )


def ours(errors):
    return [line for line in errors.splitlines() if line.startswith("colla: ")]


def test_several_processes_compile_it_once(python, tmp_path):
    processes = [start(python, XDG_CACHE_HOME=str(tmp_path)) for _ in range(2)]
    results = [(*process.communicate(timeout=240), process.returncode) for process in processes]
    assert [code for _, _, code in results] == [0, 0], results
    assert [out for out, _, _ in results] == ["False\n", "False\n"]
    lines = [line for _, errors, _ in results for line in ours(errors)]
    assert len(lines) == 1 and "compiling the kernels for TensorFlow 2." in lines[0], lines
    assert len(list((tmp_path / "colla" / "tensorflow").glob("*.so"))) == 1
    assert not ours(start(python, XDG_CACHE_HOME=str(tmp_path)).communicate(timeout=120)[1])


@pytest.mark.parametrize(
    ("compiler", "line"),
    [("/no/compiler", "there is no /no/compiler: install g++"), ("false", "do not compile for TensorFlow 2.")],
)
def test_a_compiler_that_does_not(python, tmp_path, compiler, line):
    errors = start(python, XDG_CACHE_HOME=str(tmp_path), CXX=compiler).communicate(timeout=120)[1]
    assert errors.splitlines()[-1].startswith("ImportError: ") and line in errors.splitlines()[-1]
    assert not list((tmp_path / "colla" / "tensorflow").glob("*.so*"))


def test_no_tensorflow():
    """This Python, which has torch, has none."""
    process = start(sys.executable)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert errors.splitlines()[-1].endswith("which is not installed: pip install tensorflow-cpu==2.21.0")


def test_no_warnings(python, tmp_path):
    """The sources are compiled with all warnings, though those of TensorFlow's headers are not ours."""
    command = (
        "import sys, pathlib; from colla.tensorflow import _library as l;"
        " print(*l._command(pathlib.Path(sys.argv[1])), sep=chr(10))"
    )
    output = tmp_path / "kernels.so"
    printed = subprocess.run(
        [python, "-c", command, output], capture_output=True, text=True, check=True, env=os.environ
    ).stdout.split("\n")[:-1]
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wno-unused-parameter", "-Werror"]
    done = subprocess.run([*printed, *warnings, "-O0"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


def test_programs_for_horovod(python, tmp_path):
    """`import horovod.tensorflow` and `import horovod.keras` mean Colla, and their modules have Horovod's names."""
    program = tmp_path / "program.py"
    program.write_text(
        "import horovod.tensorflow as hvd, horovod.keras, horovod.tensorflow.keras as hvd_keras\n"
        "from horovod.tensorflow.mpi_ops import size_op\n"
        "from horovod.tensorflow.compression import Compression\n"
        "from horovod.common.util import is_version_greater_equal_than\n"
        "import colla.tensorflow, colla.keras\n"
        "assert hvd is colla.tensorflow and horovod.keras is colla.keras\n"
        "assert hvd_keras.callbacks.MetricAverageCallback and horovod.keras.elastic.KerasState\n"
        "assert is_version_greater_equal_than('2.21.0', '2.6') and not is_version_greater_equal_than('2.5.1', '2.6.0')\n"
        "hvd.init()\n"
        "print(hvd.allreduce([1.0]).numpy().tolist(), hvd.size())\n"
    )
    done = subprocess.run(
        [python, "-m", "colla.aliases", "horovod", program], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[1.0] 1\n"


def test_the_package_has_the_sources():
    names = {path.name for path in pathlib.Path(ROOT, "build/python/colla/_kernels").glob("*/*")}
    assert {"all.cc", "collective.cc", "operations_table.h"} <= names
