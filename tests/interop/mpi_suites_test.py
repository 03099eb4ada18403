#!/usr/bin/python3
"""Debian's own test programs of MPI end under trainrun as they do under the launcher of the same MPI: those of ScaLAPACK
for both, and the HPC Challenge. Two ranks: with more, ranks that wait by spinning take minutes on two cores."""
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from interop import LONG, harness

FOLDER = "/usr/lib/*/scalapack/{}-tests"
# Some of each kind that take seconds: LU, real and complex, QR, inversion, band solvers.
PROGRAMS = ("xdlu", "xzlu", "xdqr", "xdinv", "xdpbllt", "xddblu")
LAUNCHERS = {"mpich": ["mpiexec.hydra"], "openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]}


def for_two_ranks(text):
    """The input of a program, with one grid of processes: 1 x 2."""
    lines, left = text.splitlines(), 0
    for i, line in enumerate(lines):
        if "number of process grids" in line:
            lines[i], left = "1   number of process grids", 2
        elif left:
            lines[i] = "2" if left == 1 or "Columns" in line else "1"
            left = 0 if "Columns" in line else left - 1
    return "\n".join(lines) + "\n"


class Suite(harness.LocalTest):
    def side_by_side(self, mpi, program, folder, what):
        """What is the same of both runs."""
        path = shutil.which(LAUNCHERS[mpi][0])
        if not path:
            raise unittest.SkipTest(f"there is no {LAUNCHERS[mpi][0]}")
        theirs = subprocess.run([*LAUNCHERS[mpi], "-n", "2", program], cwd=folder, text=True, stdin=subprocess.DEVNULL,
                                capture_output=True, errors="replace", timeout=LONG)
        expected = what(theirs.stdout, folder)
        ours = self.run_job("--tag", "none", "-np", 2, "--wdir", folder, program, timeout=LONG)
        self.assertEqual(ours.rc, theirs.returncode, f"{ours}\n--- theirs\n{theirs.stderr[-2000:]}")
        self.assertEqual(what(ours.out, folder), expected, ours)
        return expected

    def scalapack(self, mpi):
        found = glob.glob(FOLDER.format(mpi))
        if not found:
            raise unittest.SkipTest("scalapack-mpi-test is not installed (apt-get install scalapack-mpi-test)")
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            for path in glob.glob(found[0] + "/*.dat"):
                with open(path, encoding="ascii") as source, open(f"{folder}/{os.path.basename(path)}", "w", encoding="ascii") as copy:
                    copy.write(for_two_ranks(source.read()))
            for name in PROGRAMS:
                with self.subTest(mpi=mpi, program=name):
                    said = self.side_by_side(mpi, f"{found[0]}/{name}", folder, self.residuals)
                    self.assertTrue(any(int(count) > 0 for count, _ in said), said)

    @staticmethod
    def residuals(out, _):
        """(12, "tests completed and passed residual checks.")"""
        return re.findall(r"^\s*(\d+) (tests? .*?)\s*$", out, re.M)

    def test_scalapack_of_mpich(self):
        self.scalapack("mpich")

    def test_scalapack_of_open_mpi(self):
        self.scalapack("openmpi")

    def test_hpc_challenge(self):
        hpcc = shutil.which("hpcc")
        if not hpcc:
            raise unittest.SkipTest("hpcc is not installed (apt-get install hpcc)")
        with open("/usr/share/doc/hpcc/examples/_hpccinf.txt", encoding="ascii") as file:
            text = file.read()
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            with open(folder + "/hpccinf.txt", "w", encoding="ascii") as file:
                file.write(re.sub(r"^2( +Ps)", r"1\1", re.sub(r"^2( +Qs)", r"2\1", text.replace("1000         Ns", "200          Ns"), flags=re.M), flags=re.M))
            said = self.side_by_side("openmpi", hpcc, folder, self.results)
        self.assertEqual(said.get("Success"), "1", said)
        self.assertEqual(said.get("CommWorldProcs"), "2", said)

    @staticmethod
    def results(_, folder):
        """Of hpccoutf.txt what is no time: sizes, errors found, success."""
        path = folder + "/hpccoutf.txt"
        with open(path, encoding="ascii") as file:
            found = dict(re.findall(r"^(\w+)=(\S+)$", file.read().split("Begin of Summary section.")[-1], re.M))
        os.remove(path)
        return {name: value for name, value in found.items()
                if name in ("Success", "CommWorldProcs", "HPL_N", "HPL_NB", "HPL_nprow", "HPL_npcol",
                            "MPIRandomAccess_N", "MPIFFT_Procs", "PTRANS_n")}


if __name__ == "__main__":
    harness.main()
