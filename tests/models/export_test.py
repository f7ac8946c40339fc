"""Contract: Python loads what `colla export` writes, and gives the logits of `colla predict`.

Usage: export_test.py COLLA EXAMPLES. Exit code 77 where there is no torch or safetensors.
"""

import csv
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile

SKIPPED = 77
IMAGES = 8


def cifar(folder):
    """CIFAR-10's binary files with random images; returns those of the test part."""
    generator = random.Random(1)
    records = b""
    for i in range(IMAGES):
        records += bytes([i % 10]) + bytes(generator.randrange(256) for _ in range(3072))
    for name in ["data_batch_%d.bin" % i for i in range(1, 6)] + ["test_batch.bin"]:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(records)
    return records


def main():
    colla, examples = sys.argv[1:]
    if not all(importlib.util.find_spec(name) for name in ("torch", "safetensors")):
        print("no torch or no safetensors here")
        return SKIPPED
    import torch

    sys.path.insert(0, examples)
    import resnet50v2

    with tempfile.TemporaryDirectory() as folder:
        records = cifar(folder)
        model = ["resnet50v2", "--input", "32x32", "--data", "cifar10:" + folder]

        def run(*words):
            done = subprocess.run([colla, *words], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return done.stdout

        # Some steps, so that running statistics are not those of the beginning.
        run("train", *model, "--steps", "3", "--batch", "8", "--no-eval", "--checkpoint-dir", "run")
        run("export", "run", "--out", "model.safetensors")
        predict = ["predict", *model, "--checkpoint", "run", "--classifier-activation", "none"]
        run(*predict, "--out", "logits.csv")
        lines = run(*predict, "--format", "jsonl", "--batch", "3").splitlines()

        raw = torch.frombuffer(bytearray(records), dtype=torch.uint8).view(IMAGES, 3073)
        images = raw[:, 1:].reshape(IMAGES, 3, 32, 32).float() / 255
        with torch.no_grad():
            logits = resnet50v2.load(os.path.join(folder, "model.safetensors"))(images)

        with open(os.path.join(folder, "logits.csv")) as file:
            rows = list(csv.DictReader(file))
        assert [int(row["sample"]) for row in rows] == list(range(IMAGES))
        told = torch.tensor([[float(row[f"logit_{k}"]) for k in range(10)] for row in rows])
        assert logits.std() > 0.01, logits  # Nothing that any model would give.
        # Sums of terms as large as the largest logit: one that happens to be small has their rounding.
        rounding = 1e-5 * logits.abs().max()
        assert (told - logits).abs().max() < rounding, (told - logits).abs().max()
        assert [int(row["class"]) for row in rows] == logits.argmax(1).tolist()

        # The other format tells the same; batches of another size change no more than rounding.
        objects = [json.loads(line) for line in lines]
        assert [each["sample"] for each in objects] == list(range(IMAGES))
        again = torch.tensor([each["logit"] for each in objects])
        assert (again - logits).abs().max() < rounding, (again - logits).abs().max()
    return 0


if __name__ == "__main__":
    sys.exit(main())
