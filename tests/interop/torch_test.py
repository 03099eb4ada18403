#!/usr/bin/python3
"""PyTorch of today and what is built on it, on one host and on two, killed, resumed, without a word about the launcher."""
import json
import os
import re
import signal
import subprocess
import tempfile

from interop import LONG, InteropTest, harness
from environments import python_with, versions

PACKAGES = ("torch", "numpy", "lightning", "accelerate", "transformers")
WORKERS = harness.ROOT + "/tests/workers/"
LIST_OPTIONS = """
import json
from torch.distributed.run import get_args_parser
print(json.dumps([(a.option_strings, a.nargs == 0, a.choices and list(a.choices)) for a in get_args_parser()._actions
                  if a.option_strings and a.dest != "help"]))
"""
LINE = r"rank (\d) of 4: 2\.00 x \+ 1\.00"


class Frameworks(InteropTest):
    @classmethod
    def setUpClass(cls):
        cls.python = python_with("torch", *PACKAGES)
        print("with", *versions(cls.python, *PACKAGES))
        super().setUpClass()

    def learns_the_line(self, program):
        self.in_every_world("-x", "OMP_NUM_THREADS=1", python=self.python, program=program, pattern=LINE)

    def test_lightning(self):
        self.learns_the_line("torch_lightning.py")

    def test_accelerate(self):
        self.learns_the_line("torch_accelerate.py")

    def test_trainer_of_transformers_goes_on_from_its_checkpoint(self):
        words = ("-H", "node1:1,node2:1", self.python, self.program("torch_hf_trainer.py"), self.folder + "/run")
        first = self.assertEnds(self.run_job(*words, timeout=LONG), 0)
        self.assertEqual(len(re.findall(r"of 2: (?:1\.9\d|2\.00) x .*, from None", first.out)), 2, first)
        second = self.assertEnds(self.run_job(*words, timeout=LONG), 0)
        self.assertEqual(len(re.findall(r"from checkpoint-\d+", second.out)), 2, second)

    def test_accelerate_that_does_not_ask_for_the_cpu_is_told_of(self):
        """Whatever its release does about it, each rank stays alone where there is no GPU; the cure that is told helps."""
        with open(self.program("torch_accelerate.py"), encoding="utf-8") as file:
            text = file.read().replace("(cpu=True)", "()")
        script = self.folder + "/unasked.py"
        with open(script, "w", encoding="utf-8") as file:
            file.write(text)
        told = r"does not ask for the CPU, .* \(try: -x ACCELERATE_USE_CPU=true, "
        words = ("-H", "node1:2,node2:2", "-x", "OMP_NUM_THREADS=1")
        done = self.assertEnds(self.run_job(*words, self.python, script, timeout=LONG), 0)
        self.assertEqual(done.out.count("rank 0 of 1"), 4, done)
        self.assertSays(done, told)
        done = self.assertEnds(self.run_job(*words, "-x", "ACCELERATE_USE_CPU=true", self.python, script, timeout=LONG), 0)
        self.assertEqual(sorted(re.findall(LINE, done.out)), ["0", "1", "2", "3"], done)
        self.assertQuietOn(done, told)

    def test_fsdp_is_resumed_on_fewer_ranks(self):
        words = (self.python, self.program("torch_fsdp.py"), self.folder + "/checkpoint")
        self.assertEnds(self.run_job("-H", "node1:2,node2:2", *words, 20, timeout=LONG), 0)
        done = self.assertEnds(self.run_job("-H", "node1,node2", *words, 60, timeout=LONG), 0)
        losses = re.findall(r"rank \d of 2: epochs 20 to 60, loss ([\d.]+)", done.out)
        self.assertEqual(len(losses), 2, done)
        self.assertLess(float(losses[0]), 0.05, done)

    def outlives_a_killed_rank(self, example, resumed, *words):
        """Trains the digits on two hosts, where a rank is killed."""
        train = harness.without_blanks(os.path.join(harness.ROOT, "examples", example, "train.py"))
        data = harness.without_blanks(os.path.join(harness.ROOT, "examples/digits/data/digits.csv.gz"))
        job = self.start("--max-restarts", 1, "-H", "node1:1,node2:1", "-x", "OMP_NUM_THREADS=1", self.python, train, "--epochs", 40, "--data", data, *words)
        job.wait_for(r"epoch +3/", timeout=LONG)
        victim = next(process for process in self.new("node2") if process.command.startswith(self.python))
        os.kill(victim.outer, signal.SIGKILL)
        job.wait_for(resumed, timeout=LONG)
        done = self.assertEnds(job.wait(LONG), 0)
        self.assertGreaterEqual(float(re.search(r"held-out accuracy ([\d.]+)", done.out).group(1)), 95)

    def test_ddp_outlives_a_killed_rank(self):
        self.outlives_a_killed_rank("torch_ddp", "going on after epoch .* on 2 ranks", "--checkpoint", self.folder + "/digits.pt")

    def test_lightning_outlives_a_killed_rank(self):
        self.outlives_a_killed_rank("lightning", r"going on from \S+/last\.ckpt", "--checkpoints", self.folder + "/digits")

    def test_every_option_of_torchrun_is_known(self):
        """Works, has no effect, or is refused with what to write instead: as this release itself lists them."""
        listed = subprocess.run([self.python, "-c", LIST_OPTIONS], capture_output=True, text=True, check=True, timeout=LONG)
        options = json.loads(listed.stdout)
        self.assertGreater(len(options), 25)
        for names, switch, choices in options:
            for name in names:
                words = [name] if switch else [name, (choices or ["0"])[0]]
                done = self.run_job("--dry-run", *words, "/bin/true", timeout=LONG)
                self.assertQuietOn(done, "did you mean", "lists every option")

    def test_the_launchers_store(self):
        worker = harness.without_blanks(WORKERS + "torch_worker.py")
        words = ("--torch-store", "trainrun", "-x", "OMP_NUM_THREADS=1", self.python, worker)
        done = self.assertEnds(self.run_job("-H", "node1:2,node2:2", *words, "sum", timeout=LONG), 0)
        met = re.findall(r"rank (\d) of 4: sum 4, store True at 127\.0\.0\.1", done.out)
        self.assertEqual(sorted(met), ["0", "1", "2", "3"], done)
        job = self.start("--max-restarts", 1, "-H", "node1:1,node2:1", *words, "rounds", 60)
        lines = job.wait_for(r"^\[0\] round 2: 2 ranks, pid \d+", timeout=LONG)
        self.on("node1", "kill -9 " + lines[0].split()[-1])
        done = self.assertEnds(job.wait(LONG), 0)
        self.assertEqual(done.out.count("rank 0 of 2: sum 2, store True"), 1, done)
        self.assertSays(done, "generation 2: 2 ranks on 2 hosts")

    def test_forked_ranks(self):
        """With and without the launcher's store: three DDP steps, a kill -9, and three again."""
        steps = harness.without_blanks(WORKERS + "torch_steps.py")
        for store in ((), ("--torch-store", "trainrun")):
            with self.subTest(store=store):
                folder = tempfile.mkdtemp(dir=self.folder)
                done = self.run_job("-H", "node1:2,node2:2", "--max-restarts", 1, "--preload", "torch", *store, "-x",
                                    "OMP_NUM_THREADS=1", self.python, steps, folder, timeout=LONG)
                self.assertEnds(done, 0)
                self.assertEqual(done.out.count("ahead True"), 8, done)
                self.assertSays(done, "generation 2: 4 ranks on 2 hosts")
                self.assertQuietOn(done, "--preload:")


if __name__ == "__main__":
    harness.main()
