"""The figures of a report: each takes a study and returns a Figure, or None where there is nothing to show."""

import dataclasses
import math
from typing import Any

from matplotlib.ticker import FuncFormatter, MaxNLocator

from colla.study import style
from colla.study.data import Study, first_run, unit_of_bytes


@dataclasses.dataclass
class Figure:
    name: str  # An id in the page.
    title: str
    svg: str
    caption: str
    wide: bool = False


def bars(axes: Any, variants: list[dict], key: str, scale: float = 1) -> None:
    """Horizontal bars of medians, with lines from the lowest to the highest run."""
    for row, variant in enumerate(variants):
        spread = variant[key]
        if spread is None:
            axes.text(0, row, " not reached", va="center", fontsize=9)
            continue
        middle, low, high = (spread[name] * scale for name in ("median", "low", "high"))
        alternative = variant["purpose"] == "alternative" or variant.get("peer", "").endswith("-async")
        axes.barh(row, middle, 0.7, color=style.colour(variant["strategy"]), alpha=0.55 if alternative else 1,
                  hatch="///" if alternative else "", edgecolor=style.INK, linewidth=0.4)
        if high > low:
            axes.plot([low, high], [row, row], color=style.INK, linewidth=1.4, marker="|", markersize=7)
    axes.set_yticks(range(len(variants)), [variant["label"] for variant in variants])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)


def _height(rows: int) -> float:
    return 0.9 + 0.3 * max(rows, 3)


def throughput(study: Study) -> Figure | None:
    variants = [variant for variant in study.measured if variant["samples_per_s"]]
    if not variants:
        return None
    drawn, axes = style.figure(height=_height(len(variants)))
    bars(axes, variants, "samples_per_s")
    axes.set_xlabel(f"{study['unit']} per second")
    return Figure("throughput", "Throughput", style.as_svg(drawn, "throughput"),
                  "Median of the runs; lines go from the slowest to the fastest run. Warm-up and evaluations are left "
                  "out.")


def time_to_loss(study: Study) -> Figure | None:
    variants = [variant for variant in study.measured if variant["seconds_to_loss"] or variant["missed_loss"]]
    if not any(variant["seconds_to_loss"] for variant in variants):
        return None
    drawn, axes = style.figure(height=_height(len(variants)))
    bars(axes, variants, "seconds_to_loss")
    axes.set_xlabel("seconds of training")
    losses = " and ".join(f"{loss:.3g}" for loss in sorted(set(study["target_losses"])))
    return Figure("time-to-loss", "Time to the common loss", style.as_svg(drawn, "time-to-loss"),
                  f"Seconds of training until the {study['loss']} loss is {losses}: the loss that every exact strategy "
                  "reaches, for each seed.")


def cost(study: Study) -> Figure | None:
    variants = [variant for variant in study.measured if variant["core_seconds_to_loss"]]
    if not variants:
        return None
    drawn, axes = style.figure(height=_height(len(variants)))
    bars(axes, variants, "core_seconds_to_loss")
    axes.set_xlabel("core-seconds")
    return Figure("cost", "Cost of the common loss", style.as_svg(drawn, "cost"),
                  "Seconds to that loss, times the cores that all processes of the run kept busy.")


def scaling(study: Study) -> Figure | None:
    """Speed-up against the number of workers, and the same for each worker."""
    counts = sorted({variant["workers"] for variant in study.measured})
    if len(counts) < 3 or study.baseline is None:
        return None
    drawn, (left, right) = style.figure(width=8.2, height=3.3, ncols=2)
    names = dict.fromkeys(variant["strategy"] for variant in study.measured if variant["purpose"] != "baseline"
                          and variant["workers"] == counts[-1])
    for name in names:
        points = sorted((variant["workers"], variant["speedup"]) for variant in study.measured
                        if variant["strategy"] == name and variant["workers"] > 1 and not variant["options"]
                        and not variant.get("peer", "").endswith("-async"))
        # A peer may have been measured with one worker itself.
        alone = next((variant["speedup"] for variant in study.peers if variant.get("peer") == name
                      and variant["workers"] == 1), None)
        if alone or not any(variant.get("peer") == name for variant in study.peers):
            points.insert(0, (1, alone or 1.0))
        look = {"color": style.colour(name), "marker": style.marker(name), "label": name}
        left.plot(*zip(*points, strict=True), **look)
        right.plot([workers for workers, _ in points], [speed / workers for workers, speed in points], **look)
    left.plot(counts, counts, color=style.INK, linestyle=":", linewidth=1, label="linear")
    right.axhline(1, color=style.INK, linestyle=":", linewidth=1)
    left.set_ylabel("speed-up of the throughput")
    right.set_ylabel("efficiency (speed-up per worker)")
    for axes in (left, right):
        axes.set_xlabel("workers")
        axes.set_xticks(counts)
        axes.set_ylim(bottom=0)
    handles, labels = left.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=4)
    return Figure("scaling", "Scaling and efficiency", style.as_svg(drawn, "scaling"),
                  "Throughput against that of one worker. All processes share this machine's "
                  f"{study['machine']['cores']} cores.", wide=True)


def _curve(variant: dict, run: dict, kind: str) -> tuple[list[float], list[float], list[float]] | None:
    """Steps (of one worker), seconds, and values of a run."""
    curve = run["curves"][0] if run["curves"] else None
    if curve is None:
        return None
    points = [point for point in (curve["tests"] if kind != "training" else curve["steps"])
              if point["accuracy" if kind == "accuracy" else "loss"] is not None]
    if not points:
        return None
    values = [point["accuracy" if kind == "accuracy" else "loss"] for point in points]
    if kind == "training":
        # Steps jump up and down: a running mean shows where they go.
        window = max(1, len(values) // 20)
        values = [sum(values[max(0, i - window):i + 1]) / len(values[max(0, i - window):i + 1])
                  for i in range(len(values))]
    return [point["step"] for point in points], [point["seconds"] for point in points], values


def learning(study: Study) -> Figure | None:
    """Accuracy, or the loss where there is none, against step and against time."""
    runs = [(variant, first_run(variant)) for variant in study.compared()]
    kind = next((kind for kind in ("accuracy", "test", "training")
                 if any(run and _curve(variant, run, kind) for variant, run in runs)), None)
    if kind is None:
        return None
    drawn, (left, right) = style.figure(width=8.2, height=3.6, ncols=2, sharey=True)
    for variant, run in runs:
        curve = _curve(variant, run, kind) if run else None
        if curve is None:
            continue
        steps, seconds, values = curve
        # Updates of ps-async have the samples of one worker: the same samples stand at the same place.
        share = study["steps"] / variant["steps"] if variant["steps"] else 1
        look = {"color": style.colour(variant["strategy"]), "label": variant["label"],
                "marker": style.marker(variant["strategy"]), "markevery": max(1, len(values) // 8),
                "linestyle": "--" if variant["options"] else "-"}
        left.plot([step * share for step in steps], values, **look)
        right.plot(seconds, values, **look)
    label = {"accuracy": "accuracy on the test set", "test": "loss on the test set", "training": "training loss"}[kind]
    left.set_ylabel(label)
    left.set_xlabel("step")
    right.set_xlabel("seconds of training")
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in (left, right):
        axes.set_xlim(left=0)
    handles, labels = left.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=3)
    exact = "Strategies that are exact lie on one line against the step. " if len(runs) > 2 else ""
    name = "Accuracy" if kind == "accuracy" else "Loss"
    return Figure("learning", f"{name} against step and against time", style.as_svg(drawn, "learning"),
                  f"First run of each. {exact}Time for evaluations is left out.", wide=True)


def pace(study: Study) -> Figure | None:
    """Seconds against step."""
    drawn, axes = style.figure()
    some = False
    for variant in study.compared():
        run = first_run(variant)
        if not run or not run["curves"]:
            continue
        points = run["curves"][0]["steps"]
        share = study["steps"] / variant["steps"] if variant["steps"] else 1
        axes.plot([point["step"] * share for point in points], [point["seconds"] for point in points],
                  color=style.colour(variant["strategy"]), label=variant["label"],
                  marker=style.marker(variant["strategy"]), markevery=max(1, len(points) // 6))
        warm = run["curves"][0]["warm_up"] * share
        some = True
    if not some:
        return None
    axes.axvspan(0, warm, color=style.GRID, linewidth=0)
    axes.set_xlabel("step")
    axes.set_ylabel("seconds of training")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()
    return Figure("pace", "Seconds against step", style.as_svg(drawn, "pace"),
                  "First run of each. The first steps, on the grey ground, are warm-up and are not measured.")


_PHASES = [("forward", "forward"), ("backward", "backward"), ("update", "update"),
           ("exposed", "communication, exposed"), ("data", "waiting for data"), ("other", "other")]


def phases(study: Study) -> Figure | None:
    """Where the time of a step goes."""
    rows = []
    for variant in study.measured:
        run = first_run(variant)
        times = run["time_per_step"] if run else {}
        if times.get("step"):
            rows.append((variant, times))
    if not rows:
        return None
    drawn, axes = style.figure(height=_height(len(rows)) + 0.5)
    for row, (_, times) in enumerate(rows):
        parts = {name: max(0.0, times.get(name, 0.0)) for name, _ in _PHASES}
        parts["other"] = max(0.0, times["step"] - sum(parts.values()))
        left = 0.0
        for index, (name, _) in enumerate(_PHASES):
            axes.barh(row, parts[name] * 1e3, 0.7, left=left * 1e3, color=style.PARTS[index],
                      hatch=style.HATCHES[index], edgecolor=style.INK, linewidth=0.4)
            left += parts[name]
        if times.get("hidden"):
            axes.barh(row + 0.42, times["hidden"] * 1e3, 0.1, color=style.PARTS[3])
    for index, (name, label) in enumerate(_PHASES):
        if any(times.get(name) for _, times in rows) or name == "other":
            axes.barh(0, 0, color=style.PARTS[index], hatch=style.HATCHES[index], label=label, edgecolor=style.INK,
                      linewidth=0.4)
    axes.set_yticks(range(len(rows)), [variant["label"] for variant, _ in rows])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("milliseconds per step, mean of all workers")
    drawn.legend(loc="outside lower center", ncols=3)
    return Figure("phases", "Where the time of a step goes", style.as_svg(drawn, "phases"),
                  "From the counters of all workers. A thin line below a bar is communication that the backward pass "
                  "hides. Other: the step's own work that no counter names.")


def _roles(study: Study) -> list[tuple[dict, dict]]:
    return [(variant, run) for variant in study.measured if (run := first_run(variant)) and run["roles"]]


def use(study: Study) -> Figure | None:
    """Cores of workers and servers, in user and system mode, and their memory."""
    runs = _roles(study)
    if not runs:
        return None
    drawn, (left, right) = style.figure(width=8.2, height=_height(len(runs)) + 0.5, ncols=2, sharey=True)
    roles = [("worker", "workers", 0), ("ps", "servers", 3), ("driver", "driver", 5), ("launcher", "launcher", 7)]
    most = max(sum(role["proportional_bytes"] for role in run["roles"].values()) for _, run in runs)
    size, unit = unit_of_bytes(most)
    for row, (_, run) in enumerate(runs):
        at = held = 0.0
        for name, _, index in roles:
            role = run["roles"].get(name)
            if role is None:
                continue
            for key, hatch in ("user_cores", ""), ("system_cores", "////"):
                left.barh(row, role[key], 0.7, left=at, color=style.PARTS[index], hatch=hatch, edgecolor=style.INK,
                          linewidth=0.4)
                at += role[key]
            right.barh(row, role["proportional_bytes"] / size, 0.7, left=held, color=style.PARTS[index],
                       edgecolor=style.INK, linewidth=0.4)
            held += role["proportional_bytes"] / size
    for name, label, index in roles:
        if any(name in run["roles"] for _, run in runs):
            left.barh(0, 0, color=style.PARTS[index], label=label, edgecolor=style.INK, linewidth=0.4)
    left.barh(0, 0, color="none", hatch="////", label="in the kernel", edgecolor=style.INK, linewidth=0.4)
    left.axvline(study["machine"]["cores"], color=style.INK, linestyle=":", linewidth=1)
    left.set_yticks(range(len(runs)), [variant["label"] for variant, _ in runs])
    left.invert_yaxis()
    left.set_xlabel("cores in use (dotted: all there are)")
    right.set_xlabel(f"memory in {unit}, at most")
    for axes in (left, right):
        axes.grid(axis="y", visible=False)
        axes.set_xlim(left=0)
    drawn.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return Figure("use", "Processor and memory", style.as_svg(drawn, "use"),
                  "Sampled ten times a second from each process while it trained. Memory is the proportional set size: "
                  "a page that processes share counts once.", wide=True)


def traffic(study: Study) -> Figure | None:
    """Bytes per second through shared memory and over the network."""
    runs = [(variant, run) for variant, run in _roles(study) if variant["workers"] > 1]
    rates = [(0.0, run["loopback_bytes_per_s"]) if variant["purpose"] == "peer" else
             (sum(role["shared_bytes_per_s"] for role in run["roles"].values()),
              sum(role["network_bytes_per_s"] for role in run["roles"].values())) for variant, run in runs]
    if not runs or max(map(sum, rates)) <= 0:
        return None
    size, unit = unit_of_bytes(max(map(sum, rates)))
    drawn, axes = style.figure(height=_height(len(runs)) + 0.3)
    for row, (shared, network) in enumerate(rates):
        axes.barh(row, shared / size, 0.7, color=style.PARTS[0], edgecolor=style.INK, linewidth=0.4,
                  label="shared memory" if row == 0 else None)
        axes.barh(row, network / size, 0.7, left=shared / size, color=style.PARTS[3], hatch="///",
                  edgecolor=style.INK, linewidth=0.4, label="network" if row == 0 else None)
    axes.set_yticks(range(len(runs)), [variant["label"] for variant, _ in runs])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{unit} per second")
    drawn.legend(loc="outside lower center", ncols=2)
    return Figure("traffic", "What moves between processes", style.as_svg(drawn, "traffic"),
                  "Gradients and messages of all processes while they trained, from their counters."
                  + (" Other systems have no such counters: of them it is what passed through the loopback interface "
                     "of this host." if study.peers else ""))


def over_time(study: Study) -> Figure | None:
    """Cores of workers and servers over a run: one small plot for each variant."""
    runs = [(variant, run) for variant in study.compared() if (run := first_run(variant)) and run.get("utilisation")]
    if not runs:
        return None
    columns = min(3, len(runs))
    rows = math.ceil(len(runs) / columns)
    drawn, axes = style.figure(width=8.2, height=1.75 * rows + 0.6, nrows=rows, ncols=columns, sharey=True,
                               squeeze=False)
    shown = set()
    for index, (variant, run) in enumerate(runs):
        plot = axes[index // columns][index % columns]
        for role, label, colour, line in (("worker", "workers", style.PARTS[0], "-"),
                                          ("ps", "servers", style.PARTS[3], "--")):
            series = [each for each in run["utilisation"] if each["role"] == role]
            # Every process is sampled at the same times.
            count = min((len(each["seconds"]) for each in series), default=0)
            if count < 2:
                continue
            total = [sum(each["user"][-count:][i] + each["system"][-count:][i] for each in series)
                     for i in range(count)]
            plot.plot(series[0]["seconds"][-count:], total, color=colour, linestyle=line, linewidth=1.3,
                      label=label if label not in shown else None)
            shown.add(label)
        plot.set_title(variant["label"], fontsize=9.5)
        plot.axvline(0, color=style.INK, linewidth=0.8, linestyle=":")
        plot.set_ylim(0, study["machine"]["cores"] * 1.08)
        plot.tick_params(labelsize=8.5)
        if index + columns >= len(runs):
            plot.set_xlabel("seconds since the training began", fontsize=8.5)
    for index in range(len(runs), rows * columns):
        axes[index // columns][index % columns].set_visible(False)
    drawn.supylabel("cores in use", fontsize=10)
    drawn.legend(loc="outside lower center", ncols=2)
    return Figure("over-time", "Processor use over a run", style.as_svg(drawn, "over-time"),
                  "First run of each, from the start of its processes to their end, evaluations included.", wide=True)


def alternatives(study: Study) -> Figure | None:
    """Throughput of what one can do instead."""
    variants = [variant for variant in ([study.baseline] if study.baseline else []) + study.alternatives
                if variant["samples_per_s"]]
    if len(variants) < 2:
        return None
    drawn, axes = style.figure(height=_height(len(variants)))
    bars(axes, variants, "samples_per_s")
    axes.set_xlabel("samples per second")
    if all(variant["id"].endswith("-slowed") for variant in study.alternatives):
        return Figure("alternatives", "With a slow worker", style.as_svg(drawn, "alternatives"),
                      "One worker stands still for half of the time, on purpose; one worker alone to compare with.")
    return Figure("alternatives", "Instead of more workers", style.as_svg(drawn, "alternatives"),
                  "Trainings that need no distribution. Side by side counts the samples of all of them.")


ALL = [throughput, time_to_loss, learning, scaling, pace, cost, phases, use, traffic, over_time, alternatives]
