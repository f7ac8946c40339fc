"""One page for several studies: the same program on other machines, or on other days."""

import html

from colla.study import figures, style, tables
from colla.study.data import Study


def _names(studies: list[Study]) -> list[str]:
    """What tells the studies apart: the machine, or the day, or else the directory."""
    for parts in (["host"], ["host", "day"]):
        names = [" ".join(study["machine"]["host"] if part == "host" else study["began"][:10] for part in parts)
                 for study in studies]
        if len(set(names)) == len(names):
            return names
    return [str(study.directory) for study in studies]


def _overview(studies: list[Study], names: list[str]) -> str:
    rows = []
    for study, name in zip(studies, names, strict=True):
        machine = study["machine"]
        rows.append(("", [
            html.escape(name), html.escape(study["program"]), html.escape(study["data"].split(",")[0]),
            html.escape(f"{machine['processor']}, {machine['cores']} cores"), html.escape(study["began"][:10]),
            html.escape(study.advice["headline"])]))
    return tables.table(["study", "program", "data", "machine", "day", "answer"], rows, "studies", (0, 1, 2, 3, 4, 5))


def _common(studies: list[Study]) -> list[str]:
    """Variants that every study has measured, in the order of the first one."""
    return [variant["id"] for variant in studies[0].done
            if all(any(each["id"] == variant["id"] for each in study.done) for study in studies)]


def _throughput(studies: list[Study], names: list[str]) -> figures.Figure | None:
    common = _common(studies)
    if not common:
        return None
    drawn, axes = style.figure(width=8.2, height=0.9 + len(common) * (0.16 + 0.2 * len(studies)))
    height = 0.8 / len(studies)
    for index, (study, name) in enumerate(zip(studies, names, strict=True)):
        for row, identity in enumerate(common):
            variant = study.find(identity)
            assert variant is not None
            spread = variant["samples_per_s"]
            at = row - 0.4 + height * (index + 0.5)
            axes.barh(at, spread["median"], height * 0.9, color=style.PARTS[index % len(style.PARTS)],
                      hatch=style.HATCHES[index % len(style.HATCHES)], edgecolor=style.INK, linewidth=0.4,
                      label=name if row == 0 else None)
            axes.plot([spread["low"], spread["high"]], [at, at], color=style.INK, linewidth=1)
    axes.set_yticks(range(len(common)), [studies[0].find(identity)["label"] for identity in common])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{studies[0]['unit']} per second")
    drawn.legend(loc="outside lower center", ncols=3)
    return figures.Figure("merged-throughput", "Throughput", style.as_svg(drawn, "merged-throughput"),
                          "Medians, with lines from the slowest to the fastest run, of the variants that all studies "
                          "measured.", wide=True)


def body(studies: list[Study]) -> str:
    from colla.study import page

    names = _names(studies)
    programs = ", ".join(dict.fromkeys(study["program"] for study in studies))
    parts = [f"<h1>{len(studies)} studies of {html.escape(programs)}</h1>",
             '<p class="soft">Studies of other machines or other days beside each other: what differs between them may '
             "be the machine, the versions or the data.</p>", _overview(studies, names)]
    figure = _throughput(studies, names)
    parts.append(f'<div class="figures">{page.figure_of(figure)}</div>' if figure
                 else "<p>No variant was measured in all of them.</p>")
    for study, name in zip(studies, names, strict=True):
        parts += [f"<h2>{html.escape(name)}: {html.escape(study['program'])}</h2>",
                  f'<p id="headline-{html.escape(name)}"><strong>{html.escape(study.advice["headline"])}</strong></p>',
                  tables.strategies(study)]
    return "".join(parts)
