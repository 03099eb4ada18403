#!/usr/bin/python3
"""Unique ids of a real NCCL, of PyPI's wheel, and what becomes of its communicators where there is no GPU. What needs one is
in tests/gpu/run; nothing here is about it."""
import ctypes
import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import environments  # noqa: E402
from harness import BUILD, LocalTest, main, without_blanks  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
LIB = os.path.join(os.path.dirname(BUILD), "lib")
WORKER = without_blanks(os.environ.get("TRAINRUN_NCCL_WORKER", BUILD + "/nccl_worker"))
FAKE = without_blanks(os.environ.get("TRAINRUN_NCCL_FAKE", LIB + "/libnccl_fake.so"))
PRELOAD = os.environ.get("PYTHON_PRELOAD", "")


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


class RealNccl(LocalTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.interpreter = environments.python_with("nccl", "nvidia-nccl-cu12")
        cls.version = environments.versions(cls.interpreter, "nvidia-nccl-cu12")[0].split("==")[1]
        lib = os.path.join(os.path.dirname(os.path.dirname(cls.interpreter)), "lib")
        python = next(name for name in os.listdir(lib) if name.startswith("python3"))
        cls.wheel = os.path.join(lib, python, "site-packages/nvidia/nccl/lib/libnccl.so.2")
        cls.of_python = {"PYTHONPATH": os.path.join(ROOT, "comm/python"), "ASAN_OPTIONS": "detect_leaks=0",
                         "TRAINRUN_COMM_LIBRARY": os.environ.get("TRAINRUN_COMM_SO", LIB + "/libtrainrun_comm.so.0")}

    def python(self, *words):
        return (*(("env", "LD_PRELOAD=" + PRELOAD) if PRELOAD else ()), self.interpreter, *words)

    def test_ids_are_alive_and_the_wheels(self):
        done = self.assertEnds(self.run_job("-np", 3, *self.python(os.path.join(HERE, "programs/nccl_id_alive.py")), env=self.of_python), 0)
        self.assertIn(f" of {self.wheel}", done.out)
        heard = re.findall(r"rank \d knew ([0-9a-f]{16}) and was heard", done.out)
        self.assertEqual((len(heard), len(set(heard))), (3, 1), done)

    def test_the_wheel_goes_before_the_variable(self):
        done = self.assertEnds(self.run_job("-np", 1, *self.python("-m", "trainrun.info"), env={**self.of_python, "TRAINRUN_NCCL_LIB": FAKE}), 0)
        self.assertRegex(done.out, rf"NCCL +{re.escape(self.version)}, the wheel beside the interpreter: {re.escape(self.wheel)}")

    def test_what_the_program_has_loaded_goes_before_all(self):
        program = f"import ctypes; ctypes.CDLL({self.wheel!r}); import runpy, sys; sys.argv[1:] = []; runpy.run_module('trainrun.info', run_name='__main__')"
        env = {**self.of_python, "TRAINRUN_NCCL_LIB": FAKE}
        done = self.assertEnds(self.run_job("-np", 1, *self.python("-c", program), env=env), 0)
        self.assertRegex(done.out, rf"NCCL +{re.escape(self.version)}, the program's: ")

    def test_an_interface_that_is_not_there(self):
        done = self.run_job("-np", 2, "sh", "-c", 'trap "" TERM; exec "$@"', "sh", WORKER, "ids",
                            env={"TRAINRUN_NCCL_LIB": self.wheel, "NCCL_SOCKET_IFNAME": "nope0"})
        self.assertEqual(done.rc, 3, done)
        self.assertRegex(done.out, r"\[0\] failed Device culprit -1: ncclGetUniqueId: invalid usage .*no socket interface found")
        self.assertRegex(done.out, r"\[1\] failed Aborted culprit 0: .*no socket interface found")

    def test_another_version_is_told_before_any_id(self):
        done = self.run_job("-np", 2, "sh", "-c", 'trap "" TERM; [ $TRAINRUN_RANK = 0 ] || export TRAINRUN_NCCL_LIB=$1; shift; exec "$@"',
                            "sh", FAKE, WORKER, "ids", env={"TRAINRUN_NCCL_LIB": self.wheel, "NCCL_FAKE": "*:version=21903"})
        self.assertEqual(done.rc, 3, done)
        told = rf"failed Mismatch culprit -1: the ranks have different versions of NCCL: 2\.19\.3 on rank 1 .*, {re.escape(self.version)} on rank 0 "
        self.assertEqual(len(re.findall(told, done.out)), 2, done)

    @unittest.skipIf(has_driver(), "there is a CUDA driver here: tests/gpu/run is what shows something")
    def test_without_a_driver_ranks_are_named_and_init_is_refused_in_nccls_words(self):
        done = self.assertEnds(self.run_job("-np", 2, WORKER, "group", env={"TRAINRUN_NCCL_LIB": self.wheel}), 3)
        self.assertRegex(done.out, r"failed Unsupported culprit -1: NCCL cannot be used by ranks 0-1 \(\S+: there is no CUDA driver: ")
        # With a driver that is a fake, NCCL itself finds that there is none.
        done = self.run_job("-np", 2, "sh", "-c", 'trap "" TERM; exec "$@"', "sh", WORKER, "group",
                            env={"TRAINRUN_NCCL_LIB": self.wheel, "TRAINRUN_CUDA_LIB": FAKE})
        self.assertEqual(done.rc, 3, done)
        self.assertRegex(done.out, r"failed Device culprit -1: opening NCCL's communicator: ncclCommInitRankConfig: .*\(1\): .*CUDA")
        done = self.assertEnds(self.run_job("-np", 2, *self.python(os.path.join(ROOT, "examples/nccl_ids/nccl_ids.py")), env=self.of_python), 3)
        self.assertRegex(done.out, r"rank \d: ncclCommInitRank: .*\(1\): .*CUDA")


if __name__ == "__main__":
    main()
