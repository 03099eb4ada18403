"""An elastic rank of Horovod, as its documentation has it: a line is fitted, EPOCHS epochs of ten batches, each step committed.
It ends when all epochs are done and rank 0 has seen FOLDER/end; nothing here knows who started it."""
import os
import sys

import horovod.torch as hvd
import torch

folder, epochs = sys.argv[1], int(sys.argv[2])
hvd.init()
torch.manual_seed(0)
x = torch.linspace(-1, 1, 240).reshape(-1, 1)
data = torch.utils.data.TensorDataset(x, 2 * x + 1)
sampler = hvd.elastic.ElasticSampler(data, shuffle=True)
loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler)
model = torch.nn.Linear(1, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5), named_parameters=model.named_parameters())


@hvd.elastic.run
def train(state):
    print(f"world of {hvd.size()}: rank {hvd.rank()}, {hvd.local_rank()} of {hvd.local_size()} here, {hvd.cross_rank()} of "
          f"{hvd.cross_size()} across, from step {state.step}, pid {os.getpid()}", flush=True)
    while state.epoch < epochs or not hvd.broadcast_object(os.path.exists(folder + "/end"), root_rank=0):
        for index, (inputs, targets) in enumerate(loader):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            sampler.record_batch(index, 4)
            state.step += 1
            if hvd.rank() == 0 and state.step % 10 == 0:
                print("step", state.step, flush=True)
            state.commit()
        state.epoch += 1
        sampler.set_epoch(state.epoch)
        state.commit()


state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0, step=0)
state.register_reset_callbacks([lambda: print(f"reset: rank {hvd.rank()} of {hvd.size()}", flush=True)])
train(state)
print(f"end of rank {hvd.rank()} of {hvd.size()}: {model.weight.item():.2f} x + {model.bias.item():.2f}", flush=True)
