"""What `cmake --install` and `cpack -G DEB` make of a finished build: complete, and it runs where it was put.

    install_test.py BUILD_DIR CMAKE CXX SANITIZERS

Nothing of the build is built again. A program of a stranger is compiled against the installed library.
"""
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE = 240  # seconds, against hanging
BUILD, CMAKE, CXX, SANITIZERS = (sys.argv + [""] * 5)[1:5]

# Below the prefix; * stands for what depends on version or machine.
EXPECTED = ["bin/trainrun", "libexec/trainrun/agent-*", "include/trainrun/trainrun_comm.h",
            "include/trainrun/trainrun_comm.hpp", "include/trainrun/trainrun_elastic.hpp", "include/trainrun/trainrun_nccl.h",
            "include/trainrun/trainrun_work.h", "include/trainrun/trainrun_work.hpp",
            "lib*/**/libtrainrun_comm.so.0", "lib/python3/dist-packages/trainrun/elastic.py",
            "lib*/**/cmake/trainrun_comm/trainrun_comm-config.cmake", "share/man/man1/trainrun.1",
            "share/man/man1/trainrun-ctl.1", "share/man/man1/trainrun-replay.1", "share/man/man5/trainrun-hosts.5",
            "share/man/man7/trainrun-elastic.7", "share/man/man7/trainrun-events.7", "share/man/man7/trainrun-mpi.7",
            "share/man/man7/trainrun-pytorch.7",
            "share/man/man7/trainrun-horovod.7",
            "share/bash-completion/completions/trainrun",
            "share/zsh/vendor-completions/_trainrun", "share/fish/vendor_completions.d/trainrun.fish",
            "share/doc/trainrun/README.md", "share/doc/trainrun/launcher/ARCHITECTURE.md",
            "share/doc/trainrun/launcher/decisions/0001-*.md", "share/doc/trainrun/rendezvous/PROTOCOL.md",
            "share/doc/trainrun/examples/hosts.txt", "share/doc/trainrun/examples/job.toml",
            "share/doc/trainrun/examples/torch_ddp/train.py"]


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="trainrun-package.")
        # Not this process's own: a scheduler's or launcher's variables would change what a job does.
        cls.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": cls.folder}
        cls.environment.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
        cls.prefix = cls.folder + "/prefix"
        cls.run_program(CMAKE, "--install", BUILD, "--prefix", cls.prefix)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def run_program(cls, *words, cwd=None):
        done = subprocess.run(words, cwd=cwd or cls.folder, env=cls.environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}")
        return done.stdout

    def assert_complete(self, prefix):
        missing = [name for name in EXPECTED if not glob.glob(f"{prefix}/{name}", recursive=True)]
        self.assertEqual(missing, [], f"not installed below {prefix}")
        [agent] = glob.glob(prefix + "/libexec/trainrun/agent-*")
        with open(agent, "rb") as file:
            self.assertTrue(agent.endswith("agent-" + hashlib.sha256(file.read()).hexdigest()),
                            "the agent is not the one that its name says: was it stripped?")
        for program in (agent, prefix + "/bin/trainrun"):
            self.assertTrue(os.access(program, os.X_OK), f"{program} cannot be executed")

    def assert_runs(self, trainrun):
        self.assertRegex(self.run_program(trainrun, "--version"), r"^trainrun \d+\.\d+\.\d+\n$")
        self.run_program(trainrun, "-np", "2", "true")
        # The agent is another program than trainrun; a host that shares the installation executes it as it is.
        [agent] = glob.glob(os.path.dirname(trainrun) + "/../libexec/trainrun/agent-*")
        self.assertIn("protocol", self.run_program(agent, "--version"))

    def test_the_installed_tree_is_complete_and_runs(self):
        self.assert_complete(self.prefix)
        self.assert_runs(self.prefix + "/bin/trainrun")

    def test_python_finds_its_part_by_the_path_that_the_manual_says(self):
        found = self.run_program("env", f"PYTHONPATH={self.prefix}/lib/python3/dist-packages", "/usr/bin/python3", "-c",
                                 "import importlib.util; print(importlib.util.find_spec('trainrun').origin)")
        self.assertEqual(found.strip(), self.prefix + "/lib/python3/dist-packages/trainrun/__init__.py")

    def test_below_usr_local_pythons_part_is_where_python_looks(self):
        root = self.folder + "/root"
        self.run_program("env", "DESTDIR=" + root, CMAKE, "--install", BUILD, "--prefix", "/usr/local", "--component", "comm")
        [module] = glob.glob(root + "/usr/local/lib/python3*/dist-packages/trainrun/elastic.py")
        looked_at = self.run_program("/usr/bin/python3", "-c", "import site; print(site.getsitepackages())")
        self.assertIn(repr(os.path.dirname(os.path.dirname(module)).removeprefix(root)), looked_at)

    def test_nothing_installed_names_the_build(self):
        for folder, _, names in os.walk(self.prefix):
            for name in names:
                if name.endswith((".cmake", ".1", ".5", ".h", ".hpp")) and ".so" not in name:
                    with open(os.path.join(folder, name), "rb") as file:
                        self.assertFalse(os.path.realpath(BUILD).encode() in file.read(), f"{folder}/{name}")

    def test_the_installed_examples_work(self):
        trainrun, examples = self.prefix + "/bin/trainrun", self.prefix + "/share/doc/trainrun/examples"
        said = self.run_program(trainrun, "--config", examples + "/job.toml")
        self.assertEqual(sorted(line.split(" on ")[0] for line in said.splitlines()),
                         [f"[{rank}] rank {rank} of 4" for rank in range(4)])
        self.assertIn("16 ranks on 2 hosts", self.run_program(trainrun, "--hostfile", examples + "/hosts.txt", "--dry-run",
                                                              "true"))
        # The batch script in an allocation that is only said to be there: nothing is started.
        said = self.run_program("env", f"PATH={self.prefix}/bin:{self.environment['PATH']}", "TRAINRUN_DRY_RUN=1",
                                "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=gpu[1-2]", "SLURM_TASKS_PER_NODE=8(x2)",
                                "sh", examples + "/job.sbatch", cwd=examples + "/torch_ddp")
        self.assertIn("16 ranks on 2 hosts", said)

    def test_a_program_finds_headers_and_library(self):
        flags = f"-fsanitize={SANITIZERS}" if SANITIZERS else ""
        consumer = self.folder + "/consumer"
        self.run_program(CMAKE, "-S", HERE + "/consumer", "-B", consumer, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                         "-DCMAKE_PREFIX_PATH=" + self.prefix, "-DCMAKE_CXX_COMPILER=" + CXX, "-DCMAKE_CXX_FLAGS=" + flags)
        self.run_program(CMAKE, "--build", consumer)
        out = self.run_program(self.prefix + "/bin/trainrun", "-np", "3", "--tag", "none", consumer + "/consumer")
        self.assertEqual(out.splitlines(), ["sum 3 of 3"] * 3)

    def test_the_packages_have_all_of_it_and_the_launcher_needs_no_gloo(self):
        folder = self.folder + "/package"
        # gzip is quick, and what is compressed does not matter here.
        self.run_program(os.path.dirname(CMAKE) + "/cpack", "-G", "DEB", "--config", BUILD + "/CPackConfig.cmake",
                         "-B", folder, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")
        packages = {os.path.basename(path).split("_")[0]: path for path in glob.glob(folder + "/*.deb")}
        self.assertEqual(sorted(packages), ["libtrainrun-comm", "trainrun"])
        fields, files = {}, {}
        for name, path in packages.items():
            self.assertRegex(os.path.basename(path), r"^[a-z-]+_\d+\.\d+\.\d+_\w+\.deb$")
            fields[name] = dict(line.split(": ", 1) for line in self.run_program("dpkg-deb", "-f", path).splitlines()
                                if re.match(r"[A-Z]\S*: ", line))
            self.assertEqual(fields[name]["Package"], name)
            self.assertIn("libc6", fields[name]["Depends"])
            listing = [line.split() for line in self.run_program("dpkg-deb", "-c", path).splitlines()]
            self.assertEqual({row[1] for row in listing}, {"root/root"})
            files[name] = {row[5] for row in listing if not row[5].endswith("/")}
            self.run_program("dpkg-deb", "-x", path, folder + "/unpacked")
        self.assertNotIn("gloo", fields["trainrun"]["Depends"])
        self.assertEqual(fields["trainrun"]["Recommends"], "libssh-4, openssh-client")
        self.assertIn("gloo", fields["libtrainrun-comm"]["Depends"])
        self.assertEqual(files["trainrun"] & files["libtrainrun-comm"], set())
        self.assertTrue(all("comm" not in name or "share" in name for name in files["trainrun"]), files["trainrun"])
        self.run_program("dpkg-deb", "-e", packages["libtrainrun-comm"], folder + "/control")
        with open(folder + "/control/postinst") as file:
            self.assertIn("ldconfig", file.read())
        self.assert_complete(folder + "/unpacked/usr")
        self.assert_runs(folder + "/unpacked/usr/bin/trainrun")


if __name__ == "__main__":
    for tool in ("dpkg-deb", "dpkg-shlibdeps", "file", "ninja"):
        if not shutil.which(tool):
            print(f"SKIP: {tool} is not installed (apt-get install dpkg-dev file ninja-build)")
            sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
