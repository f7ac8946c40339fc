"""Contract: Python loads what `colla export` writes, and gives the logits of `colla predict`.

Each image model is defined a second time in PyTorch: ResNet V2 in examples/python, Inception-v3 beside this
file. Usage: export_test.py COLLA EXAMPLES. Exit code 77 where there is no torch or safetensors.
"""

import csv
import importlib.util
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import zlib

SKIPPED = 77
IMAGES = 8
CLASSES = 4


def png(height, width, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[y * width * 3 : (y + 1) * width * 3] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def make_images(folder, height, width):
    """A folder of random images per class, the same ones to train and to test with; returns their bytes in the
    order of the test part."""
    generator = random.Random(1)
    images = []
    for i in range(IMAGES):
        images.append(bytes(generator.randrange(256) for _ in range(height * width * 3)))
        for part in ("train", "test"):
            path = os.path.join(folder, part, "class%d" % (i * CLASSES // IMAGES))
            os.makedirs(path, exist_ok=True)
            with open(os.path.join(path, "%d.png" % i), "wb") as file:
                file.write(png(height, width, images[-1]))
    return images


def check(colla, name, height, width, logits_of, steps):
    """Some steps of training, so that running statistics are not those of the beginning; then both logits."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        pixels = make_images(os.path.join(folder, "images"), height, width)
        model = [name, "--input", f"{height}x{width}", "--data", "images:images"]

        def run(*words):
            done = subprocess.run([colla, *words], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return done.stdout

        train = ["--steps", str(steps), "--batch", str(IMAGES), "--no-eval", "--checkpoint-dir", "run"]
        run("train", *model, *train)
        run("export", "run", "--out", "model.safetensors")
        predict = ["predict", *model, "--checkpoint", "run", "--classifier-activation", "none"]
        run(*predict, "--out", "logits.csv")
        lines = run(*predict, "--format", "jsonl", "--batch", "3").splitlines()

        raw = torch.frombuffer(bytearray(b"".join(pixels)), dtype=torch.uint8).view(IMAGES, height, width, 3)
        with torch.no_grad():
            logits = logits_of(os.path.join(folder, "model.safetensors"), raw.permute(0, 3, 1, 2) / 255)

        with open(os.path.join(folder, "logits.csv")) as file:
            rows = list(csv.DictReader(file))
        assert [int(row["sample"]) for row in rows] == list(range(IMAGES))
        told = torch.tensor([[float(row[f"logit_{k}"]) for k in range(CLASSES)] for row in rows])
        assert logits.std(0).min() > 1e-3 * logits.abs().max(), logits  # Nothing that any image would give.
        # Sums of terms as large as the largest logit: one that happens to be small has their rounding.
        rounding = 1e-5 * logits.abs().max()
        assert (told - logits).abs().max() < rounding, (name, (told - logits).abs().max(), rounding)
        assert [int(row["class"]) for row in rows] == logits.argmax(1).tolist()

        # The other format tells the same; batches of another size change no more than rounding.
        objects = [json.loads(line) for line in lines]
        assert [each["sample"] for each in objects] == list(range(IMAGES))
        again = torch.tensor([each["logit"] for each in objects])
        assert (again - logits).abs().max() < rounding, (name, (again - logits).abs().max(), rounding)
    print(name, "is the same")


def main():
    colla, examples = sys.argv[1:]
    if not all(importlib.util.find_spec(name) for name in ("torch", "safetensors")):
        print("no torch or no safetensors here")
        return SKIPPED
    sys.path[:0] = [examples, os.path.dirname(os.path.abspath(__file__))]
    import inception_v3
    import resnet50v2
    from safetensors.torch import load_file

    def resnet(*blocks):
        def logits_of(path, images):
            model = resnet50v2.ResNet50V2(CLASSES, blocks)
            model.load_state_dict(load_file(path))
            return model.eval()(images)

        return logits_of

    check(colla, "resnet50v2", 33, 46, lambda path, images: resnet50v2.load(path)(images), 3)
    check(colla, "resnet101v2", 32, 32, resnet(3, 4, 23, 3), 1)
    check(colla, "resnet152v2", 32, 32, resnet(3, 8, 36, 3), 1)
    # So large that averages over neighbours have several of them in every layer.
    check(colla, "inceptionv3", 107, 139, lambda path, images: inception_v3.load(path)(images), 3)
    return 0


if __name__ == "__main__":
    sys.exit(main())
