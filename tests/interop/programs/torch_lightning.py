"""Lightning, without a word about its launcher: it must see the world that there is."""
import os

import lightning
import torch

lightning.seed_everything(1, verbose=False)


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


points = torch.linspace(-1, 1, 64).reshape(-1, 1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(points, 2 * points + 1), batch_size=8)
hosts = int(os.environ["GROUP_WORLD_SIZE"])
trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), num_nodes=hosts, strategy="ddp", max_epochs=60,
                            logger=False, enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False)
model = Line()
trainer.fit(model, data)
print(f"rank {trainer.global_rank} of {trainer.world_size}: {model.layer.weight.item():.2f} x + {model.layer.bias.item():.2f}",
      flush=True)
