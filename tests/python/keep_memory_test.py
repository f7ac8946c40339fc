"""Memory that a step frees is there for the next one: counted in page faults, not in seconds."""

import pytest

SCRIPT = """
import resource

START

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    # As a gradient: large, written, and gone.
    torch.ones(16 << 20)

for _ in range(60):  # Until blocks of that size are to be had.
    step()
before = faults()
for _ in range(20):
    step()
print("faults", faults() - before, flush=True)
"""

STARTS = {
    "hvd": "import torch\nimport colla.torch as hvd\nhvd.init()",
    "c10d": "init()",
}


@pytest.mark.parametrize("start", STARTS)
def test_steps_reuse_memory(torch_ranks, start):
    def faults(env):
        ranks = torch_ranks(SCRIPT.replace("START", STARTS[start]), 1, env)
        assert ranks.wait() == [0], ranks.text(0)
        return int(ranks.text(0).split("faults ")[1])

    # Pages may be huge: at least one for each step, then.
    assert faults({"COLLA_KEEP_MEMORY": "0"}) >= 20
    assert faults({}) < 10


def test_other_values_are_refused(torch_ranks):
    ranks = torch_ranks("init()", 1, {"COLLA_KEEP_MEMORY": "2"})
    assert ranks.wait() == [1]
    assert 'COLLA_KEEP_MEMORY is "2", but takes 0 or 1' in ranks.text(0)
