"""What the docs name exists, and the example in README.md is the one that the tests build.

Checked in every .md file of the tree: relative links, and `paths/like/this` or `names.h` in
backticks. A path may be meant from the file's own folder, that folder's tests, the root, src/ or include/; a name
without a folder only counts in the README of a source folder, which speaks of its own files.
"""

import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MADE = ("build", ".venv", ".cache", ".git")  # By set-up and builds, so absent from a clone.
SOURCE = (".h", ".cc", ".py", ".sh", ".cmake", ".md", ".txt")

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TOKEN = re.compile(r"`([\w./+-]+)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def pages(root):
    return sorted(page for page in root.rglob("*.md")
                  if not page.relative_to(root).parts[0].startswith(MADE))


def exists(name, places):
    return any((place / name).exists() for place in places)


def is_path(token, page, places, root):
    token = token.removeprefix("./")
    if token.startswith(("/", *MADE)):
        return False
    if "/" in token.rstrip("/"):  # Keys and ratios have slashes too: a path starts in a folder.
        return token.endswith(SOURCE) or exists(token.split("/")[0], places)
    return token.endswith(SOURCE) and (page.parent.parent == root / "src" or page.parent == root / "bench")


def broken(root):
    """Lines such as 'docs/use.md: there is no src/gone.h'."""
    found = []
    for page in pages(root):
        text = FENCE.sub("", page.read_text())
        places = [page.parent, root / "tests" / page.parent.name, root, root / "src", root / "include"]
        names = [(link.split("#")[0], [page.parent])
                 for link in LINK.findall(text) if "://" not in link and not link.startswith("#")]
        names += [(token, places) for token in TOKEN.findall(text)
                  if is_path(token, page, places, root)]
        found += [f"{page.relative_to(root)}: there is no {name}"
                  for name, where in names if not exists(name, where)]
    return found


class DocsTest(unittest.TestCase):
    def test_everything_named_exists(self):
        self.assertGreater(len(pages(ROOT)), 5)
        self.assertEqual(broken(ROOT), [])

    def test_finds_what_is_missing(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            folder = root / "src" / "base"
            folder.mkdir(parents=True)
            (folder / "here.h").touch()
            (folder / "README.md").write_text(
                "`here.h` `gone.h` `base/here.h` `base/gone` `build/bin/colla` `a/key`\n")
            (root / "README.md").write_text(
                "[a](src/base) [b](src/gone.h#part) `src/base/here.h` `base/gone.h` `any.h`\n"
                "[c](https://example.org/x) [d](#part)\n```\n`not/a/path`\n```\n")
            self.assertEqual(broken(root), [
                "README.md: there is no src/gone.h",
                "README.md: there is no base/gone.h",
                "src/base/README.md: there is no gone.h",
                "src/base/README.md: there is no base/gone",
            ])

    def test_example_in_readme_is_the_one_that_is_built(self):
        example = (ROOT / "examples" / "net" / "main.cc").read_text()
        self.assertIn(f"```cpp\n{example}```\n", (ROOT / "README.md").read_text())

    def test_folder_pages_are_short(self):
        for page in [*(ROOT / "src").rglob("*/README.md"), ROOT / "bench" / "README.md"]:
            self.assertLessEqual(len(page.read_text().splitlines()), 40, page)


if __name__ == "__main__":
    unittest.main()
