"""PySpark's TorchDistributor: the function makes the group with the backend's name."""

import sys

import net
import torch
import torch.distributed as dist
from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession


def train():
    dist.init_process_group(net.BACKEND)
    model = torch.nn.parallel.DistributedDataParallel(net.make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = net.make_data()
    sampler = torch.utils.data.DistributedSampler(data, shuffle=False)
    for images, labels in torch.utils.data.DataLoader(data, batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        net.loss_of(model, images, labels).backward()
        optimizer.step()
    net.keep(model.module, dist.get_rank(), dist.get_backend())
    dist.destroy_process_group()


if __name__ == "__main__":
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    TorchDistributor(num_processes=2, local_mode=sys.argv[1] == "local", use_gpu=False).run(train)
    session.stop()
