#!/usr/bin/python3
"""Horovod's ranks on Gloo, on two hosts: the meshes of a worker that speaks Horovod's bytes, through the doors."""
import os
import re

import harness
from lab_harness import SshTest

MESH = harness.without_blanks(os.environ.get("TRAINRUN_HOROVOD_MESH", ""))
PYTHON = "/usr/bin/python3"
LONG = 300
COMPAT = ("--compat", "horovod")
SHOW = "import os; print(*sorted(f'{k}={v}' for k, v in os.environ.items() if k.startswith('HOROVOD_')))"


class Horovod(SshTest):
    NODES = 2

    def assertMeets(self, done, hosts, rounds=1):
        """`hosts`: how many ranks each has."""
        size = sum(hosts)
        met = re.findall(r"rank (\d+) of (\d+): global (\d+), local (\d+), cross (\d+)", done.out)
        expected = []
        for rank, (host, local_rank) in enumerate((host, slot) for host, slots in enumerate(hosts) for slot in range(slots)):
            cross = sum(slots > local_rank for slots in hosts)
            expected += [(str(rank), str(size), str(size), str(hosts[host]), str(cross))] * rounds
        self.assertEqual(sorted(met), sorted(expected), done)

    def test_ranks_of_two_hosts_meet_in_all_meshes(self):
        for hosts in ((1, 1), (4, 4), (1, 3)):
            with self.subTest(hosts=hosts):
                done = self.run_job(*COMPAT, "-H", f"node1:{hosts[0]},node2:{hosts[1]}", MESH, "mesh", timeout=LONG)
                self.assertEnds(done, 0)
                self.assertMeets(done, hosts)
                self.assertEqual(done.err, "")

    def test_ranks_of_one_host_meet(self):
        done = self.run_job(*COMPAT, "-H", "node1:2", MESH, "mesh", timeout=LONG)
        self.assertMeets(self.assertEnds(done, 0), (2,))

    def test_init_after_shutdown_meets_anew(self):
        done = self.run_job(*COMPAT, "-H", "node1:1,node2:2", MESH, "mesh", 3, timeout=LONG)
        self.assertMeets(self.assertEnds(done, 0), (1, 2), rounds=3)

    def test_a_process_set_meets(self):
        done = self.assertEnds(self.run_job(*COMPAT, "-H", "node1:2,node2:1", MESH, "set", timeout=LONG), 0)
        self.assertEqual(len(re.findall(r"rank [12] of 3: .*, set 2", done.out)), 2, done)

    def test_a_rank_that_never_comes_is_the_one_that_hangs(self):
        done = self.run_job(*COMPAT, "--hang-timeout", "3s", "--grace", 2, "-H", "node1:2,node2:1", MESH, "late", 2, self.folder + "/never",
                            timeout=LONG)
        self.assertEnds(done, 124)
        self.assertSays(done, "no sign of life from any rank for .*: rank 2 on node2 has not come to where the others wait")

    def test_a_rank_that_is_late_is_named_and_outlives_gloos_patience(self):
        """With Horovod's own server the others would end after HOROVOD_GLOO_TIMEOUT_SECONDS."""
        gate = self.folder + "/gate"
        job = self.start(*COMPAT, "-x", "HOROVOD_GLOO_TIMEOUT_SECONDS=2", "-H", "node1:2,node2:1", MESH, "late", 2, gate)
        job.wait_for(r"trainrun: 2 of 3 ranks wait in hvd.init; not there yet: rank 2 on node2 "
                     r"\(last words: 'reading the data'\)", stream="err", timeout=LONG)
        with open(gate, "w"):
            pass
        done = self.assertEnds(job.wait(LONG), 0)
        self.assertMeets(done, (2, 1))
        self.assertEqual(done.err.count("hvd.init"), 1, done)

    def test_a_rank_that_ends_without_init_is_the_cause(self):
        """Under horovodrun the others end after HOROVOD_GLOO_TIMEOUT_SECONDS, and are blamed."""
        done = self.run_job(*COMPAT, "-H", "node1:1,node2:1", MESH, "leave", 1, timeout=LONG)
        self.assertEnds(done, 1)
        self.assertSays(done, "rank 1 on node2 exited with code 0 without hvd.init, where other ranks wait for it",
                        "try +let every rank call hvd.init")

    def test_a_new_generation_has_values_of_its_own(self):
        gate = self.folder + "/gate"
        job = self.start(*COMPAT, "--max-restarts", 1, "-H", "node1:1,node2:1", "sh", "-c",
                         f"echo pid $$; test $TRAINRUN_RESTART_COUNT = 1 && touch {gate}; exec {MESH} late 1 {gate}")
        lines = job.wait_for(r"^\[0\] pid \d+", timeout=LONG)
        # Rank 0 has left its address by now: the restarted one must not meet it.
        job.wait_for("1 of 2 ranks wait in hvd.init", stream="err", timeout=LONG)
        self.on("node1", "kill -9 " + lines[0].split()[-1])
        done = self.assertEnds(job.wait(LONG), 0)
        self.assertMeets(done, (1, 1))

    def test_each_rank_has_what_horovodrun_would_give_it(self):
        done = self.assertEnds(self.run_job(*COMPAT, "-H", "node1:1,node2:2", PYTHON, "-c", SHOW), 0)
        seen = {}
        for rank, words in re.findall(r"^\[(\d)\] (HOROVOD_.*)$", done.out, re.M):
            seen[rank] = dict(word.split("=", 1) for word in words.split())
            self.assertRegex(seen[rank].pop("HOROVOD_GLOO_RENDEZVOUS_PORT"), r"^\d+$")
            self.assertRegex(seen[rank].pop("HOROVOD_GLOO_IFACE"), r"^(?!lo$)\w+")
        names = ("HOSTNAME", "RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
        same = {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1"}
        for rank, values in enumerate((("node1", 0, 3, 0, 1, 0, 2), ("node2", 1, 3, 0, 2, 1, 2), ("node2", 2, 3, 1, 2, 0, 1))):
            self.assertEqual(seen[str(rank)], {**same, **{"HOROVOD_" + name: str(value) for name, value in zip(names, values)}})

    def test_a_script_that_imports_horovod_is_known_and_others_are_not(self):
        for imports, expected in (("import horovod.torch as hvd", True), ("import os", False)):
            with self.subTest(imports=imports):
                script = self.folder + "/train.py"
                with open(script, "w", encoding="ascii") as file:
                    file.write(f"import os\nprint('horovod', 'HOROVOD_RANK' in os.environ)\nraise SystemExit\n{imports}\n")
                done = self.assertEnds(self.run_job("-H", "node1:1,node2:1", PYTHON, script), 0)
                self.assertEqual(done.out.count(f"horovod {expected}"), 2, done)
        done = self.assertEnds(self.run_job("--compat", "none", "-H", "node1:1,node2:1", PYTHON, "-c",
                                            "import os; print('HOROVOD_RANK' in os.environ)\ndef f():\n import horovod"), 0)
        self.assertEqual(done.out.count("False"), 2, done)

    def test_two_names_of_one_machine_are_two_hosts(self):
        """As Horovod's own tests have it."""
        done = self.run_job(*COMPAT, "-H", "localhost:1,127.0.0.1:1", MESH, "mesh", timeout=LONG)
        self.assertMeets(self.assertEnds(done, 0), (1, 1))

    def test_who_speaks_something_else_is_turned_away_and_told(self):
        done = self.assertEnds(self.run_job(*COMPAT, "-H", "node1", "sh", "-c", f"{MESH} say HELO; {MESH} say HELO"), 0)
        self.assertEqual(done.out.count("HTTP/1.0 400 Bad Request"), 2)
        self.assertEqual(done.err.count("trainrun: node1: a client of Horovod's rendezvous was turned away: it does not speak HTTP/1.x"),
                         1, done)


if __name__ == "__main__":
    harness.main()
