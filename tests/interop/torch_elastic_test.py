#!/usr/bin/python3
"""trainrun.torch.elastic with today's torch: ranks are killed and stopped, hosts go and come, and the others go on."""
import os
import re
import signal
import time

from interop import LONG, harness
from environments import python_with, versions

PACKAGES = ("torch", "numpy", "lightning", "accelerate", "transformers")  # as torch_test.py: one environment for both
LIBRARY = os.environ.get("TRAINRUN_COMM_RELEASE", harness.ROOT + "/build/release/lib/libtrainrun_comm.so.0")
SETTINGS = ("-x", "OMP_NUM_THREADS=1", "-x", "TRAINRUN_COMM_LIBRARY=" + harness.without_blanks(LIBRARY), "-x",
            "PYTHONPATH=" + harness.without_blanks(harness.ROOT + "/comm/python"), "-x", "PYTHONDONTWRITEBYTECODE=1")
WORKER = harness.without_blanks(harness.ROOT + "/tests/workers/torch_elastic.py")
HERE = ("--oversubscribe", "--preload", "torch")
SOON = 5  # seconds: less than --grace, for which a child of a dead rank may live and hold its sockets


class Elastic(harness.LocalTest):
    @classmethod
    def setUpClass(cls):
        cls.python = python_with("torch", *PACKAGES)
        print("with", *versions(cls.python, "torch"))
        super().setUpClass()

    def environment(self, extra=None):
        return super().environment({"TORCHINDUCTOR_CACHE_DIR": self.folder + "/inductor", **(extra or {})})

    def begin(self, *words, program=("child",), size=4):
        """Until all ranks of the first world have made steps; pids by rank."""
        self.job = self.start("-np", size, *words, *SETTINGS, self.python, WORKER, self.folder, *program)
        self.await_world(1, size)
        return self.pids(1)

    def await_world(self, generation, size):
        """Until all its ranks have made a step; when each has."""
        lines = self.job.wait_for(rf"first {generation} rank \d of {size} step .*", count=size, timeout=LONG)
        return [float(line.split()[-1]) for line in lines]

    def await_survivors(self, size):
        """Until they are in the second world; when. It may end before any of them has made a step: a forked rank is quick."""
        self.job.wait_for(rf"world 2 rank \d of {size} from step .*", count=size, timeout=LONG)
        return max(when for _, _, _, when in self.told(2))

    def told(self, generation):
        """(rank, step from which it goes on, pid, when) of its ranks."""
        lines = re.findall(rf"world {generation} rank (\d) of \d from step (\d+) pid (\d+) at ([\d.]+)", self.job.out)
        return [(int(rank), int(step), int(pid), float(when)) for rank, step, pid, when in sorted(lines)]

    def pids(self, generation):
        return [pid for _, _, pid, _ in self.told(generation)]

    def last_step(self):
        return max(map(int, re.findall(r"step (\d+)", self.job.out)))

    def end(self, size, *said):
        with open(self.folder + "/end", "w", encoding="ascii"):
            pass
        done = self.assertEnds(self.job.wait(LONG), 0)
        ends = re.findall(r"end of rank (\d) (after step \d+ with \S+ \S+ history \d+)", done.out)
        self.assertEqual(sorted(rank for rank, _ in ends), [str(rank) for rank in range(size)], done)
        self.assertEqual(len({what for _, what in ends}), 1, "ranks differ at the end")
        self.assertSays(done, *said)
        self.assertQuietOn(done, "Traceback", "an old Dist")

    def test_kill_9_and_a_forked_rank_in_its_place(self):
        before = self.begin("--min-np", 3, "--max-restarts", 3, *HERE)
        at = time.time()
        harness.kill(before[2])
        alone = self.await_survivors(3)
        first = self.await_world(3, 4)
        for generation in (2, 3):
            kept = self.pids(generation)[:3]
            self.assertEqual(kept, [before[0], before[1], before[3]], "survivors keep their processes and order")
            self.assertEqual(len({step for _, step, _, _ in self.told(generation)}), 1)
            self.assertGreater(self.told(generation)[0][1], 0, "steps were lost")
        self.assertLess(max(first) - at, SOON)
        print(f"kill -9 to the new world of 3: {alone - at:.3f} s, to the first step of 4, one of them forked: {max(first) - at:.3f} s")
        self.end(4, "generation 2: 3 ranks .* state kept by 3 survivors", "generation 3: 4 ranks .* is ready")

    def list_hosts(self, text):
        with open(self.folder + "/hosts.new", "w", encoding="ascii") as file:
            file.write(text)
        os.rename(self.folder + "/hosts.new", self.folder + "/hosts")

    def test_a_host_is_lost_and_comes_back_and_leaves(self):
        self.list_hosts("alpha:3\nbeta:1\n")
        before = self.begin("--transport", "local", "--discover", f"file:{self.folder}/hosts", "--min-np", 3, "--max-np", 4,
                            "--preload", "torch", "--blacklist-cooldown-range", "2s", "3s", "--settle", "100ms")
        with open(f"/proc/{before[3]}/stat", encoding="ascii") as file:
            agent = int(file.read().rsplit(") ", 1)[1].split()[1])
        at = time.time()
        harness.kill(agent)
        first = self.await_world(2, 3)
        told = self.told(2)
        self.assertEqual(self.pids(2), before[:3])
        self.assertLess(max(first) - at, SOON)
        print(f"kill -9 to the new world of 3: {max(when for _, _, _, when in told) - at:.3f} s, to its first step: "
              f"{max(first) - at:.3f} s")
        self.await_world(3, 4)
        self.assertEqual(self.pids(3)[:3], before[:3])
        self.assertGreaterEqual(self.told(3)[0][1], told[0][1], "steps were lost by growing")
        self.list_hosts("alpha:3\n!beta\n")
        self.await_world(4, 3)
        self.assertEqual(self.pids(4), before[:3])
        self.assertGreaterEqual(self.told(4)[0][1], self.told(3)[0][1] + 1, "steps were lost by shrinking")
        self.end(3, "beta lost", "generation 2: 3 ranks .* state kept by 3 survivors", "generation 3: 4 ranks .* beta came",
                 "generation 4: 3 ranks .* beta left")

    def test_a_rank_that_dies_while_the_others_connect_to_it(self):
        program = harness.without_blanks(harness.ROOT + "/tests/interop/programs/torch_dies_connecting.py")
        words = ("-np", 4, "--min-np", 2, "--max-restarts", 3, "--hang-timeout", "8s", *HERE, *SETTINGS)
        done = self.assertEnds(self.run_job(*words, self.python, program, timeout=LONG), 0)
        self.assertSays(done, "generation 2: 3 ranks .* state kept by 3 survivors", "rank 0 on .* was killed by SIGKILL; the others go on",
                        "generation 3: [23] ranks .* state kept by 2 survivors")
        self.assertQuietOn(done, "did not join", "no sign of life", "no rank survived")
        self.assertEqual(done.out.count("from step 0"), 4, "only those of the first world begin there")

    def test_a_rank_that_is_stopped(self):
        before = self.begin("--min-np", 3, "--max-restarts", 3, *HERE, "--hang-timeout", "15s")
        os.kill(before[1], signal.SIGSTOP)
        self.job.wait_for("the others go on", stream="err", timeout=LONG)
        at = time.time()
        alone = self.await_survivors(3)
        self.assertEqual(self.pids(2), [before[0], before[2], before[3]])
        self.assertLess(alone - at, SOON)
        print(f"the verdict on a stopped rank to the new world of 3: {alone - at:.3f} s")
        self.await_world(3, 4)
        self.end(4, "no sign of life", "state kept by 3 survivors")

    def test_the_last_commit_is_what_a_failure_leads_back_to(self):
        before = self.begin("--min-np", 2, "--max-restarts", 3, *HERE, program=("commits",), size=3)
        self.job.wait_until(lambda: time.time() > self.told(1)[0][3] + 1, "some steps are done")
        harness.kill(before[0])
        self.await_survivors(2)
        steps = {step for _, step, _, _ in self.told(2)}
        self.assertEqual(len(steps), 1)
        self.assertEqual(steps.pop() % 5, 0)
        self.await_world(3, 3)
        self.end(3, "state kept by 2 survivors")

    def test_ranks_ask_soon_whether_hosts_change_wherever_a_step_has_its_pause(self):
        # The first step of a world is told of without the pause behind it.
        script = ("from trainrun.torch._state import steps_until_look as until\n"
                  "gap, took, asked = 1, 0.01, []\n"
                  "for _ in range(6):\n"
                  "    gap = until(gap, took, gap)\n"
                  "    took = gap * PAUSE\n"
                  "    asked.append(gap)\n"
                  "print(*asked)\n")
        for pause, expected in (("0.3", "2 1 1 1 1 1"), ("0.01", "2 4 8 16 25 25"), ("0.0001", "2 4 8 16 32 64")):
            with self.subTest(pause=pause):
                done = self.run_job("-np", 1, *SETTINGS, self.python, "-c", script.replace("PAUSE", pause), timeout=LONG)
                self.assertEqual(self.assertEnds(done, 0).out.strip(), expected)

    def test_what_cannot_be_formed_anew_is_refused_by_name(self):
        head = "import torch, torch.distributed as dist; from torch import nn; from trainrun.torch import elastic; "
        for script, words in (
                ("elastic.init(); dist.new_group([0]); elastic.run(lambda state: 1, elastic.State(x=1))",
                 r"a process group besides the default one \(new_group, DeviceMesh, FSDP"),
                ("elastic.init('cpu:gloo,cuda:nccl')", "works with the backend \"gloo\", not 'cpu:gloo,cuda:nccl'"),
                ("elastic.init(); elastic.State(model=nn.parallel.DistributedDataParallel(nn.Linear(2, 2)))",
                 "model is a DistributedDataParallel, which does not outlive its world: give State the module itself"),
                ("elastic.init(); elastic.State(steps=500)", "no part of a State can be called 'steps'"),
                ("elastic.init(); elastic.State(live=3)", "live is True or False, not 3"),
                ("elastic.init(); elastic.run(lambda state: 1, elastic.State(odd={'a': [1, object()]}))",
                 r"state\['odd'\]\['a'\]\[1\] is a builtins.object, which cannot travel"),
                ("dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1); elastic.init()",
                 "has a process group already")):
            with self.subTest(script=script):
                done = self.assertEnds(self.run_job("-np", 1, *SETTINGS, self.python, "-c", head + script, timeout=LONG), 1)
                self.assertRegex(done.err, words)

    def test_what_a_state_keeps_and_refuses(self):
        program = harness.without_blanks(harness.ROOT + "/tests/interop/programs/torch_elastic_states.py")
        done = self.assertEnds(self.run_job("-np", 2, *HERE, *SETTINGS, self.python, program, "refuses", timeout=LONG), 0)
        self.assertEqual(len(re.findall(r"rank \d refuses", done.out)), 2, done)
        for verb, least in (("resets", 3), ("differs", 2), ("scales", 2)):
            with self.subTest(verb=verb):
                done = self.assertEnds(self.run_job("-np", 3, *HERE, "--min-np", least, "--max-restarts", 1, *SETTINGS, self.python, program, verb,
                                                    timeout=LONG), 0)
                said = re.findall(r"rank \d has (.*)", done.out)
                self.assertGreaterEqual(len(said), least, done)
                self.assertEqual(len(set(said)), 1, done)


if __name__ == "__main__":
    harness.main()
