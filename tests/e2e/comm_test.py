"""Programs on `comm` under trainrun, on this host: who is to blame when one of their ranks goes."""
import os

from harness import BUILD, LocalTest, main, without_blanks

COMM_WORKER = without_blanks(os.environ.get("TRAINRUN_COMM_WORKER", BUILD + "/comm_worker"))


class Comm(LocalTest):
    def over_each_backend(self, mode, rc):
        for backend in ("shm", "gloo"):
            with self.subTest(backend=backend):
                yield self.assertEnds(self.run_job("-np", 4, COMM_WORKER, mode, env={"TRAINRUN_COMM_BACKEND": backend}), rc)

    def test_a_rank_that_gives_up_is_the_cause_not_those_that_wait_for_it(self):
        for done in self.over_each_backend("unwind", 3):
            self.assertSays(done, r"rank 0 on \S+ exited with code 3")
            self.assertQuietOn(done, "has left the world")

    def test_a_rank_that_ends_with_0_while_others_wait_for_it_has_left_them(self):
        for done in self.over_each_backend("early", 3):
            self.assertRegex(done.out, r"allreduce\(sum of 1 i32\) as operation 1: rank 0 on \S+ has left the world")

    def test_a_world_that_gets_on_is_restarted_at_once_unless_it_falls_again_and_again(self):
        for way, mode in (("restart-world", "reduces"), ("in-place", "commits")):
            with self.subTest(mode=mode):
                job = ("-np", 2, "--on-failure", way, "--max-restarts", 9, "--grace", 5, COMM_WORKER, mode)
                done = self.assertEnds(self.run_job(*job, 3), 0)
                self.assertSays(done, "4 generations; 3 restarts")
                self.assertQuietOn(done, "before the next start")
                done = self.assertEnds(self.run_job(*job, 4), 0)
                self.assertRegex(done.err, r"(?s)generation 4: .*waiting 1\.0 s before the next start\n.*generation 5: ")
                self.assertEqual(done.err.count("before the next start"), 1, done)


if __name__ == "__main__":
    main()
