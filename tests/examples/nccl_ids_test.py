#!/usr/bin/python3
"""examples/nccl_ids over libnccl_fake, which is no NCCL: by trainrun, and by `trainrun rendezvous` for workers of somebody else."""
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from harness import BUILD, LocalTest, main, without_blanks  # noqa: E402

LIB = os.path.join(os.path.dirname(BUILD), "lib")
PROGRAM = without_blanks(os.environ.get("TRAINRUN_NCCL_IDS", BUILD + "/nccl_ids"))
FAKE = without_blanks(os.environ.get("TRAINRUN_NCCL_FAKE", LIB + "/libnccl_fake.so"))
ROOT = os.path.dirname(os.path.dirname(HERE))
PYTHON = ("/usr/bin/python3", os.path.join(ROOT, "examples/nccl_ids/nccl_ids.py"))
FAKED = {"TRAINRUN_NCCL_LIB": FAKE, "TRAINRUN_CUDA_LIB": FAKE}
OF_PYTHON = {**FAKED, "PYTHONPATH": os.path.join(ROOT, "comm/python"),
             "TRAINRUN_COMM_LIBRARY": os.environ.get("TRAINRUN_COMM_SO", LIB + "/libtrainrun_comm.so.0"),
             "ASAN_OPTIONS": "detect_leaks=0"}


class NcclIds(LocalTest):
    def python(self):
        """What runs Python with the library; its sanitizer, if it has one, must be there before all else."""
        preload = os.environ.get("PYTHON_PRELOAD", "")
        return (*(("env", "LD_PRELOAD=" + preload) if preload else ()), *PYTHON)

    def assertOneId(self, out, count):
        ids = re.findall(r"^(?:\[\d\] )?rank \d of \d: id(( [0-9a-f]{2}){16})$", out, re.M)
        self.assertEqual(len(ids), count, out)
        self.assertEqual(len(set(ids)), 1, out)

    def test_ranks_of_trainrun_get_one_id(self):
        done = self.assertEnds(self.run_job("-np", 3, PROGRAM, env=FAKED), 0)
        self.assertOneId(done.out, 3)

    def test_workers_that_somebody_else_starts_get_one_id(self):
        server = self.start("rendezvous", "--np", "2")
        line = server.wait_for(r"^TRAINRUN_RENDEZVOUS=.*\n")[0]
        env = {**os.environ, **FAKED, **dict(word.split("=", 1) for word in line.split())}
        workers = [subprocess.Popen([PROGRAM], env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        self.assertOneId("".join(worker.communicate(timeout=60)[0] for worker in workers), 2)
        self.assertEnds(server.wait(), 0)

    def test_a_program_in_python_goes_on_with_it(self):
        done = self.assertEnds(self.run_job("-np", 2, *self.python(), env=OF_PYTHON), 0)
        self.assertEqual(done.out.count("of 2 is in the communicator"), 2, done)

    def test_what_nccl_refuses_is_said_in_its_words(self):
        done = self.assertEnds(self.run_job("-np", 1, *self.python(), env={**OF_PYTHON, "NCCL_FAKE": "0:init=fail"}), 3)
        self.assertIn("ncclCommInitRank: unhandled cuda error (1): said libnccl_fake", done.out)


if __name__ == "__main__":
    main()
