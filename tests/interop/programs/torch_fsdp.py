"""FSDP2 with distributed.checkpoint: trains, saves, and goes on from what any number of ranks has saved.
Arguments: the folder, epochs in all."""
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

folder, epochs = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (size,)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
first = 0
if os.path.exists(folder + "/.metadata"):
    weights, steps = get_state_dict(model, optimizer)
    state = {"weights": weights, "steps": steps, "epochs": torch.tensor(0)}
    checkpoint.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["weights"], optim_state_dict=state["steps"])
    first = int(state["epochs"])
points = torch.linspace(-1, 1, 64).reshape(-1, 1)
loss = None
for _ in range(first, epochs):
    loss = torch.nn.functional.mse_loss(model(points), points.square())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
weights, steps = get_state_dict(model, optimizer)
checkpoint.save({"weights": weights, "steps": steps, "epochs": torch.tensor(epochs)}, checkpoint_id=folder)
print(f"rank {rank} of {size}: epochs {first} to {epochs}, loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
