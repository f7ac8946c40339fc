"""`colla.run()`: a function as the workers of a job."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import colla

class Found:
    def __init__(self, rank, text):
        self.rank, self.text = rank, text

def work(number, text="no text"):
    world = colla.World()
    return Found(world.job.rank, f"{number} {text} {world.job.size} {sys.argv[1]}")

if __name__ == "__main__":
    for found in colla.run(work, (7,), {"text": "words"}, np=3):
        print("result", found.rank, found.text)
    print(len(colla.run(work, [7], num_proc=1)), len(colla.run(work, [7], hosts="localhost:2", use_gloo=True)))
"""


def run(tmp_path, text, *arguments):
    script = tmp_path / "script.py"
    script.write_text(text)
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=120, cwd=tmp_path)


def test_gives_the_results_by_rank(tmp_path):
    done = run(tmp_path, SCRIPT, "argument")
    assert done.returncode == 0, done.stderr
    results = [line for line in done.stdout.splitlines() if line.startswith("result")]
    assert results == [f"result {rank} 7 words 3 argument" for rank in range(3)]
    assert done.stdout.endswith("1 2\n")


HOROVOD = """
import colla

def work():
    return "done"

if __name__ == "__main__":
    print(colla.run(work, np=1, verbose=2, use_gloo=1, use_mpi=0, network_interface="lo", start_timeout=60,
                    disable_cache=True, output_filename="out", slots=2, reset_limit=3, cooldown_range=(1, 2),
                    ssh_identity_file="id", mpi_args="--bind-to none", hosts=None))
"""


def test_takes_what_horovod_run_takes(tmp_path):
    done = run(tmp_path, HOROVOD)
    assert done.returncode == 0 and "['done']" in done.stdout, done.stderr
    ignored = [line for line in done.stderr.splitlines() if line.startswith("colla: run() ignores ")]
    assert len(ignored) == 7 and any("disable_cache: no choice" in line for line in ignored), done.stderr
    assert "--gloo is not needed" in done.stderr and "--mpi" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_worker_that_fails(tmp_path):
    done = run(tmp_path, SCRIPT.replace("    world =", "    raise KeyError('found nothing')\n    world ="))
    assert done.returncode != 0
    assert "KeyError: 'found nothing'" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("RuntimeError: the job of colla.run() ended with exit code 1")


# For programs that run as if it were not installed.
NO_CLOUDPICKLE = "import sys\nsys.modules['cloudpickle'] = None\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import colla\ncolla.run(lambda: 1, np=2)", "at the top of a module, or install cloudpickle"),
        (SCRIPT.replace('if __name__ == "__main__"', "if True"), 'call it under if __name__ == "__main__"'),
        ("import colla\ncolla.run(print, np=2, hots='localhost:2')", "run() takes no option 'hots': use hosts,"),
    ],
)
def test_says_what_to_do(tmp_path, text, says):
    done = run(tmp_path, NO_CLOUDPICKLE + text, "argument")
    assert done.returncode != 0 and says in done.stderr, done.stderr


def test_a_function_in_no_file():
    text = NO_CLOUDPICKLE + "import colla\ndef work(): pass\ncolla.run(work, np=2)"
    done = subprocess.run([sys.executable, "-"], input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "is in no file: define it in a module, or install cloudpickle" in done.stderr
