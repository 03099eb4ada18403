"""A real Slurm over the hosts of a lab: slurmctld on `head`, slurmd on every node, munge on all."""
import os
import shutil
import unittest

from harness import DEADLINE
from lab_harness import SshTest
from training import Training

SLOTS = 8  # CPUs that each node says it has, whatever the machine has

# linuxproc and no cgroups: hosts of a lab share those of the machine. config_overrides: the CPUs are as said here. Jobs
# begin as they come, instead of once in three seconds.
CONFIGURATION = f"""\
ClusterName=lab
SlurmctldHost=head
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
MailProg=/bin/true
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
NodeName=node[1-{{nodes}}] CPUs={SLOTS} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""
MUNGED = ("munged --force --key-file={0}/munge.key --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/pid "
          "--log-file=/run/munge/log --seed-file=/run/munge/seed")


class SlurmTest(Training, SshTest):
    """One cluster a class. Its processes end with the lab."""
    NODES = 3
    MAY_REMAIN = SshTest.MAY_REMAIN + ("/run/slurm/", "/run/munge/")  # their daemons'

    @classmethod
    def setUpClass(cls):
        for tool in ("munged", "slurmctld", "slurmd", "salloc"):
            if not shutil.which(tool, path="/usr/sbin:/usr/bin"):
                raise unittest.SkipTest(f"a real Slurm needs {tool}")
        super().setUpClass()
        cls.cluster = cls.shared_folder(cls.addClassCleanup)
        files = {"slurm.conf": CONFIGURATION.format(nodes=cls.NODES).encode(), "munge.key": os.urandom(128),
                 "cgroup.conf": b"CgroupPlugin=cgroup/v1\n"}  # which touches none that is not used
        for name, data in files.items():
            with open(os.open(f"{cls.cluster}/{name}", os.O_WRONLY | os.O_CREAT, 0o400), "wb") as file:
                file.write(data)
        for host in cls.lab.hosts:
            program = "slurmctld" if host == "head" else "slurmd"
            done = cls.lab.run(host, ["sh", "-ec", "mkdir -p /run/munge /run/slurm/state /run/slurm/spool; " +
                                      MUNGED.format(cls.cluster) +
                                      f"; {program} -f {cls.cluster}/slurm.conf -L /run/slurm/log"])
            if done.returncode != 0:
                raise AssertionError(f"{program} on {host} did not start: {done.stderr}"
                                     + cls.lab.run(host, ["cat", "/run/slurm/log"]).stdout)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.slurm, "scancel", "--user=root")

    def start(self, *words, **options):
        return super().start(*words, env={"SLURM_CONF": self.cluster + "/slurm.conf"}, **options)

    def slurm(self, *words):
        """A command of Slurm on head; gives what it printed."""
        done = self.lab.run("head", [str(word) for word in words], cwd=self.folder, timeout=DEADLINE,
                            env={"SLURM_CONF": self.cluster + "/slurm.conf"})
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        return done.stdout.strip()

    def allocated(self, options, *words):
        """A program inside `salloc`: it runs on head, which is no node of the job."""
        return self.start(*options, *words, program="/usr/bin/salloc")

    def batch(self, options, script):
        """A batch job, its script on the first node. What this gives has its output, both streams as one, and ends when
        nobody writes there any more (`sbatch --wait` looks after 2 s and then after 8 more)."""
        pipe = self.folder + "/output"
        os.mkfifo(pipe)
        with open(self.folder + "/job.sh", "w") as file:
            file.write(f"#!/bin/sh\nexec >{pipe} 2>&1\n{script}\n")
        job = self.start(pipe, program="/usr/bin/cat")
        self.slurm("sbatch", "-o", self.folder + "/slurm.log", *options, self.folder + "/job.sh")
        return job
