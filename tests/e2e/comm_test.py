"""Programs on `comm` under trainrun, on this host: who is to blame when one of their ranks goes."""
import os
import subprocess
import unittest

from harness import BUILD, ROOT, TRAINRUN, LocalTest, main, without_blanks

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

    def test_where_failures_are_ignored_the_others_hear_too_how_the_rank_ended(self):
        done = self.run_job("-np", 3, "--on-failure", "ignore", COMM_WORKER, "unwind")
        self.assertEqual(done.out.count("failed PeerLost culprit 0"), 2, done)
        self.assertEqual(done.out.count("how exited with code 3"), 2, done)

    def test_a_rank_that_ends_with_0_while_others_wait_for_it_has_left_them(self):
        for way in ("early", "exit"):
            for done in self.over_each_backend(way, 3):
                self.assertRegex(done.out, r"allreduce\(sum of 1 i32\) as operation 1: rank 0 on \S+ has left the world")
                self.assertIn("failed Aborted culprit 0", done.out)
        for done in self.over_each_backend("group_early", 3):
            self.assertRegex(done.out, r"making a group of ranks 0-3: rank 0 on \S+ has left the world")
            self.assertIn("failed Aborted culprit 0", done.out)

    def test_a_rank_that_ends_with_0_before_it_joins_keeps_nobody_waiting(self):
        program = ("sh", "-c", '[ $RANK != 1 ] || exit 0; exec "$@"', "sh", COMM_WORKER, "ops")
        done = self.run_job("-np", 3, "--on-failure", "ignore", *program)
        self.assertEqual(done.out.count("failed PeerLost culprit 1"), 2, done)
        self.assertEqual(done.out.count("was lost: it exited with code 0 before it joined"), 2, done)

    def test_a_limit_for_files_that_forbids_shared_memory_ends_no_rank(self):
        done = self.run_job("-np", 2, "sh", "-c", 'ulimit -f 100 && exec "$@"', "sh", COMM_WORKER, "ops")
        self.assertSays(self.assertEnds(done, 0), r"comm uses TCP on this host, since its ranks cannot share memory: .*File too large")
        self.assertEqual(done.out.count("over gloo"), 2, done)

    def test_who_has_not_come_to_an_operation_is_named_before_the_hang_is_over(self):
        for backend in ("shm", "gloo"):
            with self.subTest(backend=backend):
                done = self.run_job("-v", "-np", 4, "--hang-timeout", "4s", "--grace", 1, COMM_WORKER, "stall",
                                    env={"TRAINRUN_COMM_BACKEND": backend})
                self.assertSays(self.assertEnds(done, 124), "rank 0 is connected over " + backend,
                                r"rank 3 is 1 operation behind: ranks 0-2 have waited \S+ s in allreduce number 3 "
                                r"\(4 MiB\)")
                self.assertEqual(done.err.count("operation behind"), 1, done)

    def test_how_bytes_move_is_chosen_by_a_flag(self):
        for backend in ("shm", "gloo"):
            done = self.run_job("-np", 2, "--backend", backend, COMM_WORKER, "ops", env={"TRAINRUN_COMM_BACKEND": "none"})
            self.assertEqual(self.assertEnds(done, 0).out.count("over " + backend), 2, done)
        done = self.run_job("-np", 2, "--backend", "hier", COMM_WORKER, "ops")
        self.assertSays(self.assertEnds(done, 2), "--backend.*auto, shm, gloo")

    def test_who_waits_for_members_of_a_group_is_told_before_the_hang_is_over(self):
        done = self.run_job("-np", 4, "--hang-timeout", "4s", "--grace", 1, COMM_WORKER, "group_late")
        self.assertSays(self.assertEnds(done, 124),
                        r"1 of 2 members has not come: rank 0 has waited \S+ s in creation of a group among ranks 0,2",
                        r"rank 0 on \S+: .*, in 'creation of a group among ranks 0,2', ")

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


class Package(LocalTest):
    def test_a_library_of_another_version_is_named(self):
        done = self.run_job("-np", 1, "-x", "TRAINRUN_COMM_LIBRARY=libc.so.6", "-x", "PYTHONPATH=" + without_blanks(ROOT) + "/comm/python",
                            "/usr/bin/python3", "-c", "import trainrun")
        self.assertEnds(done, 1)
        self.assertSays(done, "ImportError: libc.so.6 has no trc_world_init: it is of another version than this package in")


def can_unshare():
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False).returncode == 0


@unittest.skipUnless(can_unshare(), "needs root, and mount and PID namespaces")
class Containers(LocalTest):
    # Each rank counts processes for itself: what another says of its /proc/PID means nothing.
    APART = ("unshare", "--pid", "--fork", "--kill-child")

    def ops(self, shm, *rank):
        """Two ranks, where /dev/shm is mounted with these options; `rank` comes before each one's command."""
        mount = f'mount -t tmpfs -o {shm} tmpfs /dev/shm && exec "$@"'
        done = self.run_job("--mount", "sh", "-c", mount, "sh", TRAINRUN, "-np", 2, *rank, COMM_WORKER, "ops", program="unshare")
        return self.assertEnds(done, 0)

    def over(self, done, backend):
        self.assertEqual(done.out.count(f"over {backend}"), 2, done.out + done.err)

    def test_a_small_dev_shm_binds_nobody(self):
        done = self.ops("size=64k")
        self.over(done, "shm")
        self.assertQuietOn(done, "cannot share")

    def test_ranks_with_process_numbers_of_their_own_share_a_file(self):
        self.over(self.ops("size=64m", *self.APART), "shm")

    def test_a_file_takes_no_more_than_it_has_from_the_beginning(self):
        self.over(self.ops("size=2m", *self.APART), "shm")

    def test_without_a_place_for_memory_tcp_is_taken_and_the_reason_said(self):
        for options, why in (("size=64k", "No space left on device"), ("size=64m,ro", "Read-only file system")):
            with self.subTest(options=options):
                done = self.ops(options, *self.APART)
                self.over(done, "gloo")
                self.assertSays(done, rf"comm uses TCP on this host, since its ranks cannot share memory: .*{why}")


if __name__ == "__main__":
    main()
