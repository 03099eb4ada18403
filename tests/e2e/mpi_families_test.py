#!/usr/bin/python3
"""Whose MPI a program is: what is said of it, and what cannot be one world."""
import json
import os
import shutil
import signal
import unittest

import harness
from harness import TRAINRUN, WORKER
from mpi import MpiTest, mpich
from open_mpi import client, open_mpi

LATE = 7  # s; longer than the patience with a rank that has loaded an MPI and is silent


class OneWorld(MpiTest):
    def test_two_families_cannot_share_a_world(self):
        done = self.assertEnds(self.run_job("-np", 1, open_mpi(), "hello", ":", "-np", 2, mpich(), "hello"), 2)
        self.assertSays(done, "part 1 .*ompi_worker.* is a program of Open MPI, part 2 .*mpich_worker.* is one of MPICH: "
                        "they cannot be one world", "try +build both with one MPI")
        self.assertEqual(done.out, "")
        self.assertEqual(done.err.count("cannot be one world"), 1, done)

    def test_where_one_is_guessed_it_is_said_and_goes_on(self):
        job = self.start("-np", 1, "sh", "-c", open_mpi() + " hello", ":", "-np", 1, mpich(), "hello")
        job.wait_for("part 1 .* looks like a program of Open MPI, part 2 .* is a program of MPICH: ranks of both cannot meet in MPI", "err")
        job.signal(signal.SIGTERM)
        self.assertEqual(job.wait().err.count("cannot meet in MPI"), 1)

    def test_a_program_that_is_none_may_be_a_part(self):
        done = self.run_job("-np", 1, WORKER, "exit", 0, ":", "-np", 1, mpich(), "hello", ":", "-np", 1, "sh", "-c", mpich())
        self.assertNotIn("cannot", done.err)


class Told(MpiTest):
    def test_v_says_which_mpi_was_found_and_by_what_it_is_served(self):
        done = self.assertEnds(self.run_job("-v", "-np", 1, client(), "meet"), 0)
        self.assertSays(done, r"pmix_client.* is a program of Open MPI: its ranks meet by PMIx, of \S*/libpmix\.so\.2")
        done = self.assertEnds(self.run_job("-v", "-np", 1, mpich(), "hello"), 0)
        self.assertSays(done, r"mpich_worker.* is a program of MPICH: its ranks meet by PMI-1")
        done = self.assertEnds(self.run_job("-v", "-np", 1, "sh", "-c", client() + " meet"), 0)
        self.assertSays(done, r"looks like a program of Open MPI")
        self.assertNotIn("is a program of", self.assertEnds(self.run_job("-v", "-np", 1, "true"), 0).err)

    def test_a_dry_run_shows_the_mpi_and_its_variables(self):
        done = self.assertEnds(self.run_job("--dry-run", "-np", 2, open_mpi(), "hello"), 0)
        self.assertRegex(done.out, r"MPI: .*ompi_worker.*: Open MPI, by PMIx of \S*/libpmix\.so\.2")
        for name in ("OMPI_COMM_WORLD_RANK=1", "OMPI_MCA_schizo=^orte,slurm,alps,jsm,flux", "PMIX_RANK=1", "PMIX_NAMESPACE=<"):
            self.assertIn(name, done.out)
        done = self.assertEnds(self.run_job("--dry-run", "-np", 2, mpich(), "hello"), 0)
        self.assertRegex(done.out, r"MPI: .*mpich_worker.*: MPICH, by PMI-1")
        self.assertNotIn("OMPI_", done.out)
        done = self.assertEnds(self.run_job("--dry-run", "-np", 2, "-H", "gpu1:2", "/not/here"), 0)
        self.assertIn("MPI: /not/here: decided on gpu1 at start", done.out)
        self.assertNotIn("MPI:", self.assertEnds(self.run_job("--dry-run", "-np", 2, "true"), 0).out)

    def test_the_json_of_a_dry_run_has_it(self):
        def mpi(*words):
            return json.loads(self.assertEnds(self.run_job("--dry-run", "--json", *words), 0).out)["programs"][0]["mpi"]
        found = mpi("-np", 1, open_mpi(), "hello")
        self.assertEqual((found["family"], found["guessed"]), ("openmpi", False))
        self.assertRegex(found["library"], r"/libpmix\.so\.2$")
        self.assertEqual(mpi("-np", 1, mpich(), "hello"), {"family": "mpich", "guessed": False})
        self.assertEqual(mpi("-np", 1, "-H", "gpu1", "/not/here"), {"family": "decided at start"})
        self.assertEqual(mpi("-np", 1, "true"), {"family": "none"})


class Silent(MpiTest):
    """A rank that has loaded an MPI and speaks to nobody."""

    def test_who_is_only_slow_is_let_alone(self):
        for program in (open_mpi(), mpich()):
            done = self.assertEnds(self.run_job("-np", 2, program, "late", 1, LATE), 0)
            self.assertNotIn("has not spoken", done.err)

    def test_who_lost_its_variables_is_told_so(self):
        self.may_leave = True  # a world of one has a daemon of Open MPI, whose directory stays when it is ended
        for program, name in ((open_mpi(), "PMIX_NAMESPACE"), (mpich(), "PMI_FD")):
            job = self.start("-np", 2, "env", "-i", "PATH=/usr/bin:/bin", "HOME=" + self.folder, program, "stay")
            job.wait_for(rf"rank [01] has loaded .* has not spoken to trainrun for 5\.0 s, and {name} is not in its environment", "err")
            job.signal(signal.SIGTERM)
            self.assertEqual(job.wait().err.count("has not spoken"), 1)


class Helper(MpiTest):
    def test_a_library_that_cannot_be_loaded_is_the_cause(self):
        done = self.assertEnds(self.run_job("-np", 2, "--pmix-lib", "/etc/hostname", client()), 2)
        self.assertSays(done, "'?/etc/hostname'?, by which ranks of Open MPI find each other, is no library that can be loaded", "try: .*--pmix-lib")
        self.assertNotIn("could not be started", done.err)

    def test_a_library_that_is_another_one_is_the_cause(self):
        libm = next(folder + "/libm.so.6" for folder in ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64")
                    if os.path.exists(folder + "/libm.so.6"))
        done = self.run_job("-np", 2, "--pmix-lib", libm, client())
        self.assertSays(done, "the helper for PMIx on .* cannot serve: .*libm", "could not be started: its host has no PMIx to offer",
                        "try .*--pmix-lib")
        self.assertNotIn("(exec)", done.err)


class Launchers(MpiTest):
    def test_another_launcher_is_no_mpi_program(self):
        for name, program in (("mpirun.openmpi", open_mpi), ("mpiexec.hydra", mpich)):
            path = shutil.which(name)
            if not path:
                raise unittest.SkipTest(f"there is no {name}")
            words = [path, "-np", 2, program(), "hello"]
            env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
            done = self.assertEnds(self.run_job("-np", 1, *words, env=env), 0)
            self.assertIn("of 2", done.out)
            self.assertEqual(done.err, "")
            done = self.assertEnds(self.run_job("-np", 1, "sh", "-c", " ".join(map(str, words)), env=env), 0)
            self.assertIn("of 2", done.out)


if __name__ == "__main__":
    harness.main()
