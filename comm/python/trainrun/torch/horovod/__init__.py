"""Horovod's API for PyTorch on trainrun's collectives. Programs import it as trainrun.torch; decision 0065."""
