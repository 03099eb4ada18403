#!/usr/bin/python3
"""Horovod's API on trainrun's collectives, with today's torch; e2e.horovod_api and e2e.horovod_training have Debian's."""
import os
import sys

from interop import HERE, harness
from environments import python_with, versions

sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

from torch_jobs import LIBRARY, TorchJobs  # noqa: E402

PACKAGES = ("torch", "numpy", "lightning", "accelerate", "transformers")  # as torch_test.py: one environment for both


class TorchHvd(TorchJobs):
    @classmethod
    def setUpClass(cls):
        cls.python = python_with("torch", *PACKAGES)
        print("with", *versions(cls.python, "torch"))
        super(TorchJobs, cls).setUpClass()
        assert os.path.exists(LIBRARY), LIBRARY

    def environment(self, extra=None):
        return super().environment({"TORCHINDUCTOR_CACHE_DIR": self.folder + "/inductor", **(extra or {})})

    def test_operations(self):
        for verb in ("allreduces", "grouped", "moves", "sets", "gradients", "sync_batch_norm", "objects", "parameters", "refusals",
                     "default_device"):
            with self.subTest(verb=verb):
                self.all_right(3 if verb != "parameters" else 2, "horovod_api.py", verb)

    def test_optimizers(self):
        for verb in ("training", "own_compressor", "passes", "unused", "clipping", "state", "joined"):
            with self.subTest(verb=verb):
                self.all_right(3, "horovod_optimizer.py", verb)


if __name__ == "__main__":
    harness.main()
