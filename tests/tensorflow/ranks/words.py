"""A program as people have written them for Parallax: a table of words and a dense layer."""

import hashlib
import sys

import numpy as np
import parallax
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
option, sync, average, folder = sys.argv[1], sys.argv[2] == "sync", sys.argv[3] == "average", sys.argv[4]

single_gpu_graph = tf.Graph()
with single_gpu_graph.as_default():
    ids, wanted = tf.placeholder(tf.int64, [8], name="ids"), tf.placeholder(tf.float32, [8, 1], name="wanted")
    table = tf.get_variable("table", [40, 4], initializer=tf.ones_initializer(), partitioner=parallax.get_partitioner(2))
    w = tf.get_variable("w", initializer=tf.fill([4, 1], 0.1))
    whole_table = tf.convert_to_tensor(table)
    found = tf.matmul(tf.nn.embedding_lookup(table, ids), w)
    loss = tf.reduce_mean(tf.square(found - wanted), name="loss")
    mine = tf.data.make_one_shot_iterator(parallax.shard.shard(tf.data.Dataset.range(10))).get_next()
    shards = parallax.shard.create_num_shards_and_shard_id()
    global_step = tf.train.get_or_create_global_step()
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=global_step)

config = parallax.Config(
    run_option=option,
    average_sparse=average,
    ckpt_config=parallax.CheckPointConfig(f"{folder}/ckpt", save_ckpt_steps=5),
    profile_config=parallax.ProfileConfig(f"{folder}/profile", profile_steps=[2]),
)
session, num_workers, worker_id, num_replicas_per_worker = parallax.parallel_run(
    single_gpu_graph, f"{folder}/resource_info", sync=sync, parallax_config=config
)
for number in range(10):
    random = np.random.RandomState(100 * number + worker_id)
    feeds = {"ids:0": [random.randint(0, 40, 8)] * num_replicas_per_worker}
    feeds[wanted] = [random.rand(8, 1)] * num_replicas_per_worker
    results = session.run({"loss": loss, "step": global_step, "train": train_op}, feed_dict=feeds)
    assert len(results["loss"]) == num_replicas_per_worker == 1 and results["train"] == [None]
values = [value[0] for value in session.run([whole_table, w, global_step])]
assert num_workers == 2
assert [session.run(mine)[0] for _ in range(3)] == [worker_id, worker_id + 2, worker_id + 4]
assert session.run(list(shards)) == [[2], [worker_id]]
step = int(values[2])
assert step == 10 if sync else step >= 10, step
try:
    session.run(loss, {ids: np.zeros(8), wanted: np.zeros([8, 1])})
    raise SystemExit("a feed that is no list was taken")
except ValueError as error:
    assert "a list with one value for ids:0" in str(error)
session.close()
if worker_id == 0:
    np.savez(f"{folder}/values.npz", table=values[0], w=values[1])
parallax.log.info("the end")
print("bits", hashlib.sha256(values[0].tobytes() + values[1].tobytes()).hexdigest())
