"""Colours, markers and the look of every figure.

Colours are those of Okabe and Ito, which people with any colour vision can tell apart, a little darker where white
paper asks for it. A strategy has the same colour and marker everywhere. Text and grid take the page's colours, so
that one SVG fits light and dark pages: they are drawn in two marks that `as_svg` replaces.
"""

import io
import re
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

INK = "#010203"  # Becomes the page's text colour.
GRID = "#040506"  # Becomes the page's grid colour.

COLOURS = {
    "single": "#7a7a7a",
    "mirrored": "#56b4e9",
    "allreduce": "#0072b2",
    "ps-sync": "#e69f00",
    "ps-ssp": "#d55e00",
    "ps-async": "#cc79a7",
    "hybrid": "#009e73",
    "local-sgd": "#a3920a",
    # Other systems.
    "tf": "#8c510a",
    "mxnet": "#35978f",
    "ddp": "#762a83",
    "spark": "#b2182b",
}
MARKERS = {
    "single": "o",
    "mirrored": "v",
    "allreduce": "s",
    "ps-sync": "D",
    "ps-ssp": "^",
    "ps-async": "X",
    "hybrid": "P",
    "local-sgd": "p",
    "tf": "<",
    "mxnet": ">",
    "ddp": "h",
    "spark": "*",
}
# For roles and parts, which are not strategies.
PARTS = ["#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#a3920a", "#7a7a7a"]
HATCHES = ["", "///", "...", "xxx", "\\\\\\", "ooo"]

SETTINGS = {
    "font.family": "sans-serif",
    "font.size": 10.5,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "figure.constrained_layout.use": True,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "hatch.linewidth": 0.6,
}


def colour(strategy: str) -> str:
    return COLOURS.get(strategy, "#7a7a7a")


def marker(strategy: str) -> str:
    return MARKERS.get(strategy, "o")


def figure(width: float = 5.4, height: float = 3.4, **arguments: Any) -> tuple[Any, Any]:
    mpl.rcParams.update(SETTINGS)
    return plt.subplots(figsize=(width, height), **arguments)


def as_svg(drawn: Any, name: str) -> str:
    """The figure as an SVG element for a page. `name` keeps its ids apart from those of other figures."""
    mpl.rcParams["svg.hashsalt"] = name
    with io.StringIO() as text:
        drawn.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        svg = text.getvalue()
    plt.close(drawn)
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = svg.replace(INK, "currentColor").replace(GRID, "var(--grid)")
    # Ids that matplotlib counts, such as axes_1, are the same in every figure.
    for identity in set(re.findall(r'id="([^"]+)"', svg)):
        svg = re.sub(rf'(id="|url\(#|href="#){re.escape(identity)}(?=["\)])', rf"\g<1>{name}-{identity}", svg)
    # Three decimals of a point are finer than any screen.
    svg = re.sub(r"(\d+\.\d{3})\d+", r"\1", svg)
    size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg)
    if size:
        svg = svg.replace(size.group(0), f'style="max-width:{float(size.group(1)) * 4 / 3:.0f}px"', 1)
    return svg.replace("sans-serif", "system-ui, sans-serif")


def alone(svg: str) -> str:
    """An SVG of `as_svg` as a file of its own, on white."""
    svg = svg.replace("currentColor", "#1b1f24").replace("var(--grid)", "#d9dee4")
    return svg.replace("<defs>", '<rect width="100%" height="100%" fill="white"/><defs>', 1)


def save(drawn: Any, path: str, kind: str) -> None:
    """The figure as a file of its own, black on white."""
    with io.StringIO() as text:
        for axes in drawn.axes:
            axes.set_facecolor("white")
        drawn.set_facecolor("white")
        if kind == "svg":
            drawn.savefig(text, format="svg", metadata={"Date": None}, facecolor="white")
            svg = text.getvalue().replace(INK, "#1b1f24").replace(GRID, "#d9dee4")
            with open(path, "w", encoding="utf-8") as file:
                file.write(svg)
        else:
            for line in (line for axes in drawn.axes for line in axes.get_xgridlines() + axes.get_ygridlines()):
                line.set_color("#d9dee4")
            drawn.savefig(path, format="png", dpi=160, facecolor="white")
    plt.close(drawn)
