"""The package as such: what `import colla` gives, and the command beside it."""

import pathlib
import subprocess
import sys

import pytest

import colla


def test_version_is_the_commands():
    command = pathlib.Path(colla.__file__).parent / "bin" / "colla"
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert colla.__version__ in said.stdout


def test_each_rank_imports_it(run_ranks):
    done = run_ranks("import colla; print('version', colla.__version__)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("version " + colla.__version__) == 2


def test_another_torch_is_refused():
    done = subprocess.run(
        [sys.executable, "-c", "import torch; torch.__version__ = '1.0.0'; import colla.torch"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "torch 1.0.0 is installed" in done.stderr


def test_loads_no_framework():
    loaded = "import sys, colla; print([name for name in ('torch', 'numpy') if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_one_copy_of_what_both_extensions_need():
    """What colla._torch takes from colla._core it does not have itself."""
    package = pathlib.Path(colla.__file__).parent
    (module,) = package.glob("_torch.*.so")
    symbols = subprocess.run(["nm", "-DC", module], capture_output=True, text=True, check=True).stdout.splitlines()
    for function in ("colla::Job::init(", "colla::log::setSpeaker(", "colla::job::openStore("):
        defined = [line for line in symbols if function in line and " U " not in line]
        assert not defined, defined
    assert any("colla::Job::init(" in line for line in symbols)


def test_a_study_knows_every_strategy():
    """Its report leaves out what it has no words for, so each row of the table of strategies needs them."""
    from colla import _core

    pytest.importorskip("matplotlib")
    from colla.study import style, tables

    names = {traits.name for traits in _core.strategies}
    assert names == tables.EASE.keys()
    assert names <= style.COLOURS.keys() == style.MARKERS.keys()  # Other systems have theirs, too.
