"""What scripts/check_sources.py finds, and what it leaves alone."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CheckSourcesTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.directory.name)

    def tearDown(self):
        self.directory.cleanup()

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def anonymous(self, path, text):
        self.write(path, f"namespace colla {{\nnamespace {{\n{text}\n}}  // namespace\n}}\n")

    def check(self):
        done = subprocess.run([sys.executable, ROOT / "scripts" / "check_sources.py", self.root],
                              text=True, capture_output=True, check=False)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 1 if done.stdout else 0)
        return done.stdout.splitlines()

    def test_names_that_collide_are_found(self):
        self.write("src/one/CMakeLists.txt", "colla_folder(one\n  SOURCES a.cc b.cc USES base)\n")
        self.anonymous("src/one/a.cc", """
            // A comment with a brace: {
            constexpr int kLimit = 1;
            struct Entry final { int kInside = 2; void bad(); };
            std::vector<int> numbers(const std::map<int, int>& of, int count = 3) { return {}; }
            std::atomic<int> counter{0};
            enum class Kind { kA };
            template <typename T> void print(T value) {}
            """)
        self.anonymous("src/one/b.cc", """
            constexpr std::array<int, 2> kLimit = {1, 2};
            class Entry { int x; };
            int numbers(const std::map<int, int>& made, int number) { return 1; }
            int counter = 0;
            enum Kind : int { kB };
            template <typename T> void print(T it) {}
            """)
        self.assertEqual([line.split(" is ")[0] for line in self.check()], [
            "src/one/a.cc: Entry", "src/one/a.cc: Kind", "src/one/a.cc: counter", "src/one/a.cc: kLimit",
            "src/one/a.cc: numbers(const std::map<int, int>&, int)", "src/one/a.cc: print(T)"])

    def test_names_that_never_meet_are_fine(self):
        self.write("src/one/CMakeLists.txt", "colla_folder(one SOURCES a.cc b.cc fast.cc)  # c.cc\n"
                   "set_source_files_properties(fast.cc PROPERTIES COMPILE_OPTIONS -O3)\n")
        self.write("src/two/CMakeLists.txt", "colla_folder(two SOURCES c.cc)\n")
        self.anonymous("src/one/a.cc", "constexpr int kLimit = 1; void take(int value) { int kInside; }\n"
                       "TEST(One, Two) { }\nusing std::string; using Bytes = int; struct Later;")
        self.anonymous("src/one/b.cc", "void take(double value) { int kInside; }\n"
                       "TEST(One, Three) { }\nusing std::string; using Bytes = int; struct Later;")
        for path in ("src/one/fast.cc", "src/two/c.cc"):
            self.anonymous(path, "constexpr int kLimit = 1;")
        self.write("src/one/b.cc", (self.root / "src/one/b.cc").read_text() +
                   "namespace colla { constexpr int kLimit = 1; }\n"
                   "namespace colla::inside { namespace { constexpr int kLimit = 1; } }\n")
        self.assertEqual(self.check(), [])

    def test_a_mutex_says_what_it_guards(self):
        self.write("src/one/a.h", "class A {\n  mutable std::mutex mutex_;\n  std::shared_mutex other_;\n"
                   "  Mutex silent_;\n  Mutex mutable_;\n  int x_ COLLA_GUARDED_BY(mutable_);\n"
                   "  void wait() COLLA_REQUIRES(calls_);\n  mutable Mutex calls_;\n};\n")
        self.write("src/one/b.cc", "void f() {\n  static std::mutex once;\n  // std::mutex is a word here\n}\n")
        found = self.check()
        self.assertEqual(len(found), 4, found)
        self.assertIn("src/one/a.h:2: mutable std::mutex mutex_", found[0])
        self.assertIn("src/one/a.h:3: std::shared_mutex other_", found[1])
        self.assertEqual(found[2], "src/one/a.h: nothing says what silent_ guards (COLLA_GUARDED_BY)")
        self.assertIn("src/one/b.cc:2: static std::mutex once", found[3])

    def test_files_are_short(self):
        for path, lines in ("src/a/long.cc", 501), ("include/colla/long.h", 201), ("tests/a/fits.cc", 500), \
                ("include/colla/fits.h", 200):
            self.write(path, "\n" * lines)
        self.assertEqual([line.split(" lines")[0] for line in self.check()],
                         ["include/colla/long.h: 201", "src/a/long.cc: 501"])


if __name__ == "__main__":
    unittest.main()
