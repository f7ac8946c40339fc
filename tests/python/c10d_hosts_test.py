"""init_process_group("colla") between hosts: two network namespaces, which Colla takes for such."""

import base64
import os

import pytest

SCRIPT = """
try:
    init()
except dist.DistBackendError as error:
    say("raised", str(error).splitlines()[0])
    sys.exit(0)
data = torch.full((300_000,), rank + 1.0)
dist.all_reduce(data)
assert torch.equal(data, torch.full((300_000,), 3.0))
if rank == 0:
    dist.send(data, 1)
else:
    dist.recv(data, 0)
dist.destroy_process_group()
say("passed")
"""


@pytest.mark.parametrize("choice", ["nothing", "secret", "plain"])
def test_hosts_need_a_secret_or_a_word(torch_ranks, hosts, tmp_path, choice):
    prefixes, address = hosts
    env = {"MASTER_ADDR": address}
    if choice == "plain":
        env["COLLA_TRANSPORT"] = "tcp-plain"
    if choice == "secret":
        file = tmp_path / "secret"
        file.touch(mode=0o600)
        file.write_bytes(base64.b64encode(os.urandom(32)))
        env["COLLA_SECRET_FILE"] = str(file)
    ranks = torch_ranks(SCRIPT, 2, env, prefixes)
    assert ranks.wait() == [0, 0], ranks.text(0) + ranks.text(1)
    for rank in range(2):
        said = ranks.text(rank)
        if choice == "nothing":
            assert said.startswith("raised") and "spans 2 hosts" in said and "COLLA_SECRET_FILE" in said
        else:
            assert said == "passed\n"
