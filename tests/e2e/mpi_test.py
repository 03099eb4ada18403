#!/usr/bin/python3
"""MPI programs of the MPICH family on this host: they find each other by PMI-1, and end as MPI programs should."""
import os
import re
import signal
import subprocess

import harness
from harness import TRAINRUN, WORKER, told
from mpi import CLIENT, MpiTest, mpich, waiting


class Meeting(MpiTest):
    def test_ranks_meet_without_any_flag(self):
        self.assertEnds(self.run_job("-np", 4, CLIENT, "meet", 3), 0)

    def test_many_ranks_meet(self):
        self.assertEnds(self.run_job("-np", 64, "--oversubscribe", CLIENT, "meet"), 0)

    def test_several_programs_are_one_world(self):
        self.assertEnds(self.run_job("-np", 1, CLIENT, "meet", ":", "-np", 2, CLIENT, "meet"), 0)

    def test_compat_none_offers_nothing(self):
        done = self.assertEnds(self.run_job("-np", 2, "--compat", "none", CLIENT), 5)
        self.assertIn("no PMI", done.out)
        value = told(self.assertEnds(self.run_job("-np", 1, "--compat", "none", WORKER, "env"), 0))[0]
        self.assertEqual([name for name in value["env"] if name.startswith(("PMI", "MPI"))], [])
        self.assertNotIn(3, value["fds"])

    def test_what_another_launcher_said_to_us_is_not_handed_on(self):
        others = {"PMI_PORT": "h:1", "PMI_ID": "7", "PMIX_RANK": "7", "PMI_RANK": "7", "OMPI_COMM_WORLD_RANK": "7",
                  "SLURM_PROCID": "7", "SLURM_STEP_ID": "0", "I_MPI_PMI_LIBRARY": "/opt/libpmi.so", "HYDI_CONTROL_FD": "9",
                  "PBS_TASKNUM": "7", "LSF_PM_TASKID": "7", "MPIR_CVAR_PMI_VERSION": "x"}
        env = told(self.assertEnds(self.run_job("-np", 1, WORKER, "env", env=others), 0))[0]["env"]
        self.assertEqual({name: env[name] for name in others if name in env},
                         {"PMI_RANK": "0", "MPIR_CVAR_PMI_VERSION": "1"})

    def test_what_is_not_offered_is_refused_in_words(self):
        for line, words in (("cmd=publish_name service=s port=p", "MPI_Publish_name"), ("mcmd=spawn\nendcmd", "MPI_Comm_spawn")):
            done = self.assertEnds(self.run_job("-np", 2, CLIENT, "ask", line), 0)
            self.assertSays(done, f"rank [01] asked for {words}, which trainrun does not offer")
            self.assertEqual(done.err.count("does not offer"), 1, done)
            self.assertEqual(done.out.count("rc=-1 msg=trainrun_does_not_offer_"), 2, done)
        done = self.assertEnds(self.run_job("-np", 1, CLIENT, "ask", "cmd=init pmi_version=2 pmi_subversion=0"), 0)
        self.assertSays(done, "speaks PMI-2, and trainrun offers PMI-1: set MPIR_CVAR_PMI_VERSION=1")


class Ending(MpiTest):
    """Who waits for others never waits in vain, and the first cause is what is told."""

    def test_one_is_killed_in_the_barrier(self):
        job = self.start("-np", 4, CLIENT, "first-without", 0)
        pids = waiting(job, 3, 1)
        os.kill(pids[2], signal.SIGKILL)
        self.assertSays(self.assertEnds(job.wait(), 137), "rank 2 on .* was killed by SIGKILL", "then +[0-9].*(ended after SIGTERM|failed too)")

    def test_one_is_killed_before_init(self):
        job = self.start("-np", 4, CLIENT, "first-without", 1)
        os.kill(waiting(job, 3, 1)[1], signal.SIGKILL)
        self.assertSays(self.assertEnds(job.wait(), 137), "rank 1 on .* was killed by SIGKILL", "then +[0-9].*(ended after SIGTERM|failed too)")

    def test_one_is_killed_while_the_others_finalize(self):
        job = self.start("-np", 4, CLIENT, "last-without", 3)
        os.kill(waiting(job, 3, 1)[3], signal.SIGKILL)
        self.assertSays(self.assertEnds(job.wait(), 137), "rank 3 on .* was killed by SIGKILL", "then +[0-9].*(ended after SIGTERM|failed too)")

    def test_where_failures_are_ignored_who_waits_is_told_and_the_others_go_on(self):
        job = self.start("-np", 4, "--on-failure", "ignore", CLIENT, "first-without", 0)
        pids = waiting(job, 3, 1)
        os.kill(pids[2], signal.SIGKILL)
        job.wait_for("the job goes on, 1 of 4 ranks is left", stream="err")  # those in the barrier were told
        os.kill(pids[0], signal.SIGKILL)
        done = self.assertEnds(job.wait(), 137)
        self.assertSays(done, r"rank 2 on \S+ was killed by SIGKILL: the job goes on, 3 of 4 ranks are left")
        script = "test $RANK = 1 && kill -9 $$; read go <&7; echo done"
        gate = os.path.join(self.folder, "gate")
        os.mkfifo(gate)
        job = self.start("-np", 3, "--on-failure", "ignore", "sh", "-c", f"exec 7<{gate}; {script}")
        go = os.open(gate, os.O_RDWR)  # for both ends: a rank may come to it as late as it likes
        self.addCleanup(os.close, go)
        job.wait_for("2 of 3 ranks are left", stream="err")
        os.write(go, b"go\ngo\n")
        done = self.assertEnds(job.wait(), 0)
        self.assertEqual(len(re.findall("done", done.out)), 2, done)

    def test_one_that_leaves_before_init_is_to_blame(self):
        job = self.start("-np", 3, CLIENT, "leave", 0, feed=b"go\n")  # rank 0 has the stdin: it goes at once
        done = self.assertEnds(job.wait(), 1)
        self.assertSays(done, "rank 0 on .* exited with code 0 while other ranks waited for it in MPI", "--compat none")

    def test_one_that_leaves_without_finalize_has_failed(self):
        done = self.assertEnds(self.run_job("-np", 3, CLIENT, "desert", 1), 1)
        self.assertSays(done, "rank 1 on .* exited with code 0 within MPI: it had called MPI_Init, and not MPI_Finalize")

    def test_programs_that_are_no_mpi_end_as_ever(self):
        self.assertEnds(self.run_job("-np", 3, WORKER, "exit", 0), 0)
        self.assertEnds(self.run_job("-np", 3, "sh", "-c", "test $RANK = 1 && exit 0; exit 0"), 0)


class Mpich(MpiTest):
    def test_conformance(self):
        done = self.assertEnds(self.run_job("-np", 4, mpich(), "all", self.folder + "/file"), 0)
        self.assertEqual(len(re.findall(r"rank \d of 4: all is well", done.out)), 4, done)

    def test_abort_ends_the_job_with_its_code_and_its_words(self):
        done = self.assertEnds(self.run_job("-np", 3, mpich(), "abort", 1, 7), 7)
        self.assertSays(done, r"rank 1 on .* called MPI_Abort with code 7", "last words .*MPI_Abort", "2 ranks ended after SIGTERM")
        self.assertEnds(self.run_job("-np", 2, mpich(), "abort", 0, 0), 1)  # it is no success

    def test_a_crash_is_named_and_the_others_do_not_outlive_it(self):
        done = self.assertEnds(self.run_job("-np", 3, mpich(), "crash", 2), 139)
        self.assertSays(done, "rank 2 on .* was killed by SIGSEGV")

    def test_exit_without_finalize(self):
        done = self.assertEnds(self.run_job("-np", 3, mpich(), "exit", 1), 1)
        self.assertSays(done, "rank 1 on .* exited with code 0 within MPI")

    def test_an_error_of_the_program_ends_the_job(self):
        done = self.run_job("-np", 2, mpich(), "error")
        self.assertNotIn(done.rc, (0, 143), done)
        self.assertSays(done, "rank 1 on .* called MPI_Abort with code ", "Invalid rank")

    def test_an_elastic_world_starts_again(self):
        done = self.assertEnds(self.run_job("-np", 3, "--max-restarts", 2, mpich(), "once", 1), 0)
        self.assertSays(done, "was killed by SIGSEGV", "2 generations")
        self.assertEqual(len(re.findall(r"rank \d of 3: all is well", done.out)), 3, done)

    def test_compat_none_gives_worlds_of_one(self):
        done = self.assertEnds(self.run_job("-np", 2, "--compat", "none", mpich(), "hello"), 0)
        self.assertEqual(done.out.count("rank 0 of 1"), 2, done)


class Names(MpiTest):
    """Called by the name of another launcher."""

    def called(self, name, *words):
        link = os.path.join(self.home, name)
        if not os.path.islink(link):
            os.symlink(os.path.realpath(TRAINRUN), link)
        return self.run_job(*words, program=link)

    def tearDown(self):
        for name in os.listdir(self.home):
            if os.path.islink(os.path.join(self.home, name)):
                os.unlink(os.path.join(self.home, name))
        super().tearDown()

    def test_version_says_whose_programs_are_started(self):
        done = self.assertEnds(self.called("mpirun", "--version"), 0)
        self.assertRegex(done.out, "^trainrun .*\ncalled as mpirun: .*Open MPI.*MPICH")
        for name in ("mpiexec", "mpirun.hydra"):
            done = self.assertEnds(self.called(name, "--version"), 0)
            self.assertRegex(done.out, f"^trainrun .*\ncalled as {name}: .*MPICH.*HYDRA")
            self.assertNotIn("Open MPI", done.out)
        self.assertNotIn("MPICH", self.assertEnds(self.run_job("--version"), 0).out)

    def test_a_program_that_looks_for_a_launcher_of_its_own_is_refused_and_released(self):
        import socket
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(harness.DEADLINE)
            done = self.assertEnds(self.called("mpiexec", "-pmi_args", server.getsockname()[1], "default_interface",
                                               "default_key", os.getpid()), 2)
            self.assertSays(done, "-pmi_args", "trainrun -np 1")
            connection, _ = server.accept()
            self.assertEqual(connection.recv(100), b"")
            connection.close()
        self.assertEnds(self.called("mpiexec", "-pmi_args", 1, "default_interface", "default_key", 1), 2)


if __name__ == "__main__":
    harness.main()
