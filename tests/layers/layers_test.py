"""layers_test.py CMAKE FOLDERS: includes go one way, and CMake's list of folders is the order.

FOLDERS is COLLA_FOLDERS of CMakeLists.txt, joined by semicolons, from the ground up.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^#include "([\w/]+)/\w+\.\w+"', re.MULTILINE)

PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(layers LANGUAGES CXX)
include({root}/cmake/CollaFolder.cmake)
foreach(folder lower upper)
  add_subdirectory(src/${{folder}})
endforeach()
"""


def without_comments(cmake):
    return re.sub(r"#.*", "", cmake)


def undeclared(source, folders):
    """Lines such as 'src/models includes train, which its CMakeLists.txt does not name'."""
    found = set()
    for folder in folders:
        declared = set(re.findall(r"[\w/]+", without_comments(
            (source / folder / "CMakeLists.txt").read_text())))
        below = [other for other in folders if other.startswith(folder + "/")]
        for file in sorted((source / folder).rglob("*")):
            inside = str(file.parent.relative_to(source))
            if file.suffix not in (".h", ".cc") or any(inside.startswith(other) for other in below):
                continue
            for name in INCLUDE.findall(file.read_text()):
                owner = max((other for other in folders if f"{name}/".startswith(f"{other}/")),
                            key=len, default=folder)
                names = {owner, "colla_" + owner.replace("/", "_")}
                if owner != folder and not names & declared:
                    found.add(f"src/{folder} includes {owner}, which its CMakeLists.txt does not name")
    return sorted(found)


class LayersTest(unittest.TestCase):
    def configure(self, lower, upper):
        """Configures two folders, of which `lower` comes first; the extra arguments are theirs."""
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "CMakeLists.txt").write_text(PROJECT.format(root=ROOT))
            for folder, extra in ("lower", lower), ("upper", upper):
                (root / "src" / folder).mkdir(parents=True)
                (root / "src" / folder / "a.cc").touch()
                (root / "src" / folder / "CMakeLists.txt").write_text(
                    f"colla_folder({folder} SOURCES a.cc {extra})\n")
            done = subprocess.run([CMAKE, "-S", root, "-B", root / "build"], text=True, check=False,
                                  capture_output=True)
            return done.returncode, " ".join(done.stderr.split())

    def test_a_folder_uses_those_below_it(self):
        self.assertEqual(self.configure("", "USES lower"), (0, ""))

    def test_a_use_that_points_upwards_does_not_configure(self):
        code, said = self.configure("USES upper", "")
        self.assertNotEqual(code, 0)
        self.assertIn("src/lower uses upper, which is not one of the folders below it", said)

    def test_the_diagram_has_the_order_of_cmake(self):
        page = (ROOT / "src" / "README.md").read_text()
        diagram = re.search(r"^```\n(.*?)^```", page, re.MULTILINE | re.DOTALL).group(1)
        self.assertEqual([line.split()[0] for line in diagram.splitlines()], FOLDERS[::-1])
        self.assertEqual(re.findall(r"^\*\*([\w/]+)\*\*:", page, re.MULTILINE), FOLDERS)

    def test_there_is_no_second_diagram(self):
        for page in ROOT.glob("*.md"):
            lines = [line.split()[0] for line in page.read_text().splitlines() if line.split()]
            self.assertLess(len(set(FOLDERS) & set(lines)), 5, page)

    def test_every_folder_is_in_the_list(self):
        there = {str(file.parent.relative_to(ROOT / "src"))
                 for file in (ROOT / "src").rglob("CMakeLists.txt")}
        self.assertEqual(there, set(FOLDERS))

    def test_every_include_is_declared(self):
        self.assertEqual(undeclared(ROOT / "src", FOLDERS), [])

    def test_an_undeclared_include_is_found(self):
        with tempfile.TemporaryDirectory() as name:
            source = pathlib.Path(name)
            for folder in ("low", "high", "high/part"):
                (source / folder).mkdir()
                (source / folder / "CMakeLists.txt").write_text(f"colla_folder({folder} SOURCES a.cc)\n")
                (source / folder / "a.cc").write_text('#include "low/a.h"\n#include "high/part/a.h"\n')
            (source / "high" / "CMakeLists.txt").write_text("colla_folder(high USES low) # high/part\n")
            self.assertEqual(undeclared(source, ["low", "high/part", "high"]), [
                "src/high includes high/part, which its CMakeLists.txt does not name",
                "src/high/part includes low, which its CMakeLists.txt does not name",
                "src/low includes high/part, which its CMakeLists.txt does not name",
            ])


if __name__ == "__main__":
    CMAKE, FOLDERS = sys.argv[1], sys.argv[2].split(";")
    unittest.main(argv=sys.argv[:1])
