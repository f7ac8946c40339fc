"""Lightning: a strategy with the backend's name. Lightning starts the second worker itself."""

import lightning
import net
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = net.make_model()

    def training_step(self, batch):
        loss = net.loss_of(self.model, *batch)
        self.log("loss", loss, sync_dist=True)
        self.log("seen", float(len(batch[0])), sync_dist=True, reduce_fx="sum")
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.model.parameters(), lr=0.1)

    def on_train_end(self):
        net.keep(self.model, dist.get_rank(), dist.get_backend())


if __name__ == "__main__":
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(process_group_backend=net.BACKEND),
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(net.make_data(), batch_size=8))
