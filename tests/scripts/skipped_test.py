"""What scripts/skipped.py prints of the files that ctest and pytest write."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

CTEST = """<testsuite>
  <testcase name="A.Ran" status="run"><system-out>fine</system-out></testcase>
  <testcase name="A.Root" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>[ RUN      ] A.Root
a_test.cc:3: Skipped
needs root

[  SKIPPED ] A.Root (0 ms)
</system-out></testcase>
  <testcase name="B.Root" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>b_test.cc:9: Skipped
needs root
</system-out></testcase>
  <testcase name="script" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
    <system-out>first
no Slurm here</system-out></testcase>
</testsuite>"""
PYTEST = """<testsuites><testsuite>
  <testcase name="test_ran"/>
  <testcase name="test_mpi"><skipped type="pytest.skip" message="no mpirun">x.py:1: no mpirun</skipped></testcase>
</testsuite></testsuites>"""


class SkippedTest(unittest.TestCase):
    def test_reasons_and_whose_they_are(self):
        with tempfile.TemporaryDirectory() as name:
            files = [pathlib.Path(name) / file for file in ("ctest.xml", "pytest.xml", "none.xml")]
            files[0].write_text(CTEST)
            files[1].write_text(PYTEST)
            done = subprocess.run([sys.executable, ROOT / "scripts" / "skipped.py", *files], text=True,
                                  capture_output=True, check=True)
        self.assertEqual(done.stdout, "skipped: 4 tests\n  needs root: A.Root, B.Root\n"
                         "  no Slurm here: script\n  no mpirun: test_mpi\n")


if __name__ == "__main__":
    unittest.main()
