"""examples.py OUT: the examples in the public headers as C++ sources, and the program in docs/train.md.

OUT/examples.cc has those of headers without libtorch, OUT/examples_torch.cc the others, OUT/program.cc the
program. An example is the indented code in a comment of a header. It stands in a namespace of its own: as it is if it
has a main(), otherwise as the body of a function that returns a Status and has what examples take for granted
(`group`, `bucket`, `input`, `target`, `task`, a module `Net`).
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORCH = re.compile(r"#include (<torch/|\"colla/(model|trainer|distributed_optimizer)\.h\")")
# What examples need beyond their own header.
INCLUDES = '#include "colla/collectives.h"\n#include "colla/job.h"\n'
GIVEN = "[[maybe_unused]] colla::Group& group, [[maybe_unused]] colla::Bucket& bucket"
GIVEN_TORCH = ("[[maybe_unused]] const torch::Tensor& input, [[maybe_unused]] const torch::Tensor& target, "
               "[[maybe_unused]] colla::Task task")


def blocks(header):
    """The code in each of its comments."""
    found, lines = [], []
    for line in [*header.read_text().splitlines(), ""]:
        line = line.strip()
        if line.startswith("//   ") and not line.startswith("//   ./"):  # Not a command line.
            lines.append(line.removeprefix("//   "))
        elif not line.startswith("//") and lines:
            found.append("\n".join(lines))
            lines = []
    return found


def examples(torch):
    """By name, those of headers that include libtorch or that are about a task, or those of the others."""
    found = {}
    for header in sorted((ROOT / "include" / "colla").glob("*.h")):
        of_torch = bool(TORCH.search(header.read_text()))
        for number, code in enumerate(blocks(header)):
            if torch == (of_torch or code.startswith("task.")):
                found[f"{header.stem}{number or ''}"] = code
    return found


def source(found, torch):
    text = ("// Made by tests/docs/examples.py.\n"
            "// An example may declare what is given to the others.\n#pragma GCC diagnostic ignored \"-Wshadow\"\n")
    text += "".join(f'#include "colla/{name}.h"\n' for name in sorted({name.rstrip("0123456789") for name in found}))
    text += INCLUDES + ('#include "colla/trainer.h"\n' if torch else "")
    for name, code in found.items():
        text += f"\nnamespace example_{name} {{\n"
        if torch and "struct Net" not in code:
            text += "using example_model::Net;\n"
        given = GIVEN + (", " + GIVEN_TORCH if torch else "")
        declares = re.match(r"(struct .*?\n};\n)(.*)", code, re.DOTALL)
        before, body = declares.groups() if declares else ("", code)
        if "main(" in body:
            text += f"{code}\n"
        else:
            text += f"{before}colla::Status example({given}) {{\n{{\n{body}\n}}\nreturn {{}};\n}}\n"
        text += f"}}  // namespace example_{name}\n"
    return text


def program():
    """The first C++ program in docs/train.md."""
    page = (ROOT / "docs" / "train.md").read_text()
    return re.search(r"^```cpp\n(.*?int main\(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    made = {"examples.cc": source(examples(False), False), "program.cc": program(),
            # The model's comes first: the others use its Net.
            "examples_torch.cc": source(dict(sorted(examples(True).items(), key=lambda item: item[0] != "model")), True)}
    for name, text in made.items():
        file = folder / name
        if not file.exists() or file.read_text() != text:  # What is unchanged is not compiled again.
            file.write_text(text)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
