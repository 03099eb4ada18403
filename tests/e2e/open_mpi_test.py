#!/usr/bin/python3
"""Programs of Open MPI on this host: they find each other by PMIx, and end as MPI programs should."""
import os
import re
import signal

import harness
from harness import WORKER, told
from mpi import MpiTest
from open_mpi import client, open_mpi, waiting


class Meeting(MpiTest):
    def test_ranks_meet_without_any_flag(self):
        done = self.assertEnds(self.run_job("-np", 4, client(), "meet", 3), 0)
        self.assertQuietOn(done, "trainrun")  # above all not of the helper, as of something that ranks have left
        self.assertEnds(self.run_job("-np", 4, client(), "half", 2), 0)

    def test_several_programs_are_one_world(self):
        done = self.assertEnds(self.run_job("-np", 1, client(), "tell", ":", "-np", 2, client(), "tell"), 0)
        self.assertEqual(done.out.count("pmix.job.napps 2:32"), 3, done)
        self.assertEqual(sorted(re.findall(r"pmix.appnum (\d)", done.out)), ["0", "1", "1"], done)
        self.assertEqual(sorted(re.findall(r"pmix.apprank (\d)", done.out)), ["0", "0", "1"], done)

    def test_what_ranks_are_told_has_the_types_that_clients_want(self):
        done = self.assertEnds(self.run_job("-np", 2, client(), "tell"), 0)
        for line in ("pmix.job.size 2:32", "pmix.local.size 2:32", "pmix.num.nodes 1:32", "pmix.univ.size 2:32",
                     "pmix.lpeers '0,1'", "pmix.reinc 0:32", "pmix.cpuset none"):
            self.assertEqual(done.out.count(line), 2, (line, done))
        self.assertEqual(sorted(re.findall(r"pmix.lrank (\S+)", done.out)), ["0:16", "1:16"], done)
        self.assertRegex(done.out, r"namespace [0-9a-f]{16}\.g1\n")

    def test_a_bound_rank_is_told_where_it_is(self):
        done = self.assertEnds(self.run_job("-np", 1, "--bind-to", "core", client(), "tell"), 0)
        self.assertRegex(done.out, r"pmix.cpuset 'hwloc:\d")
        self.assertRegex(done.out, r"pmix.locstr '.*CR\d")

    def test_a_program_that_a_shell_starts_is_recognised(self):
        self.assertEnds(self.run_job("-np", 2, "sh", "-c", client() + " meet"), 0)

    def test_a_program_that_a_script_alone_knows_is_served(self):
        script = os.path.join(self.folder, "run.sh")
        for text in (f"EXE={client()}; exec $EXE meet", f'exec "$(dirname {client()})/pmix_client" meet',
                     f"cd {os.path.dirname(client())}; ./pmix_client meet"):
            with self.subTest(script=text):
                with open(script, "w", encoding="utf-8") as file:
                    file.write("#!/bin/bash\n" + text + "\n")
                os.chmod(script, 0o755)
                self.assertEnds(self.run_job("-np", 2, script), 0)

    def test_others_are_offered_nothing(self):
        for words in (("--compat", "none"), ("--compat", "mpich")):
            done = self.assertEnds(self.run_job("-np", 2, *words, client()), 5)
            self.assertIn("no PMIx", done.out)
        env = told(self.assertEnds(self.run_job("-np", 1, WORKER, "env"), 0))[0]["env"]
        self.assertEqual([name for name in env if name.startswith(("PMIX_", "OMPI_"))], [])
        self.assertEqual([name for name in env if name == "PMI_FD"], ["PMI_FD"])

    def test_compat_openmpi_serves_whatever_the_program_is(self):
        self_made = {"PMIX_RANK": "7", "PMIX_NAMESPACE": "x", "SLURM_STEP_ID": "0", "SLURM_PROCID": "7",
                     "OMPI_COMM_WORLD_RANK": "7", "PMIX_MCA_ptl_base_verbose": "0"}
        env = told(self.assertEnds(self.run_job("-np", 1, "--compat", "openmpi", WORKER, "env", env=self_made), 0))[0]["env"]
        self.assertEqual((env["PMIX_RANK"], env["OMPI_COMM_WORLD_RANK"], env["OMPI_COMM_WORLD_LOCAL_SIZE"]), ("0", "0", "1"))
        self.assertEqual((env["OMPI_MCA_schizo"], env["PMIX_GDS_MODULE"], env["PMIX_SECURITY_MODE"]),
                         ("^orte,slurm,alps,jsm,flux", "hash", "native"))
        self.assertRegex(env["PMIX_NAMESPACE"], r"^[0-9a-f]{16}\.g1$")
        self.assertEqual([name for name in env if name.startswith(("SLURM_", "PMI_"))], [])
        self.assertIn("PMIX_MCA_ptl_base_verbose", env)

    def test_under_mpiruns_name_an_interpreter_may_load_an_mpi_later(self):
        started = ("import os, sys; assert 'PMIX_NAMESPACE' in os.environ, sorted(os.environ)\n"
                   "os.execv(os.environ['CLIENT'], sys.argv)")
        words = ("-np", 2, "--oversubscribe", "-x", "CLIENT=" + client(), "/usr/bin/python3", "-c", started, "meet", 3)
        done = self.assertEnds(self.run_job("--compat-cli", "openmpi", *words), 0)
        self.assertQuietOn(done, "trainrun")
        self.assertIn("AssertionError", self.assertEnds(self.run_job(*words), 1).err)

    def test_under_the_name_of_either_launcher_a_compiled_program_may_run_one_that_it_reads_of(self):
        named = os.path.join(self.folder, "named")
        with open(named, "w", encoding="utf-8") as file:
            file.write(f"{client()} meet\n")
        for words in (("openmpi", "--oversubscribe"), ("hydra",)):
            done = self.run_job("--compat-cli", *words, "-n", 2, "xargs", "-a", named, "env")
            self.assertQuietOn(self.assertEnds(done, 0), "trainrun")

    def test_under_mpiruns_name_every_program_finds_its_variables_and_under_ours_who_names_them(self):
        shown = ("sh", "-c", "echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK")
        done = self.assertEnds(self.run_job("--compat-cli", "openmpi", "-np", 2, "--oversubscribe", *shown), 0)
        self.assertEqual(sorted(done.out.splitlines()), ["0/2 0", "1/2 1"], done)
        self.assertEqual(self.assertEnds(self.run_job("--tag", "none", "-np", 2, *shown), 0).out.count("/2"), 2)
        done = self.assertEnds(self.run_job("-np", 2, "env"), 0)
        self.assertNotIn("OMPI_COMM_WORLD_", done.out, "of a program that does not ask for them")

    def test_a_library_that_is_not_there(self):
        done = self.assertEnds(self.run_job("-np", 1, "--pmix-lib", "/nowhere/libpmix.so.2", client()), 2)
        self.assertSays(done, "--pmix-lib, '?/nowhere/libpmix.so.2'?, cannot be read: No such file")

    def test_what_is_not_offered_is_refused_in_words(self):
        done = self.assertEnds(self.run_job("-np", 2, client(), "publish"), 0)
        self.assertSays(done, "rank [01] asked for MPI_Publish_name, which trainrun does not offer")
        self.assertEqual(done.err.count("does not offer"), 1, done)

    def test_what_a_rank_logs_is_shown_as_its_own(self):
        done = self.assertEnds(self.run_job("-np", 2, client(), "log", "a-word"), 0)
        self.assertRegex(done.err, r"\[0\] a-word")
        self.assertRegex(done.err, r"\[1\] a-word")


class Ending(MpiTest):
    """Who waits for others never waits in vain, and the first cause is what is told."""

    def test_one_is_killed_in_the_fence_before_init_and_in_finalize(self):
        for verb, victim in (("first-without 0", 2), ("first-without 1", 1), ("last-without 3", 3)):
            with self.subTest(verb=verb):
                job = self.start("-np", 4, client(), *verb.split())
                os.kill(waiting(job, 3, 1)[victim], signal.SIGKILL)
                self.assertSays(self.assertEnds(job.wait(), 137), f"rank {victim} on .* was killed by SIGKILL")

    def test_the_helper_is_killed(self):
        job = self.start("-np", 4, client(), "first-without", 0)
        waiting(job, 3, 1)
        self.kill_helper_of(job)
        done = job.wait()
        self.assertEnds(done, 70)
        self.assertSays(done, "the helper for PMIx on .* was killed by SIGKILL, .* after the start")

    def test_the_helper_outlives_ranks_that_need_sigkill(self):
        script = ('trap "" TERM; echo helper $(pgrep -P $PPID -x trainrun-pmix); touch up.$TRAINRUN_GENERATION.$RANK; '
                  '[ $TRAINRUN_GENERATION = 2 ] && exit 0; until [ -e up.1.1 ]; do sleep 0.1; done; '
                  '[ $RANK = 0 ] && exit 3; while :; do sleep 0.1; done')
        done = self.run_job("-np", 2, "--compat", "openmpi", "--max-restarts", 1, "--grace", 1, "sh", "-c", script)
        self.assertSays(self.assertEnds(done, 0), "1 rank did not end within .*SIGKILL")
        helpers = re.findall(r"helper (\d+)", done.out)
        self.assertEqual((len(helpers), len(set(helpers))), (4, 1), done)

    def test_a_helper_that_does_not_go_keeps_nobody_waiting(self):
        stop_helper = "; kill -STOP $(pgrep -P $PPID -x trainrun-pmix)"
        done = self.run_job("-np", 1, "--host-timeout", "1s", "sh", "-c", client() + stop_helper)
        self.assertNotIn("lost", self.assertEnds(done, 0).err)

    def kill_helper_of(self, job):
        parents = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                    text = stat.read()
            except OSError:
                continue
            name = text[text.index("(") + 1:text.rindex(")")]
            parents[int(pid)] = (int(text[text.rindex(")") + 2:].split()[1]), name)
        def descends(pid):
            while pid > 1 and pid in parents:
                if pid == job.process.pid:
                    return True
                pid = parents[pid][0]
            return False
        found = [pid for pid, (_, name) in parents.items() if name == "trainrun-pmix" and descends(pid)]
        self.assertEqual(len(found), 1, parents)
        os.kill(found[0], signal.SIGKILL)

    def test_one_that_leaves_before_init_is_to_blame(self):
        job = self.start("-np", 3, client(), "leave", 0, feed=b"go\n")  # rank 0 has the stdin: it goes at once
        done = self.assertEnds(job.wait(), 1)
        self.assertSays(done, "rank 0 on .* exited with code 0 while other ranks waited for it in MPI", "--compat none")

    def test_where_a_failure_is_ignored_nobody_waits_for_one_that_left_before_init(self):
        job = self.start("-np", 3, "--on-failure", "ignore", client(), "leave", 0, feed=b"go\n")
        done = self.assertEnds(job.wait(), 1)
        self.assertSays(done, "rank 0 on .* exited with code 0 while other ranks waited for it in MPI: the job goes on",
                        "2 ranks failed too")

    def test_one_that_leaves_without_finalize_has_failed(self):
        done = self.assertEnds(self.run_job("-np", 3, client(), "desert", 1), 1)
        self.assertSays(done, "rank 1 on .* exited with code 0 within MPI: it had called MPI_Init, and not MPI_Finalize")

    def test_abort_ends_the_job_with_its_code(self):
        done = self.assertEnds(self.run_job("-np", 3, client(), "abort", 1, 7), 7)
        self.assertSays(done, r"rank 1 on .* called MPI_Abort with code 7")


class OpenMpi(MpiTest):
    def test_conformance(self):
        done = self.assertEnds(self.run_job("-np", 4, open_mpi(), "all", self.folder + "/file"), 0)
        self.assertEqual(len(re.findall(r"rank \d of 4: all is well", done.out)), 4, done)

    def test_ranks_meet_within_an_allocation(self):
        """Open MPI's library looks at these variables of a job to see who has started it."""
        for allocation in ({"SLURM_JOBID": "2", "SLURM_JOB_ID": "2", "SLURM_NODELIST": "here"}, {"FLUX_JOB_ID": "2"},
                           {"JSM_NAMESPACE_ID": "2", "JSM_NAMESPACE": "2"}):
            with self.subTest(allocation=allocation):
                done = self.run_job("-np", 2, "--hosts-from", "none", open_mpi(), "all", self.folder + "/file", env=allocation)
                self.assertEqual(len(re.findall(r"rank \d of 2: all is well", self.assertEnds(done, 0).out)), 2, done)

    def test_abort_ends_the_job_with_its_code_and_its_words(self):
        done = self.assertEnds(self.run_job("-np", 3, open_mpi(), "abort", 1, 7), 7)
        self.assertSays(done, r"rank 1 on .* called MPI_Abort with code 7", "MPI_ABORT was invoked on rank 1", "2 ranks ended after SIGTERM")

    def test_what_ranks_share_by_name_goes_with_the_job_wherever_its_directory_is(self):
        share = "echo memory $OMPI_MCA_btl_vader_backing_directory; touch $OMPI_MCA_btl_vader_backing_directory/vader_segment.$RANK; "
        for place in ({}, {"TMPDIR": self.temporary}):
            with self.subTest(place=place):
                # As libpmix forgets what ranks had that are killed: it stays for the agent to remove.
                done = self.assertEnds(self.run_job("-np", 2, "sh", "-c", share + open_mpi() + " abort 1 7", env=place), 7)
                shared = set(re.findall(r"memory (/dev/shm/trainrun\.[0-9a-f]{16}\.\w{6})$", done.out, re.M))
                self.assertEqual(len(shared), 1, done)
                self.assertFalse(os.path.exists(shared.pop()))

    def test_a_crash_is_named_and_the_others_do_not_outlive_it(self):
        done = self.assertEnds(self.run_job("-np", 3, open_mpi(), "crash", 2), 139)
        self.assertSays(done, "rank 2 on .* was killed by SIGSEGV")

    def test_exit_without_finalize(self):
        done = self.assertEnds(self.run_job("-np", 3, open_mpi(), "exit", 1), 1)
        self.assertSays(done, "rank 1 on .* exited with code 0 within MPI")

    def test_an_error_of_the_program_ends_the_job(self):
        done = self.run_job("-np", 2, open_mpi(), "error")
        self.assertNotIn(done.rc, (0, 143), done)
        self.assertSays(done, "rank 1 on .* called MPI_Abort with code ", "invalid rank")

    def test_an_elastic_world_starts_again(self):
        done = self.assertEnds(self.run_job("-np", 3, "--max-restarts", 2, open_mpi(), "once", 1), 0)
        self.assertSays(done, "was killed by SIGSEGV", "2 generations")
        self.assertEqual(len(re.findall(r"rank \d of 3: all is well", done.out)), 3, done)

    def test_a_rank_that_speaks_to_nobody_is_told_once(self):
        self.may_leave = True  # a world of one has a daemon of Open MPI, whose directory stays when it is ended
        job = self.start("-np", 2, "--compat", "mpich", open_mpi(), "stay")
        job.wait_for(r"rank [01] has loaded '?lib(?:mpi|pmix)\.so\S* and has not spoken to trainrun for 5\.0 s: .*--compat openmpi", "err")
        job.signal(signal.SIGTERM)
        done = job.wait()
        self.assertEqual(done.err.count("has not spoken"), 1, done)

    def test_compat_none_gives_worlds_of_one(self):
        done = self.assertEnds(self.run_job("-np", 2, "--compat", "none", open_mpi(), "hello"), 0)
        self.assertEqual(done.out.count("rank 0 of 1"), 2, done)


if __name__ == "__main__":
    harness.main()
