"""--torch-store trainrun: PyTorch's ranks meet in a store that the launcher holds."""
import importlib.util
import os
import re
import shutil
import signal
import unittest

import harness
from lab_harness import SshTest

PYTHON = "/usr/bin/python3"
WORKER = harness.without_blanks(os.path.join(harness.ROOT, "tests/workers/torch_worker.py"))
LONG = 300
RANK_0 = ("-x", "OMP_NUM_THREADS=1")
STORE = ("--torch-store", "trainrun", "-x", "OMP_NUM_THREADS=1")


class TorchStore(SshTest):
    NODES = 2

    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("torch") is None:
            raise unittest.SkipTest("/usr/bin/python3 has no torch (Debian's python3-torch)")
        super().setUpClass()

    def assertMet(self, done, size, generation_of=None):
        met = re.findall(rf"rank (\d) of {size}: sum {size}, store True at 127\.0\.0\.1", done.out)
        self.assertEqual(sorted(map(int, met)), list(range(size)), done)

    def test_ranks_of_two_hosts_meet_without_a_port_on_the_network(self):
        done = self.run_job(*STORE, "-H", "node1:2,node2:2", PYTHON, WORKER, "sum", timeout=LONG)
        self.assertEnds(done, 0)
        self.assertMet(done, 4)
        self.assertEqual(done.err, "")

    def test_who_has_not_come_is_named_with_its_last_line(self):
        self.name_who_is_late("init_process_group", *STORE)

    def test_who_has_not_come_to_the_store_of_rank_0_is_named_too(self):
        self.name_who_is_late(r"init_process_group at MASTER_PORT \d+", "-x", "OMP_NUM_THREADS=1")

    def name_who_is_late(self, place, *flags):
        gate = self.folder + "/gate"
        job = self.start(*flags, "-H", "node1:1,node2:1", PYTHON, WORKER, "late", 1, gate)
        told = rf"trainrun: 1 of 2 ranks wait in {place}; not there yet: rank 1 on node2 \(last words: 'reading the data'\)"
        done = self.opened_once_told(job, gate, 2, told)
        self.assertEqual(done.err.count("init_process_group"), 1, done)

    def test_who_waits_at_another_port_is_shown_there(self):
        gate = self.folder + "/gate"
        job = self.start(*RANK_0, "-H", "node1:1,node2:2", PYTHON, WORKER, "elsewhere", 29611, gate)
        self.opened_once_told(
            job, gate, 3, r"trainrun: 1 of 3 ranks wait in init_process_group at MASTER_PORT \d+; not there yet: "
                          r"rank 1 on node2 and rank 2 on node2",
            r"trainrun: not at MASTER_PORT \d+: rank 1 on node2 listens on port 29611; rank 2 on node2 is "
            r"connected to port 29611 \(try: ")

    def test_ranks_that_wait_for_more_than_there_are_are_told(self):
        job = self.start(*RANK_0, "-H", "node1:1,node2:1", PYTHON, WORKER, "more", 4)
        job.wait_for(r"all 2 ranks have come to MASTER_PORT \d+ and have waited there for .*leave WORLD_SIZE", "err", timeout=LONG)
        job.signal(signal.SIGTERM)
        self.assertEqual(job.wait(LONG).err.count("have waited there"), 1)

    def test_so_are_they_at_the_store_of_the_launcher(self):
        job = self.start(*STORE, "-H", "node1:1,node2:1", PYTHON, WORKER, "more", 4)
        job.wait_for(r"all of 2 ranks called init_process_group, and some wait there for rank [23], which there is not",
                     "err", timeout=LONG)
        job.signal(signal.SIGTERM)
        self.assertEqual(job.wait(LONG).err.count("wait there for rank"), 1)

    def test_ranks_that_take_themselves_for_the_same_one_are_told_of(self):
        job = self.start(*STORE, "-H", "node1:1,node2:1", PYTHON, WORKER, "first")
        job.wait_for(r"trainrun: ranks 0 and 1 have both called init_process_group as rank 0: not all ranks are in one world "
                     r"\(try: ", "err", timeout=LONG)
        job.signal(signal.SIGTERM)  # they use the same keys, and may wait for each other
        job.wait(LONG)

    def test_a_port_on_which_connections_of_the_last_job_linger_is_free(self):
        for flags in (RANK_0, STORE):
            done = self.run_job(*flags, "--master-port", 29618, "-H", "node1:2", PYTHON, WORKER, "sum", timeout=LONG)
            self.assertEnds(done, 0)

    def opened_once_told(self, job, gate, size, *told):
        """The job's ranks meet when the gate opens, after all of this was said."""
        for line in told:
            job.wait_for(line, stream="err", timeout=LONG)
        with open(gate, "w"):
            pass
        done = self.assertEnds(job.wait(LONG), 0)
        self.assertEqual(len(re.findall(rf"rank \d of {size}: sum {size}", done.out)), size, done)
        return done

    def test_ranks_that_hold_a_store_each_are_no_world(self):
        done = self.run_job(*RANK_0, "-H", "node1:1,node2:1", PYTHON, WORKER, "first", timeout=LONG)
        self.assertEnds(done, 0)
        self.assertSays(done, r"trainrun: 2 ranks hold a store at MASTER_PORT \d+, each its own: rank 0 on node1, "
                              r"rank 1 on node2 \(try: ")

    def test_ranks_that_end_without_having_met_are_told_of(self):
        done = self.run_job(*RANK_0, "-H", "node1:1,node2:1", PYTHON, WORKER, "alone", timeout=LONG)
        self.assertEnds(done, 0)
        self.assertSays(done, r"trainrun: 2 ranks have loaded PyTorch, and none has called init_process_group at "
                              r"MASTER_PORT \d+: each may take itself for a world of one")

    def test_ranks_with_trainruns_library_are_not_told_of(self):
        library = self.folder + "/libtrainrun_comm.so.0"  # known by its name: any library will do
        shutil.copy(importlib.util.find_spec("_ctypes").origin, library)
        done = self.run_job(*RANK_0, "-H", "node1:1,node2:1", PYTHON, WORKER, "library", library, timeout=LONG)
        self.assertEnds(done, 0)
        self.assertEqual(done.err, "")

    def test_ranks_that_meet_and_end_are_not_told_of(self):
        done = self.run_job(*RANK_0, "-H", "node1:1,node2:1", PYTHON, WORKER, "sum", timeout=LONG)
        self.assertEnds(done, 0)
        self.assertEqual(done.err, "")

    def test_a_new_generation_meets_in_a_store_of_its_own(self):
        job = self.start(*STORE, "--max-restarts", 1, "-H", "node1:1,node2:1", PYTHON, WORKER, "rounds", 60)
        lines = job.wait_for(r"^\[0\] round 2: 2 ranks, pid \d+", timeout=LONG)
        self.on("node1", "kill -9 " + lines[0].split()[-1])
        done = self.assertEnds(job.wait(LONG), 0)
        self.assertMet(done, 2)
        self.assertIn("generation 2: 2 ranks on 2 hosts", done.err)

    def test_the_port_of_the_user_is_the_stores_on_each_host(self):
        done = self.run_job(*STORE, "--master-port", 29617, "-H", "node1:1,node2:1", PYTHON, "-c",
                            "import os; print(os.environ['MASTER_ADDR'] + ':' + os.environ['MASTER_PORT'])")
        self.assertEnds(done, 0)
        self.assertEqual(done.out.count("127.0.0.1:29617"), 2, done)

    def test_who_speaks_something_else_is_turned_away_and_told(self):
        speak = ("import os, socket; s = socket.create_connection((os.environ['MASTER_ADDR'], "
                 "int(os.environ['MASTER_PORT']))); s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n'); print('got', s.recv(9))")
        done = self.assertEnds(self.run_job(*STORE, "-H", "node1", PYTHON, "-c", speak), 0)
        self.assertIn("got b''", done.out)
        self.assertIn("trainrun: node1: a client of PyTorch's store was turned away: request 71 of torch's TCPStore is "
                      "not known here (try: --torch-store rank0)", done.err)


if __name__ == "__main__":
    harness.main()
