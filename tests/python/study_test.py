"""`colla study` as a user calls it: a small study of a real training, its report in a real browser, bad input, Ctrl-C.
"""

import csv
import html.parser
import json
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import COLLA

DATA = "synthetic:mnist:600"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")

# What a page says of itself once it is laid out: where each figure is, and how wide the page became.
MEASURE = """<script>addEventListener("load", () => {
  const box = (element) => { const {width, height} = element.getBoundingClientRect(); return [width, height]; };
  const measured = {page: document.documentElement.scrollWidth, window: innerWidth,
    figures: Object.fromEntries([...document.querySelectorAll("figure")].map(
      (each) => [each.id, [...box(each.querySelector("svg")), each.querySelectorAll("svg path").length]]))};
  const text = document.createElement("pre");
  text.id = "measured";
  text.textContent = JSON.stringify(measured);
  document.body.append(text);
});</script>"""


def study(directory, *words, timeout=240):
    return subprocess.run([COLLA, "study", *map(str, words)], capture_output=True, text=True, timeout=timeout,
                          cwd=directory)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The directory of a finished study, and what it said."""
    directory = tmp_path_factory.mktemp("study")
    # Long enough for the counters of a run to be seen while it trains.
    finished = study(directory, "snn", "--hidden", "80", "--data", DATA + "0", "--batch", 1000, "--strategies",
                     "allreduce,ps-sync,ps-async", "--workers", "1,2", "--steps", 100, "--repeat", 2, "--out", "out",
                     timeout=500)
    assert finished.returncode == 0, finished.stderr
    return directory / "out", finished


class Texts(html.parser.HTMLParser):
    """The text of each element that has an id."""

    def __init__(self):
        super().__init__()
        self.texts, self.open = {}, []

    def handle_starttag(self, tag, attributes):
        if tag not in ("br", "meta", "path", "use"):
            self.open.append((tag, dict(attributes).get("id")))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for _, identity in self.open:
            if identity:
                self.texts[identity] = self.texts.get(identity, "") + data


def opened(page, tmp_path, width):
    """The page after a real browser has laid it out, and what the browser complained of."""
    copy = tmp_path / f"page-{width}.html"
    copy.write_text(page.read_text().replace("</body>", MEASURE + "</body>"))
    shown = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}",
         "--enable-logging=stderr", f"--window-size={width},2000", "--dump-dom", copy.as_uri()],
        capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout, [line for line in shown.stderr.splitlines() if "CONSOLE" in line]


def test_report_has_every_run(done):
    out, finished = done
    report = json.loads((out / "report.json").read_text())
    names = {variant["id"] for variant in report["variants"]}
    assert names >= {"single-1", "allreduce-2", "ps-sync-2", "ps-async-2", "larger-batch", "bfloat16", "smaller-model",
                     "side-by-side-2", "data-10", "data-30"}
    assert report["synthetic"] and report["data"].startswith("synthetic:mnist")
    for variant in report["variants"]:
        assert variant["runs_done"] == 2, variant["failures"]
        assert variant["samples_per_s"]["low"] <= variant["samples_per_s"]["median"] <= variant["samples_per_s"]["high"]
        assert variant["command"].startswith("colla train ")
    # As many samples under every strategy; those of ps-async come in twice as many updates.
    steps = {variant["id"]: variant["steps"] for variant in report["variants"]}
    assert (steps["allreduce-2"], steps["ps-async-2"], steps["larger-batch"]) == (100, 200, 25)
    assert report["advice"]["headline"] in finished.stdout
    # What sampling took is in the report; more than this would disturb what it measures.
    costs = [run["sampling_cores"] for variant in report["variants"] for run in variant["runs"]]
    assert 0 < sorted(costs)[len(costs) // 2] < 0.05


def test_exact_strategies_are_equal_and_others_are_not(done):
    out, _ = done
    rows = list(csv.DictReader((out / "equality.csv").open()))
    equal = {frozenset((row["a"], row["b"])): row["equal"] == "yes" for row in rows}
    assert equal[frozenset(("allreduce-2", "ps-sync-2"))]
    assert not equal[frozenset(("allreduce-2", "ps-async-2"))]
    assert not list(out.glob("runs/*/*/training/checkpoints")), "checkpoints go once they are compared"


def test_tables_agree_with_the_report(done):
    out, _ = done
    report = json.loads((out / "report.json").read_text())
    runs = list(csv.DictReader((out / "runs.csv").open()))
    assert len(runs) == sum(len(variant["runs"]) for variant in report["variants"])
    for variant in report["variants"]:
        mine = [float(run["samples_per_s"]) for run in runs if run["variant"] == variant["id"]]
        assert sum(mine) / 2 == pytest.approx(variant["samples_per_s"]["median"], rel=1e-6)
    uses = list(csv.DictReader((out / "utilisation.csv").open()))
    assert {use["role"] for use in uses if use["variant"] == "ps-sync-2"} == {"worker", "ps", "launcher"}
    assert {use["rank"] for use in uses if use["variant"] == "ps-sync-2" and use["role"] == "worker"} == {"0", "1"}
    assert max(float(use["proportional_bytes"]) for use in uses) > 1e7
    steps = list(csv.DictReader((out / "steps.csv").open()))
    assert len([step for step in steps if step["variant"] == "allreduce-2"]) == 200


def test_page_opens_without_a_network(done):
    page = (done[0] / "report.html").read_text()
    assert len(page) < 5_000_000
    # Nothing is fetched: addresses are names of XML or places in the page.
    for address in re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\')\s>]+)', page):
        assert address.startswith("#"), address


@pytest.mark.skipif(BROWSER is None, reason="chromium is not there")
@pytest.mark.parametrize("width", [1280, 500])
def test_page_in_a_browser(done, tmp_path, width):
    out, _ = done
    report = json.loads((out / "report.json").read_text())
    dom, complaints = opened(out / "report.html", tmp_path, width)
    assert not complaints
    parser = Texts()
    parser.feed(dom)
    measured = json.loads(parser.texts["measured"])
    assert measured["page"] <= measured["window"], "the page is wider than its window"
    wanted = {"throughput", "time-to-loss", "learning", "pace", "cost", "use", "phases", "traffic", "over-time",
              "alternatives"}
    assert {f"figure-{name}" for name in wanted} == set(measured["figures"])
    for name, (wide, high, paths) in measured["figures"].items():
        assert wide > 300 and high > 100 and paths > 10, (name, wide, high, paths)
    # The words are those of the JSON.
    advice = report["advice"]
    assert parser.texts["headline"] == advice["headline"]
    if advice["decision"].startswith("single"):
        assert "Use one worker" in advice["headline"]
    else:
        chosen = next(each for each in report["variants"] if each["id"] == advice["decision"])
        assert advice["headline"].startswith(f"Use {chosen['label']}: {advice['speedup']:.1f} times")
    for warning in advice["warnings"]:
        assert warning in html.unescape(dom)
    table = parser.texts["strategies"]
    for variant in report["variants"]:
        if variant["purpose"] != "alternative":
            assert variant["label"] in table and f"{variant['speedup']:.2f}" in table


@pytest.mark.parametrize(("words", "said"), [
    (["nosuch"], 'there is no model "nosuch"'),
    (["mlp", "--strategies", "allreduse"], 'there is no strategy "allreduse"'),
    (["mlp", "--strategies", "ps-ssp:foo=1"], 'ps-ssp has no option "foo"'),
    (["mlp", "--data", "mnist:/nowhere"], "there is no folder /nowhere"),
    (["mlp", "--workers", "x"], '--workers is "x"'),
    (["mlp", "--repat", "3"], "did you mean --repeat"),
    (["mlp", "--out", "/proc/study"], "cannot write to --out /proc/study"),
    (["mlp", "--steps", "3"], "--steps is 3"),
    (["mlp", "--peers", "caffe"], 'there is no peer "caffe"'),
    (["deepfam", "--peers", "tf"], "--peers train lr, softmax, snn, mlp, and not deepfam"),
    (["platforms", "--parts", "nosuch"], 'platforms has no part "nosuch"'),
    (["platforms", "--out", "/proc/study"], "cannot write to --out /proc/study"),
    (["platforms", "--resume", "--out", "nothing"], "nothing holds no study platforms"),
    (["mlp", "--parts", "snn"], "--parts is for a named study"),
    (["mlp", "-H", "a:x"], "a:x"),
    (["--resume", "--out", "nothing"], "nothing holds no study"),
    (["--", "./nosuch"], "there is no program ./nosuch"),
    ([], "name a model"),
])
def test_bad_input_is_refused_in_one_line(tmp_path, words, said):
    refused = study(tmp_path, *words)
    assert refused.returncode == 2
    last = refused.stderr.strip().splitlines()[-1]
    assert last.startswith("colla study: ") and said in last
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_directory_with_a_study_is_not_overwritten(done):
    before = (done[0] / "report.json").read_bytes()
    refused = study(done[0].parent, "snn", "--out", "out")
    assert refused.returncode == 2 and "out holds another study" in refused.stderr
    assert (done[0] / "report.json").read_bytes() == before


def test_interrupted_and_resumed(tmp_path):
    """Ctrl-C keeps the runs that are over, ends the one that is not, and --resume makes the rest."""
    command = [COLLA, "study", "softmax", "--data", DATA, "--strategies", "allreduce", "--workers", "2", "--steps",
               "20", "--repeat", "2", "--no-alternatives", "--out", "out"]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    out = tmp_path / "out"
    deadline = time.monotonic() + 120
    while len(list(out.glob("runs/*/*/result.json"))) < 2:
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert "--resume" in said
    first = json.loads((out / "report.json").read_text())
    assert first["interrupted"] and 2 <= first["runs_done"] < first["runs_planned"]
    kept = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/*/result.json")}

    resumed = study(tmp_path, "--out", "out", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    report = json.loads((out / "report.json").read_text())
    assert not report["interrupted"] and report["runs_done"] == report["runs_planned"]
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items()), "what was done is not done again"


def test_a_study_of_several_parts_with_a_peer(tmp_path):
    """Two parts of `platforms` beside PyTorch's own DistributedDataParallel, and the page of both."""
    finished = study(tmp_path, "platforms", "--parts", "softmax,snn", "--peers", "ddp", "--data", DATA, "--workers",
                     "2", "--strategies", "allreduce", "--steps", "20", "--repeat", "1", "--out", "out", timeout=400)
    assert finished.returncode == 0, finished.stderr
    for part in ("softmax", "snn"):
        report = json.loads((tmp_path / "out" / part / "report.json").read_text())
        peer = next(variant for variant in report["variants"] if variant["id"] == "ddp-2")
        assert peer["runs_done"] == 1, peer["failures"]
        assert peer["purpose"] == "peer" and peer["samples_per_s"]["median"] > 0
        # Its processes are sampled by role, as Colla's are, and what they send is seen.
        run = peer["runs"][0]
        assert run["roles"]["worker"]["processes"] == 2 and run["roles"]["worker"]["proportional_bytes"] > 1e7
        assert run["loopback_bytes_per_s"] > 0
        # Peers are compared with, and never recommended.
        assert "ddp" not in report["advice"]["decision"] and "ddp-2" not in report["advice"]["ties"]
        assert not list((tmp_path / "out" / part).glob("peers/data.*")), "the copy of the data goes"
    page = (tmp_path / "out" / "report.html").read_text()
    assert 'id="figure-suite-throughput"' in page and "PyTorch DDP, 2 workers" in page
    assert page.count(report["advice"]["headline"].replace("'", "&#x27;")) >= 1
    refused = study(tmp_path, "--out", "out", "--resume")
    assert refused.returncode == 2 and "go on with colla study platforms --out out --resume" in refused.stderr
    if BROWSER:
        dom, complaints = opened(tmp_path / "out" / "report.html", tmp_path, 500)
        assert not complaints
        parser = Texts()
        parser.feed(dom)
        measured = json.loads(parser.texts["measured"])
        assert measured["page"] <= measured["window"], "the page is wider than its window"


def test_a_run_that_fails_is_reported_and_the_others_go_on(tmp_path):
    """A program that breaks with two workers: the study says so and recommends one."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT + "\nif hvd.size() > 1:\n    raise SystemExit('no luck with two')\n")
    finished = study(tmp_path, "--workers", "2", "--repeat", "1", "--strategies", "allreduce", "--out", "out", "--",
                     sys.executable, script)
    assert finished.returncode == 0, finished.stderr
    assert "failed: " in finished.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    broken = next(variant for variant in report["variants"] if variant["id"] == "allreduce-2")
    assert broken["runs_done"] == 0 and "no luck with two" in broken["failures"][0]
    assert report["advice"]["decision"] == "single-1"
    assert "no luck with two" in (tmp_path / "out" / "report.html").read_text()


SCRIPT = """
import time
import torch
import colla.torch as hvd

hvd.init()
torch.manual_seed(1)
model = torch.nn.Linear(200, 10)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for step in range(700):  # At least 3.5 s; a limit in seconds would end the ranks at different steps.
    data = torch.randn(32, 200)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(data), torch.arange(32) % 10).backward()
    optimizer.step()
    time.sleep(0.005)
"""


def test_a_script_is_measured_by_its_counters(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    finished = study(tmp_path, "--workers", "2", "--repeat", "1", "--strategies", "allreduce", "--out", "out", "--",
                     sys.executable, script)
    assert finished.returncode == 0, finished.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["program"] == "train.py" and report["advice"]["measure"] == "throughput"
    for variant in report["variants"]:
        assert variant["runs_done"] == 1, variant["failures"]
        assert variant["samples_per_s"]["median"] > 0
    assert variant["command"] == (
        f"colla run -np 2 --threads 1 --strategy allreduce -- {sys.executable} {script}")


def test_runs_plot_and_report_of_what_is_there(done, tmp_path):
    out, _ = done

    def colla(*words):
        return subprocess.run([COLLA, *map(str, words)], capture_output=True, text=True, timeout=60, cwd=tmp_path)

    trained = colla("train", "softmax", "--data", DATA, "--steps", 12, "--np", 2, "--checkpoint-dir", "runs/a",
                    "--quiet")
    assert trained.returncode == 0, trained.stderr
    listed = colla("runs", "runs")
    assert listed.returncode == 0, listed.stderr
    row = listed.stdout.splitlines()[1].split()
    assert row[:5] == ["runs/a", "softmax", "allreduce", "2", "12"]
    assert row[5] == f"{float((tmp_path / 'runs/a/log.txt').read_text().splitlines()[-1].split()[3]):.4f}"

    assert colla("plot", "runs/a", "--out", "a.png").returncode == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert colla("plot", "runs/a", "--out", "a.svg", "--against", "time").returncode == 0
    assert "training loss" in (tmp_path / "a.svg").read_text()

    assert colla("report", out, out, "--out", "both.html").returncode == 0
    headline = json.loads((out / "report.json").read_text())["advice"]["headline"]
    assert html.unescape((tmp_path / "both.html").read_text()).count(headline) == 4

    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "log.txt").write_text("step\tstart\tend\tloss\taccuracy\n1\tx\n2\t0\t1\t2\t0\n")
    (tmp_path / "broken" / "report.json").write_text("{}")
    for words, said in [
        (["runs", "nowhere"], "there is no directory nowhere"),
        (["runs", "/proc/sys/abi"], "holds no run"),
        (["plot", "runs"], "runs holds no run"),
        (["plot", "broken"], "line 2 is not five numbers"),
        (["plot", "runs/a", "--out", "a.gif"], "--out is a.gif"),
        (["report", "runs"], "runs holds no finished study"),
        (["report", "broken"], "report.json is broken"),
    ]:
        refused = colla(*words)
        assert refused.returncode == 2, words
        assert said in refused.stderr and len(refused.stderr.splitlines()) == 1, refused.stderr
    broken = colla("runs", "broken")
    assert broken.returncode == 1 and "line 2 of log.txt is broken" in broken.stderr
