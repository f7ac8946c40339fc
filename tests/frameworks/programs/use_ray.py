"""Ray Train: a TorchConfig with the backend's name. Ray makes the group in its own workers."""

import tempfile

import net
import ray
import torch
import torch.distributed as dist
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_data_loader, prepare_model


def train():
    model = prepare_model(net.make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = prepare_data_loader(torch.utils.data.DataLoader(net.make_data(), batch_size=8))
    for images, labels in loader:
        optimizer.zero_grad()
        net.loss_of(model, images, labels).backward()
        optimizer.step()
    net.keep(model.module, dist.get_rank(), dist.get_backend())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        ray.init(num_cpus=2, include_dashboard=False, _temp_dir=folder)
        TorchTrainer(
            train,
            torch_config=TorchConfig(backend=net.BACKEND),
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=folder),
        ).fit()
        ray.shutdown()
