"""transformers: the program makes the group before the TrainingArguments, which then take it as it is."""

import tempfile

import net
import torch
import torch.distributed as dist
from transformers import Trainer, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = net.make_model()

    def forward(self, images, labels):
        return {"loss": net.loss_of(self.model, images, labels)}


dist.init_process_group(net.BACKEND)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, use_cpu=True, num_train_epochs=1, per_device_train_batch_size=8, learning_rate=0.01,
        save_strategy="no", report_to=[], disable_tqdm=True,
    )
    data = [{"images": images, "labels": labels} for images, labels in net.make_data()]
    model = Model()
    trainer = Trainer(model, arguments, train_dataset=data)
    trainer.train()
assert arguments.world_size == 2
net.keep(model.model, dist.get_rank(), dist.get_backend())
dist.destroy_process_group()
