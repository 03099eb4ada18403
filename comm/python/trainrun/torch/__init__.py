"""What trainrun has for programs of PyTorch: trainrun.torch.elastic, a process group that outlives its ranks."""
