#!/usr/bin/python3
"""The MPIs of PyPI, by way of mpi4py and without a flag: MPICH, Open MPI and Intel MPI."""
import os
import re
import subprocess
import tempfile

from interop import LONG, InteropTest, harness
import open_mpi
from environments import python_with, versions

# Hosts of a lab are one machine, which shared memory and fast networks must not find out.
BETWEEN_HOSTS = {"mpich": ("-x", "FI_PROVIDER=tcp", "-x", "MPIR_CVAR_NOLOCAL=1"),
                 "openmpi": ("-x", "OMPI_MCA_pml=ob1", "-x", "OMPI_MCA_btl=self,tcp", "-x", "OMPI_MCA_osc=^ucx"),
                 "impi-rt": ("-x", "FI_PROVIDER=tcp", "-x", "I_MPI_FABRICS=ofi")}
# Of mpi4py's own tests those in which the launcher has a part: how the world and its groups come about, shared memory,
# files, threads. Left out everywhere: spawning and publishing of names, which trainrun refuses in words.
SUITE = "test_(comm|group|environ|p2p_obj|cco_obj|cco_buf|win|io|threads|session|status)$"


class Worlds(InteropTest):
    def test_ranks_meet_without_a_flag(self):
        for mpi, words in BETWEEN_HOSTS.items():
            python = python_with(mpi, "mpi4py", "numpy", mpi)
            with self.subTest(mpi=mpi, versions=versions(python, "mpi4py", mpi)):
                self.in_every_world(*words, python=python, program="mpi4py_world.py", pattern=r"rank (\d) of 4")


class Together(InteropTest):
    """Two releases of Open MPI on the same hosts at once, each with the helper and the libpmix of its own."""

    def test_a_job_of_one_release_runs_while_one_of_the_other_does(self):
        python = python_with("openmpi", "mpi4py", "numpy", "openmpi")
        where = ("-H", "node1:2,node2:2")
        release = self.folder + "/release"
        os.mkfifo(release)
        pipe = os.open(release, os.O_RDWR)  # which waits for nobody, and keeps what is written
        self.addCleanup(os.close, pipe)
        newer = self.start(*where, *BETWEEN_HOSTS["openmpi"], python, self.program("mpi4py_wait.py"), release)
        newer.wait_for(r"Open MPI v5\.[^\n]*has met \[0, 1, 2, 3\]", count=4, timeout=LONG)
        older = self.run_job(*where, *open_mpi.BETWEEN_HOSTS, open_mpi.open_mpi(), "all", self.folder + "/file", timeout=LONG)
        self.assertEnds(older, 0)
        os.write(pipe, b"go\n")
        done = self.assertEnds(newer.wait(LONG), 0)
        self.assertEqual(len(re.findall(r"again \[0, 1, 2, 3\]", done.out)), 4, done)


class Faults(InteropTest):
    """Open MPI's ULFM: ranks learn that others have died, wherever those were, and go on."""

    def test_the_others_shrink_and_finalize(self):
        python = python_with("openmpi", "mpi4py", "numpy", "openmpi")
        for where in (("-np", 4, "--oversubscribe"), ("-H", "node1:2,node2:2", *BETWEEN_HOSTS["openmpi"])):
            for victims in ("0", "1", "3", "2,3"):
                with self.subTest(where=where, victims=victims):
                    done = self.run_job("--on-failure", "ignore", *where, python, self.program("mpi4py_ulfm.py"), victims,
                                        timeout=LONG)
                    left = 4 - len(victims.split(","))
                    self.assertEnds(done, 0)
                    self.assertEqual(sorted(re.findall(rf"rank (\d) of {left} left", done.out)), list("012"[:left]), done)
                    self.assertEqual(len(re.findall(r"was killed by SIGKILL: the job goes on", done.err)), 4 - left, done)
                    self.assertNotIn("cannot meet", done.err)

    def test_a_host_is_lost(self):
        python = python_with("openmpi", "mpi4py", "numpy", "openmpi")
        done = self.run_job("--on-failure", "ignore", "-H", "node1:2,node2:2", *BETWEEN_HOSTS["openmpi"], python,
                            self.program("mpi4py_ulfm.py"), "2,3", "host", timeout=LONG)
        self.assertEqual(len(re.findall(r"rank \d of 2 left", self.assertEnds(done, 0).out)), 2, done)
        self.assertSays(done, "node2 lost .*: the job goes on, 2 of 4 ranks are left")


class OwnSuite(harness.LocalTest):
    """mpi4py's tests end under trainrun as they do under the launcher of the same MPI."""

    def test_suite(self):
        for mpi in BETWEEN_HOSTS:
            python = python_with(mpi, "mpi4py", "numpy", mpi)
            with self.subTest(mpi=mpi), tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
                suite = [python, self.suite(python, folder), "--no-builddir", "-i", SUITE]
                root = ["--allow-run-as-root"] if mpi == "openmpi" else []
                theirs = subprocess.run([python.replace("/python", "/mpiexec"), *root, "-n", "2", *suite], text=True,
                                        stdin=subprocess.DEVNULL, capture_output=True, errors="replace", timeout=LONG)
                ours = self.run_job("-np", 2, *suite, timeout=LONG)
                self.assertEqual(ours.rc, theirs.returncode, f"{ours}\n--- theirs\n{theirs.stderr[-2000:]}")
                self.assertEqual(self.summary(ours.err), self.summary(theirs.stderr), ours)

    @staticmethod
    def suite(python, folder):
        version = versions(python, "mpi4py")[0].split("==")[1]
        subprocess.run([python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary=mpi4py", f"mpi4py=={version}", "-d",
                        folder], check=True, stdin=subprocess.DEVNULL, timeout=600)
        subprocess.run(["tar", "-C", folder, "-xf", f"{folder}/mpi4py-{version}.tar.gz"], check=True, timeout=60)
        return f"{folder}/mpi4py-{version}/test/main.py"

    def summary(self, text):
        """What unittest counts, of each rank: "Ran 312 tests", "OK (skipped=10)"."""
        found = re.findall(r"(Ran \d+ tests?) in|(OK.*|FAILED.*)$", text, re.M)
        self.assertEqual(len(found), 4, text[-2000:])
        return sorted("".join(words) for words in found)


if __name__ == "__main__":
    harness.main()
