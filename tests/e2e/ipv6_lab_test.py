"""Hosts that have IPv6 alone: logins, addresses that ranks are told, collectives."""
import os
import unittest

from digits import Digits
from harness import WORKER, main, told
from lab_harness import SshTest

WHERE = ("sh", "-c", "echo $RANK $MASTER_ADDR $(hostname)")
BOTH = "[fd77::2]:2,[fd77::3]:2"
TORCH = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
ones = torch.ones(1)
dist.all_reduce(ones)
print("sum", int(ones.item()))
"""


class Ipv6(Digits, SshTest):
    NODES = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not os.path.isdir("/proc/sys/net/ipv6"):
            raise unittest.SkipTest("this machine has no IPv6")
        names = "".join(f"{cls.lab.address6(host)} {host}\n" for host in cls.lab.hosts)
        script = (f"ip -4 address flush dev eth0; printf '127.0.0.1 localhost\\n{names}' > /run/hosts; "
                  "umount /etc/hosts; mount --bind /run/hosts /etc/hosts")
        for host in cls.lab.hosts:
            done = cls.lab.run(host, ["sh", "-ec", script])
            if done.returncode != 0:
                raise AssertionError(done.stderr)

    def where(self, *words):
        done = self.assertEnds(self.run_job(*words, "--tag", "none", *WHERE), 0)
        return sorted(done.out.splitlines())

    def test_both_transports_log_in(self):
        for transport in ("ssh", "openssh"):
            with self.subTest(transport=transport):
                self.assertEqual(self.where("--transport", transport, "-H", BOTH), [
                    "0 fd77::2 node1", "1 fd77::2 node1", "2 fd77::2 node2", "3 fd77::2 node2"])
                self.assertEqual(self.where("--transport", transport, "-H", "ssh://root@[fd77::3]:22"),
                                 ["0 127.0.0.1 node2"])

    def test_names_and_a_launchers_host_that_takes_part(self):
        self.assertEqual(self.where("-H", "head:1,node2:1"), ["0 fd77::1 head", "1 fd77::1 node2"])
        self.assertEqual(self.where("-H", "[fd77::1]:1,node2:1"), ["0 fd77::1 head", "1 fd77::1 node2"])

    def test_a_hostfile_and_an_interface(self):
        with open(self.folder + "/hosts", "w") as file:
            file.write("[fd77::2] slots=1\n[fd77::3]:1\n")
        given = told(self.assertEnds(self.run_job("--hostfile", "hosts", "--network-interface", "eth0", WORKER, "env"), 0))
        self.assertEqual([given[rank]["env"]["MASTER_ADDR"] for rank in (0, 1)], ["fd77::2"] * 2)

    def test_an_unknown_host_key_is_told_with_a_line_that_mends_it(self):
        self.on("head", "cp ~/.ssh/known_hosts /run/known_hosts; : > ~/.ssh/known_hosts")
        self.addCleanup(self.on, "head", "mv /run/known_hosts ~/.ssh/known_hosts")
        self.files_before["head"].add("/run/known_hosts")
        done = self.assertEnds(self.run_job("-H", "[fd77::2]:1", *WHERE), 69)
        line = self.assertSays(done, "host key is not known").err.split(": ssh-keyscan")[1].splitlines()[0]
        self.on("head", "ssh-keyscan" + line)
        self.assertEqual(self.where("-H", "[fd77::2]:1"), ["0 127.0.0.1 node1"])

    def test_a_program_on_comm_trains(self):
        job = self.start("-H", BOTH, *self.digits(pace=1))
        self.assertTrained(self.assertEnds(job.wait(), 0))

    def test_unmodified_pytorch_reduces(self):
        done = self.assertEnds(self.run_job("-H", "[fd77::2]:1,[fd77::3]:1", "python3", "-c", TORCH), 0)
        self.assertEqual(done.out.count("sum 2"), 2, str(done))


if __name__ == "__main__":
    main()
