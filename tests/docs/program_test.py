"""program_test.py PROGRAM: the program in docs/train.md, as a reader would run it."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop()


def run(*words):
    ended = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=100)
    return ended.returncode, ended.stdout, ended.stderr


class ProgramTest(unittest.TestCase):
    def test_trains_with_two_workers_and_evaluates(self):
        with tempfile.TemporaryDirectory() as name:
            directory = str(pathlib.Path(name) / "run")
            size = ["--hidden", "8", "--samples", "600", "--threads", "1"]
            code, out, err = run(*size, "--report", "--np", "2", "--epochs", "5", "--checkpoint-dir", directory)
            self.assertEqual(code, 0, err)
            self.assertRegex(out, r"(?m)^(\[0\] )?step 30: [0-9.]+$")
            trained = re.findall(r"val_loss: ([0-9.]+) - val_absolute_error: ([0-9.]+)", out)[-1]

            # The numbers of the training, with one worker and with two.
            for workers in ("1", "2"):
                code, out, err = run(*size, "--eval", "--np", workers, "--checkpoint-dir", directory)
                self.assertEqual(code, 0, err)
                self.assertIn(f"step 30 - 600 samples - loss: {trained[0]} - absolute_error: {trained[1]}\n", out)
            code, out, err = run(*size, "--eval", "--checkpoint-dir", directory + "@0")
            self.assertIn("step 0 - 600 samples - loss: ", out, err)

            # --json means what it does in `colla eval`.
            code, out, err = run(*size, "--eval", "--checkpoint-dir", directory, "--json")
            self.assertEqual(code, 0, err)
            found = json.loads(out)
            self.assertEqual((found["step"], found["samples"]), (30, 600))
            self.assertEqual(f"{found['loss']:.4f}", trained[0])
            self.assertEqual(f"{found['metrics']['absolute_error']:.4f}", trained[1])

            # Its own flags are part of the model where it says so.
            code, _, err = run("--hidden", "9", "--eval", "--checkpoint-dir", directory)
            self.assertEqual(code, 1)
            self.assertIn("is of the model sine (hidden 8), not of sine (hidden 9)", err)

    def test_help_shows_its_flags(self):
        code, out, _ = run("--help")
        self.assertEqual(code, 0)
        for flag in ("--hidden", "units of the hidden layer (64)", "--report", "--np", "--eval"):
            self.assertIn(flag, out)

    def test_refuses_in_one_line(self):
        for words, message in ((["--hidden", "many"], "--hidden"), (["--eval"], "--eval needs --checkpoint-dir"),
                               (["--eval", "--checkpoint-dir", "/nowhere"], "/nowhere")):
            code, _, err = run(*words)
            self.assertIn(code, (1, 2), err)
            self.assertEqual(len(err.splitlines()), 1, err)
            self.assertIn(message, err)


if __name__ == "__main__":
    unittest.main()
