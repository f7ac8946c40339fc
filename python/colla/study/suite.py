"""One page for a study of several parts, such as `platforms`: what each system reached in each of them."""

import html
import math

from colla.study import figures, style, tables
from colla.study.data import Study, Suite, first_run, number


def _systems(study: Study) -> list[dict]:
    """What a part compares: one worker, Colla's strategies, other systems."""
    return [variant for variant in study.measured if variant["samples_per_s"]
            and (variant["purpose"] != "baseline" or variant["id"] == study["baseline"])]


def _throughput(suite: Suite) -> figures.Figure | None:
    parts = [(title, study) for title, _, study in suite.parts if _systems(study)]
    if not parts:
        return None
    columns = 2 if len(parts) > 1 else 1
    rows = math.ceil(len(parts) / columns)
    most = max(len(_systems(study)) + len(study.published) for _, study in parts)
    drawn, grid = style.figure(width=11, height=rows * (0.75 + 0.26 * most), nrows=rows, ncols=columns, squeeze=False)
    for index, (title, study) in enumerate(parts):
        axes = grid[index // columns][index % columns]
        systems = _systems(study)
        figures.bars(axes, systems, "samples_per_s")
        labels = [variant["label"] for variant in systems]
        for each in study.published:
            row = len(labels)
            axes.plot([each["value"]], [row], marker="d", color=style.INK, fillstyle="none", linestyle="none")
            labels.append(f"published: {each['label'].split(',')[0]}")
        axes.set_yticks(range(len(labels)), labels, fontsize=8.5)
        axes.tick_params(axis="x", labelsize=8.5)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.set_title(title, fontsize=9.5, loc="left")
        axes.set_xlabel(f"{study['unit']} per second", fontsize=8.5)
    for index in range(len(parts), rows * columns):
        grid[index // columns][index % columns].set_visible(False)
    return figures.Figure("suite-throughput", "Throughput of each system", style.as_svg(drawn, "suite-throughput"),
                          "Medians, with lines from the slowest to the fastest run. Hollow diamonds are published "
                          "figures: of other machines, and of the versions of 2017.", wide=True)


def _use(suite: Suite) -> figures.Figure | None:
    """The processor, memory and network of each system, in the part that most systems took part in."""
    study = max(suite.studies, key=lambda each: len(each.peers))
    title = next(title for title, _, each in suite.parts if each is study)
    made = figures.use(study)
    if made is None:
        return None
    made.name = "suite-use"
    made.title = f"Processor and memory: {title}"
    return made


def _network(suite: Suite) -> figures.Figure | None:
    study = max(suite.studies, key=lambda each: len(each.peers))
    made = figures.traffic(study)
    if made is None:
        return None
    made.name = "suite-traffic"
    return made


def _passes(suite: Suite) -> figures.Figure | None:
    """Seconds of each pass over the data: in memory, and read from disk again."""
    for _, _, study in suite.parts:
        pairs = [(variant, study.find(variant["id"].replace("-disk", ""))) for variant in study.peers
                 if variant["peer"].endswith("-disk")]
        pairs = [(disk, memory) for disk, memory in pairs if memory and memory["runs_done"] > 0]
        if pairs:
            break
    else:
        return None
    drawn_figure, axes = style.figure(width=8.2, height=3.2)
    for variant, look in ((pairs[0][1], {"color": style.PARTS[0], "marker": "o", "label": "stays in memory"}),
                          (pairs[0][0], {"color": style.PARTS[4], "marker": "s", "label": "is read from disk again"})):
        run = first_run(variant)
        seconds = [point["seconds"] for point in run["curves"][0]["steps"]] if run else []
        axes.plot(range(1, len(seconds) + 1), [now - before for before, now in zip([0, *seconds], seconds)], **look)
    axes.set_xlabel("pass over the data")
    axes.set_ylabel("seconds")
    axes.set_ylim(bottom=0)
    drawn_figure.legend(loc="outside lower center", ncols=2)
    return figures.Figure("suite-passes", "Each pass over the data, in memory and from disk",
                          style.as_svg(drawn_figure, "suite-passes"),
                          "Logistic regression of Spark MLlib, full batch: an iteration is a pass over all samples.",
                          wide=True)


def drawn(suite: Suite) -> list[figures.Figure]:
    return [made for make in (_throughput, _passes, _use, _network) if (made := make(suite)) is not None]


def _overview(suite: Suite) -> str:
    """Samples per second of each system in each part."""
    names: dict[str, str] = {}
    for study in suite.studies:
        for variant in _systems(study):
            kind = variant.get("peer") or variant["strategy"]
            names.setdefault(kind, variant["label"].split(",")[0])
    rows = []
    for kind, label in names.items():
        cells = [html.escape(label)]
        for study in suite.studies:
            found = [each for each in _systems(study) if (each.get("peer") or each["strategy"]) == kind]
            cells.append(number(max(each["samples_per_s"]["median"] for each in found)) if found else "–")
        rows.append(("", cells))
    return tables.table(["samples/s", *[html.escape(title) for title, _, _ in suite.parts]], rows, "suite", (0,))


def body(suite: Suite) -> str:
    from colla.study import page

    machine = suite.studies[0]["machine"]
    data = ("<strong>This study ran on synthetic data.</strong> " if any(study["synthetic"] for study in suite.studies)
            else "")
    parts = [f"<h1>{html.escape(suite.name.capitalize())}: {len(suite.parts)} studies</h1>",
             f'<p class="soft">{data}{html.escape(machine["host"])}: {html.escape(machine["processor"])}, '
             f'{machine["cores"]} cores, {html.escape(suite.studies[0]["began"][:10])}.</p>']
    warnings = list(dict.fromkeys(warning for study in suite.studies for warning in study.advice["warnings"]
                                  if "oversubscribed" in warning or "Other programs" in warning
                                  or "failed" in warning))
    if suite.missing:
        warnings.append(f"Not measured: {'; '.join(suite.missing)}.")
    if warnings:
        parts.append('<div class="warnings"><strong>What can&rsquo;t be concluded</strong><ul>'
                     + "".join(f"<li>{html.escape(each)}</li>" for each in warnings) + "</ul></div>")
    parts += ["<h2>All systems</h2>", _overview(suite),
              '<div class="figures">' + "".join(page.figure_of(made) for made in drawn(suite)) + "</div>"]
    for title, name, study in suite.parts:
        parts += [f"<h2>{html.escape(title)}</h2>", f"<p><strong>{html.escape(study.advice['headline'])}</strong></p>",
                  tables.strategies(study), tables.published(study),
                  f'<p><a href="{html.escape(name)}/report.html">The whole report of this part</a></p>']
    parts.append(f"<h2>How it was measured</h2><p>One study after the other, by <code>{html.escape(suite.command)}</code>. "
                 "Runs of all systems take turns. Each part has a report of its own in a directory below this one.</p>")
    return "".join(parts)
