"""Horovod's operations on trainrun's collectives (import trainrun.torch as hvd)."""
import re

import harness
from torch_jobs import WORKERS, TorchJobs


class HorovodApi(TorchJobs):
    def right(self, ranks, verb, backend="auto", over="shm", program="horovod_api.py"):
        with self.subTest(verb=verb, over=over):
            self.all_right(ranks, program, verb, backend, over)

    def test_operations_in_memory(self):
        for verb in ("allreduces", "grouped", "moves", "order"):
            self.right(3, verb)

    def test_operations_over_gloo(self):
        for verb in ("allreduces", "grouped", "moves", "order"):
            self.right(2, verb, backend="gloo", over="gloo")

    def test_a_world_of_one(self):
        for verb in ("allreduces", "moves", "objects"):
            self.right(1, verb, over="local")

    def test_the_last_operations_are_known(self):
        self.right(2, "recent")

    def test_a_timeline_of_a_part(self):
        done = self.assertEnds(self.program(2, WORKERS + "horovod_api.py", "timeline", self.folder), 0)
        self.assertEqual(done.out.count("timeline is right"), 2, done)

    def test_a_timeline_that_cannot_be_written(self):
        done = self.assertEnds(self.program(2, WORKERS + "horovod_gradients.py", "full_disk", self.folder), 0)
        self.assertEqual(done.out.count("full_disk is right"), 2, done)

    def test_factors_and_handles(self):
        for verb in ("factors", "handles"):
            self.right(2, verb, program="horovod_gradients.py")

    def test_states_are_put_back_and_chosen(self):
        for verb in ("restored", "chosen"):
            self.right(2, verb, program="horovod_gradients.py")

    def test_place_and_process_sets(self):
        self.right(4, "place")
        self.right(4, "sets")
        self.right(3, "sets", backend="gloo", over="gloo")

    def test_gradients_flow_back(self):
        self.right(3, "gradients")
        self.right(3, "sync_batch_norm")

    def test_objects_and_parameters(self):
        self.right(3, "objects")
        self.right(2, "objects", program="horovod_gradients.py")
        self.right(2, "parameters")

    def test_a_sampler_knows_what_was_seen(self):
        self.right(2, "sampler")

    def test_what_is_left_out_is_refused(self):
        self.right(2, "refusals")

    def test_ranks_that_call_different_things_hear_of_it(self):
        self.right(2, "mismatch")

    def test_an_elastic_job_ends_by_it_and_by_no_lost_connection(self):
        options = ("--min-np", 1, "--max-restarts", 0)
        done = self.assertEnds(self.program(2, WORKERS + "horovod_api.py", "disagrees_in_place", options=options), 1)
        self.assertSays(done, r"^trainrun: rank \d on \S+ exited with code 1, ", "Mismatch: rank 0 called allreduce")
        self.assertNotIn("connection", done.err)

    def test_ranks_that_call_by_different_names_hear_of_it(self):
        for verb in ("allreduce", "waits", "broadcast", "gather", "object", "parameters"):
            backend = "gloo" if verb in ("allreduce", "gather") else "shm"
            with self.subTest(verb=verb, backend=backend):
                done = self.program(2, WORKERS + "horovod_names.py", verb, backend=backend)
                self.assertEqual(len(re.findall(r"rank [01] called (\w+)\([^)]*\) \[.*\] as operation 1, rank [01] called \1\([^)]*\) \[.*\] as operation 1",
                                                done.out)), 2, done)
        done = self.assertEnds(self.program(2, WORKERS + "horovod_names.py", "same"), 0)
        self.assertEqual(done.out.count("has heard nothing"), 2, done)

    def test_ranks_that_give_other_shapes_hear_of_it(self):
        for kind in ("allreduce", "in_place", "grouped", "broadcast", "parameters", "allgather", "grouped_allgather", "alltoall",
                     "reducescatter", "scaled", "scattered", "optimizer", "set"):
            with self.subTest(kind=kind):
                done = self.program(2, WORKERS + "horovod_names.py", "shapes", kind)
                self.assertEqual(sorted(re.findall(r"rank ([01]): .* \[.*\] as operation ", done.out)), ["0", "1"], done)

    def test_a_death_is_told_by_rank(self):
        done = self.program(3, WORKERS + "horovod_api.py", "dies")
        self.assertEqual(sorted(re.findall(r"rank (\d): lost rank 1", done.out)), ["0", "2"], done)


if __name__ == "__main__":
    harness.main()
