"""The package as such: what `import colla` gives, and the command beside it."""

import pathlib
import subprocess
import sys

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
        [sys.executable, "-c", "import torch; torch.__version__ = '1.0.0'; import colla"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "torch 1.0.0 is installed" in done.stderr
