"""Accelerate's loop: an unmodified one, but for use of the CPU."""
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
torch.manual_seed(1)
model = torch.nn.Linear(1, 1)
points = torch.linspace(-1, 1, 64).reshape(-1, 1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(points, 2 * points + 1), batch_size=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for _ in range(60):
    for x, y in data:
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
        optimizer.step()
layer = accelerator.unwrap_model(model)
print(f"rank {accelerator.process_index} of {accelerator.num_processes}: {layer.weight.item():.2f} x + {layer.bias.item():.2f}", flush=True)
accelerator.end_training()
