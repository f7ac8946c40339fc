"""``python -m colla.study report DIR`` and ``plot``: what ``colla study``, ``report`` and ``plot`` start."""

import argparse
import sys

from colla.study.problem import Problem


def main() -> int:
    parser = argparse.ArgumentParser(prog="colla")
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser("report")
    report.add_argument("directories", nargs="+")
    report.add_argument("--out")
    report.add_argument("--figures")
    plot = commands.add_parser("plot")
    plot.add_argument("runs", nargs="+")
    plot.add_argument("--out", default="plot.png")
    plot.add_argument("--against", choices=["step", "time"], default="step")
    arguments = parser.parse_args()
    try:
        if arguments.command == "report":
            from colla.study import page

            page.write(arguments.directories, arguments.out)
            if arguments.figures:
                page.write_figures(arguments.directories[0], arguments.figures)
        else:
            from colla.study import curves

            curves.write(arguments.runs, arguments.out, arguments.against)
    except Problem as problem:
        print(f"colla {arguments.command}: {problem}", file=sys.stderr)
        return problem.code
    except OSError as error:
        print(f"colla {arguments.command}: {error}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
