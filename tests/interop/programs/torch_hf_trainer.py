"""Hugging Face's Trainer on a model of one line, checkpoints and resuming included. Argument: the folder."""
import os
import sys

import torch
import torch.distributed
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x, labels):
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), labels)}


torch.manual_seed(1)
points = torch.linspace(-1, 1, 64).reshape(-1, 1)
data = [{"x": x, "labels": 2 * x + 1} for x in points]
folder = sys.argv[1]
arguments = TrainingArguments(output_dir=folder, use_cpu=True, per_device_train_batch_size=8, num_train_epochs=20, learning_rate=0.1,
                              optim="sgd", lr_scheduler_type="constant", save_strategy="epoch", save_total_limit=2, report_to=[], logging_strategy="no",
                              disable_tqdm=True)
trainer = Trainer(model=Line(), args=arguments, train_dataset=data)
done = get_last_checkpoint(folder) if os.path.isdir(folder) else None
trainer.train(resume_from_checkpoint=done)
layer = trainer.model.layer
print(f"rank {arguments.process_index} of {arguments.world_size}: {layer.weight.item():.2f} x + {layer.bias.item():.2f}, from {done and os.path.basename(done)}",
      flush=True)
torch.distributed.destroy_process_group()  # Gloo's threads may abort a process that ends with them
