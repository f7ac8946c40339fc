"""report.html: one file that opens without a network, on light and dark screens, on phones and on paper."""

import html
import pathlib
from typing import Any

from colla.study import figures, merged, style, suite, tables
from colla.study.data import Study, Suite
from colla.study.problem import Problem

_LARGEST = 5_000_000  # Bytes.

_CSS = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #ffffff; --box: #f4f6f8; --grid: #d9dee4;
  --accent: #0072b2; --warn: #8a4b00; --warnbox: #fff6e6; --good: #00664b; --goodbox: #e6f5f0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #a4adb8; --paper: #14171b; --box: #1e2329;
  --grid: #39414b; --accent: #6cbcf0; --warn: #ffc57a; --warnbox: #33270f; --good: #6fdcb9; --goodbox: #12302a; } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --paper: #fff; --box: #f4f6f8; --grid: #ccc;
  --accent: #0072b2; --warn: #8a4b00; --warnbox: #fff; --good: #00664b; --goodbox: #fff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--grid); }
p { max-width: 46rem; margin: .5rem 0; }
.soft { color: var(--soft); }
a { color: var(--accent); }
.answer { background: var(--goodbox); border-left: 5px solid var(--good); border-radius: 6px; padding: 1rem 1.25rem;
  margin: 1.25rem 0; }
.answer .headline { font-size: 1.35rem; line-height: 1.35; font-weight: 600; margin: 0 0 .5rem; max-width: 60rem; }
.warnings { background: var(--warnbox); border-left: 5px solid var(--warn); border-radius: 6px;
  padding: .6rem 1.25rem; margin: 1rem 0; }
.warnings li, .notes li { margin: .3rem 0; max-width: 60rem; }
ul { padding-left: 1.1rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(27rem, 100%), 1fr)); gap: 1.25rem; }
figure { margin: 0; padding: 1rem; background: var(--box); border-radius: 8px; min-width: 0; break-inside: avoid; }
figure.wide { grid-column: 1 / -1; }
figure h3 { margin: 0 0 .5rem; font-size: 1rem; }
figure svg { width: 100%; height: auto; display: block; margin: 0 auto; color: var(--ink); }
figcaption { color: var(--soft); font-size: .85rem; margin-top: .5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; min-width: 100%; }
th, td { padding: .4rem .65rem; border-bottom: 1px solid var(--grid); text-align: right; vertical-align: top; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
th { font-weight: 600; color: var(--soft); white-space: nowrap; }
td { font-variant-numeric: tabular-nums; }
tr.chosen td { background: var(--goodbox); }
td .range { color: var(--soft); font-size: .8rem; display: block; white-space: nowrap; }
td:first-child { white-space: nowrap; }
td.text:not(:first-child) { min-width: 11rem; }
.scroll { margin: .5rem 0 1.25rem; } figure .scroll { margin: 0; }
.matrix td { text-align: center; }
.matrix td:first-child { text-align: left; }
.matrix .equal { background: var(--goodbox); color: var(--good); font-weight: 600; }
.matrix { font-size: .8rem; min-width: 0; }
.matrix th { white-space: normal; text-align: center; min-width: 4.2rem; }
.matrix td, .matrix th { padding: .3rem .35rem; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .45em; }
code { font: .82rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; font-size: .9rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) { main { padding: 1rem .75rem 3rem; } h1 { font-size: 1.35rem; }
  .answer .headline { font-size: 1.15rem; } figure { padding: .6rem; } dl { grid-template-columns: 1fr; }
  figure.wide .scroll svg { min-width: 36rem; } dd { margin-bottom: .4rem; } }
@media print { body { font-size: 10.5pt; } main { max-width: none; padding: 0; } .figures { gap: .5rem;
  grid-template-columns: 1fr 1fr; } h2 { break-after: avoid; }
  tr { break-inside: avoid; } td, th { padding: .2rem .4rem;
  font-size: 8.5pt; } .scroll { overflow: visible; } table { font-size: 8.5pt; } @page { margin: 14mm; } }
"""


def text(value: Any) -> str:
    return html.escape(str(value))


def _listed(items: list[str], kind: str) -> str:
    if not items:
        return ""
    return f'<ul class="{kind}">' + "".join(f"<li>{text(item)}</li>" for item in items) + "</ul>"


def figure_of(figure: figures.Figure) -> str:
    wide = ' class="wide"' if figure.wide else ""
    svg = figure.svg.replace("<svg ", f'<svg role="img" aria-label="{text(figure.title)}. {text(figure.caption)}" ', 1)
    return (f'<figure id="figure-{figure.name}"{wide}><h3>{text(figure.title)}</h3><div class="scroll">{svg}</div>'
            f"<figcaption>{text(figure.caption)}</figcaption></figure>")


def _head(study: Study) -> str:
    machine = study["machine"]
    data = "synthetic data" if study["synthetic"] else "this data"
    first = (f"On {data}: {text(study['data'])}. " if study["data"] else "")
    if study["synthetic"]:
        first = f"<strong>This study ran on synthetic data</strong>: {text(study['data'])}. "
    partial = ("<p><strong>This study was interrupted: what follows is from the runs that were over by then.</strong>"
               "</p>" if study["interrupted"] else "")
    return (f"<h1>Which strategy for {text(study['program'])}?</h1>"
            f'<p class="soft">{first}{text(study["runs_done"])} of {text(study["runs_planned"])} runs, on '
            f"{text(machine['host'])}: {text(machine['processor'])}, {text(machine['cores'])} cores, "
            f"{text(study['began'][:16].replace('T', ' '))}.</p>{partial}")


def _answer(study: Study) -> str:
    advice = study.advice
    reasons = "".join(f"<p>{text(reason)}</p>" for reason in advice["reasons"])
    warnings = (f'<div class="warnings"><strong>What can&rsquo;t be concluded</strong>'
                f'{_listed(advice["warnings"], "")}</div>' if advice["warnings"] else "")
    return (f'<section class="answer" id="answer"><p class="headline" id="headline">{text(advice["headline"])}</p>'
            f"{reasons}</section>{warnings}")


def _method(study: Study) -> str:
    machine = study["machine"]
    facts = [
        ("Command", f"<code>{text(study['command'])}</code>"),
        ("Machine", text(f"{machine['processor']}, {machine['cores']} cores, {machine['memory'] / 1e9:.0f} GB; "
                         f"{machine['system']}, {machine['kernel']}")),
        ("Versions", text(f"Colla {study['colla_version']}"
                          + (f", PyTorch {study['torch_version']}" if study["torch_version"] else ""))),
        ("Seeds", text(f"{study['seed']} for the first runs of all variants, and one more for each repeat; "
                       f"{'shuffled' if study['shuffle'] else 'samples in their natural order'}")),
        ("Loss", text(f"on the {study['loss']} set" if study["loss"] == "test" else "of the training steps")),
    ]
    cost = [run["sampling_cores"] for variant in study.done for run in variant["runs"] if run["status"] == "done"]
    if cost:
        facts.append(("Sampling", f"took {max(cost) * 100:.2f} % of a core at most"))
    commands = "".join(
        f'<tr><td>{text(variant["label"])}</td><td class="text"><code>{text(variant["command"])}</code></td></tr>'
        for variant in study.variants)
    return ("<h2>How it was measured</h2><dl>"
            + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
            + "</dl><p>Runs of all variants take turns, so that what slows the machine down for a while slows all of "
            "them. Medians are given, with the lowest and the highest run. The first tenth of the steps (at least "
            "five) is warm-up and left out of speeds.</p>"
            + _listed(study["left_out"], "notes")
            + '<h3>The command of each variant</h3><div class="scroll"><table>' + commands + "</table></div>")


def _body(study: Study) -> str:
    drawn = {made.name: made for make in figures.ALL if (made := make(study)) is not None}

    def some(*names: str) -> str:
        shown = "".join(figure_of(drawn[name]) for name in names if name in drawn)
        return f'<div class="figures">{shown}</div>' if shown else ""

    parts = [_head(study), _answer(study), "<h2>Strategies</h2>", tables.strategies(study), tables.published(study),
             some("throughput", "time-to-loss", "learning", "scaling", "pace", "cost")]
    if study["equality"]:
        parts += ["<h2>Same bits?</h2>", _listed(study["notes"], "notes"), tables.equality(study)]
    elif study["notes"]:
        parts += ["<h2>Notes</h2>", _listed(study["notes"], "notes")]
    parts += ["<h2>What the machine did</h2>", some("use", "phases", "traffic", "over-time"), tables.use(study)]
    if study.alternatives:
        parts += ["<h2>Why you may not need it</h2>", tables.alternatives(study), some("alternatives")]
    parts += ["<h2>Ease, scope, speed, consistency</h2>", tables.traits(study), _method(study)]
    return "".join(part for part in parts if part)


def write_figures(directory: str, out: str) -> None:
    """Every figure of a study as an SVG file."""
    if parts := Suite.of(directory):
        return _suite_figures(parts, out)
    study = Study(directory)
    target = pathlib.Path(out)
    target.mkdir(parents=True, exist_ok=True)
    for make in figures.ALL:
        if (made := make(study)) is not None:
            (target / f"{made.name}.svg").write_text(style.alone(made.svg))


def _suite_figures(parts: Suite, out: str) -> None:
    target = pathlib.Path(out)
    target.mkdir(parents=True, exist_ok=True)
    for made in suite.drawn(parts):
        (target / f"{made.name}.svg").write_text(style.alone(made.svg))


def write(directories: list[str], out: str | None) -> None:
    parts = Suite.of(directories[0]) if len(directories) == 1 else None
    studies = parts.studies if parts else [Study(directory) for directory in directories]
    try:
        if parts:
            body = suite.body(parts)
        else:
            body = _body(studies[0]) if len(studies) == 1 else merged.body(studies)
    except (KeyError, TypeError, IndexError) as error:
        where = " or ".join(str(study.directory / "report.json") for study in studies)
        raise Problem(f"{where} is broken, or of a different version of Colla: {error!r}") from error
    title = parts.name if parts else ", ".join(dict.fromkeys(study["program"] for study in studies))
    page = ('<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>Colla study: {text(title)}</title><style>{_CSS}</style></head><body><main>"
            + body + "</main></body></html>\n")
    if len(page.encode()) > _LARGEST:
        raise Problem(f"the report has {len(page.encode()) / 1e6:.1f} MB, more than {_LARGEST / 1e6:.0f} MB", code=1)
    target = pathlib.Path(out) if out else pathlib.Path(directories[0]) / "report.html"
    target.write_text(page)
