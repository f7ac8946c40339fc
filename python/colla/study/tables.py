"""The tables of a report, as HTML."""

import html
from typing import Any

from colla.study import style
from colla.study.data import Study, first_run, number, unit_of_bytes

# What a strategy asks of a user, and what it is for: the rest of the table comes from the runs.
EASE = {
    "single": ("nothing to set up", "models and data that one process can take"),
    "mirrored": ("one process, no launcher", "one host"),
    "allreduce": ("one flag", "one host to many, dense models"),
    "ps-sync": ("one flag, and servers to place", "many hosts, workers that may come and go, stragglers left behind"),
    "ps-ssp": ("one flag, servers, a staleness to choose", "workers of unequal speed"),
    "ps-async": ("one flag, servers, a learning rate to tune again", "workers of unequal speed, slow networks"),
    "hybrid": ("one flag, and servers to place", "models with large tables of which a step touches few rows"),
    "local-sgd": ("one flag, steps between averages to choose", "slow links between hosts"),
}


def _text(value: Any) -> str:
    return html.escape(str(value))


def _spread(spread: dict | None, digits: int = 3) -> str:
    if spread is None:
        return "–"
    shown = number(spread["median"], digits)
    if spread["runs"] > 1 and spread["low"] < spread["high"]:
        shown += f'<span class="range">{number(spread["low"], digits)} to {number(spread["high"], digits)}</span>'
    return shown


def table(head: list[str], rows: list[tuple[str, list[str]]], identity: str, text_columns: tuple[int, ...] = ()) -> str:
    def cell(tag: str, index: int, value: str) -> str:
        kind = ' class="text"' if index in text_columns else ""
        return f"<{tag}{kind}>{value}</{tag}>"

    lines = ["<tr>" + "".join(cell("th", index, name) for index, name in enumerate(head)) + "</tr>"]
    for kind, cells in rows:
        lines.append(f'<tr class="{kind}">' + "".join(cell("td", index, each) for index, each in enumerate(cells))
                     + "</tr>")
    return f'<div class="scroll"><table id="{identity}">{"".join(lines)}</table></div>'


def _label(variant: dict) -> str:
    return (f'<span class="swatch" style="background:{style.colour(variant["strategy"])}"></span>'
            f'{_text(variant["label"])}')


def _speedup(variant: dict) -> str:
    """Against one worker and, of several, the share of what as many times one worker would be."""
    if not variant["speedup"]:
        return "–"
    shown = f"{variant['speedup']:.2f}"
    if variant["workers"] > 1:
        shown += f'<span class="range">{variant["efficiency"] * 100:.0f} % per worker</span>'
    return shown


def strategies(study: Study) -> str:
    rows = []
    for variant in study.variants:
        if variant["purpose"] == "alternative":
            continue
        chosen = "chosen" if variant["id"] == study.advice["decision"] else ""
        if variant["runs_done"] == 0:
            why = variant["failures"][0] if variant["failures"] else "not run"
            rows.append((chosen, [_label(variant), *["–"] * 8, _text(why)]))
            continue
        remarks = [variant["remark"]] if variant["remark"] else []
        if variant["oversubscribed"]:
            remarks.append("more busy threads than cores")
        if variant["failures"]:
            remarks.append(f"{len(variant['failures'])} failed: {variant['failures'][0]}")
        loss = "not reached" if variant["missed_loss"] else _spread(variant["seconds_to_loss"])
        accuracy = variant["final_accuracy"]
        rows.append((chosen, [
            _label(variant), str(variant["runs_done"]), _spread(variant["samples_per_s"]),
            _speedup(variant), number(variant["seconds_per_epoch"]), loss,
            _spread(variant["core_seconds_to_loss"]),
            f"{accuracy['median'] * 100:.1f} %" if accuracy else _spread(variant["final_loss"]),
            _spread(variant["cores"], 2), _text("; ".join(remarks))]))
    result = "accuracy" if any(variant["final_accuracy"] for variant in study.measured) else "final loss"
    head = ["", "runs", f"{study['unit']}/s", "speed-up", "s per epoch", "s to loss", "core-s to loss", result, "cores",
            ""]
    return table(head, rows, "strategies", (0, 9))


def equality(study: Study) -> str:
    names = {variant["id"]: variant["label"] for variant in study.variants}
    parts = []
    for matrix in study["equality"]:
        labels = [_text(names.get(identity, identity)) for identity in matrix["variants"]]
        head = "<tr><th></th>" + "".join(f"<th>{label}</th>" for label in labels) + "</tr>"
        lines = [head]
        for row, label in enumerate(labels):
            cells = []
            for column in range(len(labels)):
                difference = matrix["differences"][row][column]
                if row == column:
                    cells.append("<td>·</td>")
                elif difference == 0:
                    cells.append('<td class="equal">equal</td>')
                elif difference < 0:
                    cells.append("<td>–</td>")
                else:
                    cells.append(f"<td>{difference:.2g}</td>")
            lines.append(f"<tr><td>{label}</td>{''.join(cells)}</tr>")
        parts.append(f"<h3>After step {matrix['step']}</h3>"
                     f'<div class="scroll"><table class="matrix" id="equality-{matrix["step"]}">{"".join(lines)}'
                     "</table></div>")
    return ("<p>Weights, buffers and optimizer state of the first runs, every pair of checkpoints compared bit for "
            "bit: equal, or the largest absolute difference of two weights.</p>" + "".join(parts))


def use(study: Study) -> str:
    names = {"worker": "workers", "ps": "servers", "driver": "driver", "launcher": "launcher"}
    rows = []
    for variant in study.measured:
        run = first_run(variant)
        for role, mean in (run["roles"] if run else {}).items():
            size, unit = unit_of_bytes(mean["proportional_bytes"])
            shared, shared_unit = unit_of_bytes(mean["shared_bytes_per_s"])
            net, net_unit = unit_of_bytes(mean["network_bytes_per_s"])
            known = variant["purpose"] != "peer"  # Other systems have no such counters.
            rows.append(("", [
                _label(variant), f"{mean['processes']} {names.get(role, role)}", f"{mean['user_cores']:.2f}",
                f"{mean['system_cores']:.2f}", f"{mean['proportional_bytes'] / size:.0f} {unit}",
                f"{mean['shared_bytes_per_s'] / shared:.0f} {shared_unit}" if known else "–",
                f"{mean['network_bytes_per_s'] / net:.0f} {net_unit}" if known else "–",
                number(mean["switches_per_s"]), number(mean["faults_per_s"])]))
    if not rows:
        return ""
    return ("<details><summary>All figures by role</summary>"
            + table(["", "", "cores, user", "cores, kernel", "memory", "shared memory per s", "network per s",
                      "context switches per s", "page faults per s"], rows, "use", (0, 1)) + "</details>")


def alternatives(study: Study) -> str:
    base = study.baseline
    rows = []
    for variant in ([base] if base else []) + study.alternatives:
        accuracy = variant["final_accuracy"]
        rows.append(("", [_label(variant), _spread(variant["samples_per_s"]), f"{variant['speedup']:.2f}",
                          f"{accuracy['median'] * 100:.1f} %" if accuracy else _spread(variant["final_loss"]),
                          _text(variant["remark"])]))
    result = "accuracy" if any(variant["final_accuracy"] for variant in study.alternatives) else "final loss"
    apart = next((variant for variant in study.alternatives if variant["copies"] > 1), None)
    slowed = [variant for variant in study.alternatives if variant["id"].endswith("-slowed")]
    if slowed and len(slowed) == len(study.alternatives):
        words = ("<p>What a slow worker costs, and what backup workers buy: one worker stands still for half of the "
                 "time.</p>")
        return words + table(["", "samples/s", "speed-up", result, ""], rows, "alternatives", (0, 4))
    words = "<p>Before distributing a training, look at what one worker gives.</p>"
    if apart and apart["speedup"]:
        best = study.find(study.advice["best"]) if study.advice["best"] else None
        more = (f", where {best['label']} trains one at {best['speedup']:.1f} times the speed" if best else "")
        words += (f"<p>If you have several experiments to make, {apart['copies']} of them side by side compute "
                  f"{apart['speedup']:.1f} times as many samples per second as one alone{_text(more)}.</p>")
    return words + table(["", "samples/s", "speed-up", result, ""], rows, "alternatives", (0, 4))


def published(study: Study) -> str:
    """What others published of the experiment: on machines of theirs, so it stands apart from what was measured."""
    rows = [("", [_text(each["label"]), f"{each['value']:,.10g} {_text(each['unit']) or '(no unit given)'}"])
            for each in study.published]
    if not rows:
        return ""
    return ("<h3>Published figures, of other machines</h3>" + table(["", "published"], rows, "published", (0,)))


def traits(study: Study) -> str:
    rows = []
    seen: set[str] = set()
    for variant in sorted(study.measured, key=lambda each: -each["workers"]):
        name = variant["strategy"] if variant["purpose"] != "baseline" else "single"
        if name in seen or name not in EASE:
            continue
        seen.add(name)
        ease, scope = EASE[name]
        equal = [matrix for matrix in study["equality"] if variant["id"] in matrix["variants"]]
        if variant["exact"]:
            promise = "same bits for every number of workers, with the same slices"
        else:
            promise = "other bits than one worker"
        if equal:
            last = equal[-1]
            row = last["differences"][last["variants"].index(variant["id"])]
            same = sum(1 for difference in row if difference == 0) - 1
            promise += f"; here equal to {same} of {len(row) - 1} others"
        rows.append(("", [_label(variant), _text(ease), _text(scope),
                          f"{variant['speedup']:.2f} times one worker" if variant["speedup"] else "–",
                          _text(promise)]))
    return table(["strategy", "ease", "scope", "speed here", "consistency"], rows, "traits", (0, 1, 2, 3, 4))
