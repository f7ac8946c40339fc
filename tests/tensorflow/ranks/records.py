"""One process: TensorFlow's records and Examples against those of colla._records."""

import sys

import numpy as np
import tensorflow as tf

from colla import _records

FILES = sys.argv[1]
FEATURES = {
    "image": ("bytes", [b"\x00\xff", b""]),
    "label": ("int64", [-5, 0, 1 << 40]),
    "scores": ("float", [0.25, -1e30]),
    "no floats": ("float", []),
    "é": ("bytes", []),
}


def theirs(features):
    lists = {
        "bytes": lambda values: tf.train.Feature(bytes_list=tf.train.BytesList(value=values)),
        "int64": lambda values: tf.train.Feature(int64_list=tf.train.Int64List(value=values)),
        "float": lambda values: tf.train.Feature(float_list=tf.train.FloatList(value=values)),
    }
    made = {name: lists[kind](values) for name, (kind, values) in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=made))


FEATURES["scores"] = ("float", [float(np.float32(value)) for value in FEATURES["scores"][1]])
assert _records.decode_example(theirs(FEATURES).SerializeToString()) == FEATURES
assert tf.train.Example.FromString(_records.encode_example(FEATURES)) == theirs(FEATURES)
parsed = tf.io.parse_single_example(_records.encode_example(FEATURES), {"label": tf.io.FixedLenFeature([3], tf.int64)})
assert parsed["label"].numpy().tolist() == FEATURES["label"][1]

records = [_records.encode_example({"x": ("int64", [i])}) for i in range(1000)] + [b""]
_records.write_records(f"{FILES}/ours", records)
assert [record.numpy() for record in tf.data.TFRecordDataset(f"{FILES}/ours")] == records
with tf.io.TFRecordWriter(f"{FILES}/theirs") as writer:
    for record in records:
        writer.write(record)
assert list(_records.read_records(f"{FILES}/theirs")) == records
with open(f"{FILES}/ours", "rb") as one, open(f"{FILES}/theirs", "rb") as other:
    assert one.read() == other.read()
