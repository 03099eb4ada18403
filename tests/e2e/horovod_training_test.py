"""Trainings of Horovod on trainrun's collectives: DistributedOptimizer, and programs of Horovod with one line changed."""
import json
import os
import re
import signal

import harness
from torch_jobs import LONG, WORKERS, TorchJobs

PROGRAMS = harness.ROOT + "/tests/interop/programs/"  # which run with the real Horovod there
WORLD = r"world of (\d): rank (\d), \d of \d here, \d of \d across, from step (\d+), pid (\d+)"


class HorovodTraining(TorchJobs):
    def changed(self, name):
        """A program of Horovod's with one line changed."""
        with open(PROGRAMS + name, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count("import horovod.torch as hvd\n"), 1)
        path = self.folder + "/" + name
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("import horovod.torch as hvd\n", "import trainrun.torch as hvd\n"))
        return path

    def right(self, ranks, verb, backend="auto", over="shm", program="horovod_optimizer.py"):
        with self.subTest(verb=verb, over=over):
            self.all_right(ranks, program, verb, backend, over)

    def test_parameters_are_those_of_one_process(self):
        for verb in ("training", "own_compressor", "passes", "clipping", "state"):
            self.right(2, verb)
        self.right(3, "training", backend="gloo", over="gloo")

    def test_ranks_whose_gradients_come_in_different_orders(self):
        self.right(3, "unused")

    def test_what_programs_do_with_gradients(self):
        for verb in ("moved", "replaced", "forgotten", "added", "discarded"):
            self.right(2, verb, program="horovod_gradients.py")

    def test_some_ranks_alone(self):
        self.right(3, "in_a_set")

    def test_ranks_with_less_data_join(self):
        self.right(3, "joined")
        self.right(3, "joined", backend="gloo", over="gloo")
        self.right(2, "join_and_more")

    def test_what_is_not_right_is_named(self):
        self.right(2, "checks")

    def test_a_program_of_horovod_with_one_line_changed(self):
        done = self.assertEnds(self.program(3, self.changed("horovod_train.py"), 2, 3), 0)
        for rank in range(3):
            said = rf"rank {rank} of 3, {rank} of 3 here, 0 of 1 across: sum 3, set {0 if rank == 1 else 2}, 2\.00 x \+ 1\.00"
            self.assertEqual(len(re.findall(said, done.out)), 2, done)

    def test_the_example_learns(self):
        for options in ((), ("--fp16-allreduce", "--gradient-predivide-factor", "2")):
            done = self.assertEnds(self.program(2, harness.ROOT + "/examples/torch_horovod/train.py", "--epochs", 8, *options), 0)
            accuracies = re.findall(r"epoch +\d+  held-out loss [\d.]+  accuracy ([\d.]+) %", done.out)
            self.assertEqual(len(accuracies), 8, done)
            self.assertGreaterEqual(float(accuracies[-1]), 93.0, done)

    def test_a_timeline(self):
        path = self.folder + "/timeline.json"
        self.assertEnds(self.program(2, self.changed("horovod_train.py"), 1, 2, options=("-x", "HOROVOD_TIMELINE=" + path)), 0)
        spans = []
        for name in (path, self.folder + "/timeline.1.json"):
            with open(name, encoding="utf-8") as file:
                events = json.load(file)
            names = {event.get("name") for event in events}
            self.assertLessEqual({"process_name", "QUEUE", "ALLREDUCE", "SHM_ALLREDUCE", "BROADCAST"}, names)
            tensors = {event["args"]["name"]: event["pid"] for event in events if event.get("name") == "process_name"}
            gradients = [event for event in events if event.get("pid") == tensors["bias and 1 more"] and event["name"] == "SHM_ALLREDUCE"]
            spans.append([(event["ts"], event["ts"] + event["dur"]) for event in gradients])
        # What both ranks did together lies together: neither ended before the other had begun.
        self.assertEqual([len(one) for one in spans], [400, 400])
        for (begun, ended), (others_begun, others_ended) in zip(*map(sorted, spans)):
            self.assertLess(begun, others_ended)
            self.assertLess(others_begun, ended)

    def await_world(self, job, number, size):
        """Of its ranks: the step from which they go on, and the pid; and until they have trained."""
        job.wait_for(WORLD, count=number * size, timeout=LONG)
        met = re.findall(WORLD, job.out)[(number - 1) * size:number * size]
        self.assertEqual(sorted(line[:2] for line in met), [(str(size), str(rank)) for rank in range(size)])
        self.assertEqual(len({line[2] for line in met}), 1, "ranks begin at different steps")
        job.wait_for(r"step \d+", count=len(re.findall(r"\bstep \d+$", job.out, re.MULTILINE)) + 5, timeout=LONG)
        return {int(rank): (int(step), int(pid)) for _, rank, step, pid in met}

    def test_an_elastic_program_of_horovod_with_one_line_changed(self):
        job = self.start(*self.words(3, self.changed("horovod_elastic.py"), self.folder, 3, options=("--max-restarts", 3)))
        first = self.await_world(job, 1, 3)
        os.kill(first[1][1], signal.SIGKILL)
        second = self.await_world(job, 2, 3)
        self.assertEqual(len({pid for _, pid in first.values()} & {pid for _, pid in second.values()}), 2, "survivors keep their processes")
        self.assertGreater(second[0][0], 0, "what was committed is kept")
        os.kill(second[0][1], signal.SIGKILL)
        third = self.await_world(job, 3, 3)
        self.assertGreaterEqual(third[0][0], second[0][0])
        with open(self.folder + "/end", "w", encoding="ascii"):
            pass
        done = self.assertEnds(job.wait(LONG), 0)
        self.assertEqual(len(re.findall(r"end of rank . of 3: 2\.00 x \+ 1\.00", done.out)), 3, done)
        self.assertEqual(len(re.findall(r"reset: rank . of 3", done.out)), 4, done)
        self.assertSays(done, "state kept by 2 survivors", "2 restarts")

    def test_ranks_of_an_elastic_program_that_do_not_all_do_the_same(self):
        options = ("--min-np", 2, "--max-restarts", 2)
        done = self.assertEnds(self.program(3, WORKERS + "horovod_rejoins.py", "joins", options=(*options, "--start-timeout", "3s")), 0)
        self.assertEqual(len(re.findall(r"rank \d of [23] joined", done.out)), int(re.search(r"of (\d) joined", done.out)[1]), done)
        done = self.assertEnds(self.program(3, WORKERS + "horovod_rejoins.py", "gives_up", options=options), 0)
        self.assertEqual(len(re.findall(r"rank \d ends at 6, a name like another", done.out)), 3, done)
        self.assertSays(done, "rank 0 on .* aborted: the program gave up this world; all ranks go on", "1 restart")

    def hosts(self, line):
        """What the discovery says from now on."""
        with open(self.folder + "/hosts.new", "w", encoding="ascii") as file:
            file.write(line + "\n")
        os.rename(self.folder + "/hosts.new", self.folder + "/hosts")

    def test_an_elastic_program_grows_at_a_commit(self):
        script = self.folder + "/discover.sh"
        with open(script, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\ncat {self.folder}/hosts\n")
        os.chmod(script, 0o755)
        self.hosts("one:2")
        job = self.start(*self.words(2, self.changed("horovod_elastic.py"), self.folder, 3, options=(
            "--host-discovery-script", script, "--min-np", 2, "--max-np", 3, "--settle", "100ms", "--transport", "local")))
        first = self.await_world(job, 1, 2)
        self.hosts("one:3")
        job.wait_for(r"world of 3: rank", count=3, timeout=LONG)
        self.assertEqual(len(re.findall(r"reset: rank [01] of 3", job.out)), 2, "those that were there were told at a commit")
        met = {int(rank): (int(step), int(pid)) for size, rank, step, pid in re.findall(WORLD, job.out) if size == "3"}
        self.assertEqual([met[rank][1] for rank in (0, 1)], [first[rank][1] for rank in (0, 1)])
        self.assertGreater(met[2][0], 0, "who is new has what was trained")
        with open(self.folder + "/end", "w", encoding="ascii"):
            pass
        done = self.assertEnds(job.wait(LONG), 0)
        self.assertEqual(len(re.findall(r"end of rank . of 3: 2\.00 x \+ 1\.00", done.out)), 3, done)


if __name__ == "__main__":
    harness.main()
