"""deploy/kubernetes.yaml: what it says is Kubernetes' language, and what its pods get is a job of Colla's."""

import subprocess

import kubernetes_validate
import pytest
import yaml
from conftest import COLLA, ROOT

MANIFEST = ROOT / "deploy" / "kubernetes.yaml"


def documents():
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def job():
    return next(each for each in documents() if each["kind"] == "Job")


@pytest.mark.parametrize("version", ["1.27", kubernetes_validate.latest_version()])
def test_schema(version):
    """1.27: the oldest schema of today that knows all fields."""
    assert [each["kind"] for each in documents()] == ["Service", "Secret", "Job"]
    for document in documents():
        kubernetes_validate.validate(document, version, strict=True)


def test_schema_knows_mistakes():
    document = job()
    document["spec"]["complections"] = 4
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, "1.27", strict=True)


def test_line_of_the_docs():
    """As far as kubectl."""
    [line] = [line for line in (ROOT / "docs" / "clusters.md").read_text().splitlines() if line.startswith("sed ")]
    applied = subprocess.run(line.split(" | ")[0], shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    [secret] = [each for each in yaml.safe_load_all(applied.stdout) if each["kind"] == "Secret"]
    assert len(bytes.fromhex(secret["stringData"]["secret"])) == 32


def test_parts_fit_together():
    service, secret, job = documents()
    pod = job["spec"]["template"]
    assert service["metadata"]["name"] == pod["spec"]["subdomain"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert secret["metadata"]["name"] == pod["spec"]["volumes"][0]["secret"]["secretName"]
    [container] = pod["spec"]["containers"]
    volumes = {each["name"] for each in pod["spec"]["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes
    counts = {job["spec"]["completions"], job["spec"]["parallelism"], int(environment(job, 0)["WORLD_SIZE"])}
    assert len(counts) == 1


def environment(job, index):
    """All that kubelet gives the container of one pod, and nothing else."""
    name = job["metadata"]["name"]
    annotation = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    variables = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "HOSTNAME": f"{name}-{index}",
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "443",
        "KUBERNETES_PORT": "tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_443_TCP_PORT": "443",
        "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
    }
    for entry in job["spec"]["template"]["spec"]["containers"][0]["env"]:
        if "valueFrom" in entry:
            assert entry["valueFrom"] == {"fieldRef": {"fieldPath": annotation}}
            variables[entry["name"]] = str(index)
        else:
            variables[entry["name"]] = entry["value"]
    return variables | {"JOB_COMPLETION_INDEX": str(index)}


# Among the hosts of hosts.sh. The names are those of the headless service, which a pod finds by DNS.
PODS = """
set -e
folder=$1 size=$2 subdomain=$3
for ((i = 0; i < size; i++)); do
  name=train-$i
  awk -v pod=$name -v domain=$subdomain '$2 == pod { print $1, pod "." domain ".default.svc.cluster.local", pod "." domain }' \
    "$HOSTS_DIR/hosts" >"$folder/names"
  cat "$folder/names" >>"$HOSTS_DIR/hosts"
done
mkdir -p /run/secrets/colla/..data
cp "$folder/secret" /run/secrets/colla/..data/secret
chmod 0400 /run/secrets/colla/..data/secret
ln -s ..data/secret /run/secrets/colla/secret  # As kubelet does it.
for ((i = size - 1; i >= 0; i--)); do
  mapfile -d '' variables <"$folder/env-$i"
  mapfile -d '' command <"$folder/command"
  on train-$i env -i "${variables[@]}" "${command[@]}" >"$folder/out-$i" 2>&1 &
  pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
exit $failed
"""


@pytest.fixture
def run_pods(tmp_path):
    hosts = ROOT / "tests" / "support" / "hosts.sh"

    def run(secret, steps):
        spec = job()["spec"]
        size = spec["completions"]
        command = spec["template"]["spec"]["containers"][0]["command"]
        words = [str(COLLA), *(word.replace("/runs", str(tmp_path / "runs")) for word in command[1:])]
        epochs = words.index("--epochs")  # So many would take too long here.
        words[epochs : epochs + 2] = ["--steps", str(steps), "--data", "synthetic:mnist:400", "--no-eval"]
        (tmp_path / "command").write_bytes(b"".join(word.encode() + b"\0" for word in words))
        (tmp_path / "secret").write_text(secret)
        for index in range(size):
            variables = environment(job(), index)
            variables["COLLA_THREADS"] = "1"  # There are not four cores for each here.
            text = "".join(f"{name}={value}\0" for name, value in variables.items())
            (tmp_path / f"env-{index}").write_text(text)
        names = [f"train-{index}-" for index in range(size)]
        domain = spec["template"]["spec"]["subdomain"]
        done = subprocess.run(
            [hosts, *names, "--", "bash", "-c", PODS, "pods", tmp_path, str(size), domain],
            capture_output=True, text=True, timeout=200,
        )
        if done.returncode == 77:
            pytest.skip(done.stdout)
        return done.returncode, [(tmp_path / f"out-{index}").read_text() for index in range(size)], done

    return run


def test_pods_train_and_resume(run_pods):
    code, said, done = run_pods("0123456789abcdef" * 4, 4)
    assert code == 0, (said, done.stderr)
    assert "strategy allreduce, 4 workers" in said[0]
    assert "resuming" not in said[0]
    assert all("rank" in text or not text for text in said)
    code, said, done = run_pods("0123456789abcdef" * 4, 6)
    assert code == 0, (said, done.stderr)
    assert "resuming from step 4" in said[0]


def test_the_secret_of_the_file_is_refused(run_pods):
    [secret] = [each for each in documents() if each["kind"] == "Secret"]
    code, said, _ = run_pods(secret["stringData"]["secret"], 4)
    assert code != 0
    assert all("which is too short" in text for text in said)
