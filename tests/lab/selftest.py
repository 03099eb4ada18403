"""The lab keeps its promises: what other tests rely on when they cut, kill and slow hosts."""
import os
import shlex
import select
import signal
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import lab as lab_module
from lab import Lab

QUICK = ["-o", "ConnectTimeout=2", "-o", "BatchMode=yes"]


def ssh(lab, host, command="hostname", options=(), of="head"):
    return lab.run(of, ["ssh", *options, host, command])


def machine():
    """What of the real machine a lab could leave changed."""
    with open("/proc/self/mounts") as file:
        # A test of another kind may have a file system of its own meanwhile.
        mounts = "".join(line for line in file if "/trainrun-test-" not in line)
    links = subprocess.run(["ip", "-o", "link"], stdout=subprocess.PIPE, text=True, check=True).stdout
    children = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "args="], stdout=subprocess.PIPE, text=True)
    with open("/etc/hosts") as file:
        hosts = file.read()
    return {"mounts": mounts, "links": sorted(line.split(":")[1] for line in links.splitlines()), "/etc/hosts": hosts,
            "home": sorted(os.listdir(lab_module.HOME)),
            "children": [line for line in children.stdout.splitlines() if not line.startswith("ps ")]}


def network_namespaces(pids=None):
    found = set()
    for name in pids or filter(str.isdigit, os.listdir("/proc")):
        try:
            found.add(os.readlink(f"/proc/{name}/ns/net"))
        except OSError:
            pass  # it ended meanwhile
    return found


class LabTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        reason = lab_module.unavailable()
        if reason:
            raise unittest.SkipTest(reason)

    def test_every_host_answers_ssh_from_head_and_from_each_other_under_its_own_name(self):
        with Lab(8) as lab:
            for number in range(1, 9):
                done = ssh(lab, f"node{number}", "hostname; cat /etc/hostname; getent hosts head")
                self.assertEqual(done.stdout.split()[:2], [f"node{number}"] * 2, done.stderr)
                self.assertIn("10.77.0.1", done.stdout)
            self.assertEqual(ssh(lab, "node2", of="node1").stdout, "node2\n")
            self.assertEqual(ssh(lab, "head", of="node8").stdout, "head\n")
            self.assertEqual(ssh(lab, "fd77::2" if os.path.isdir("/proc/sys/net/ipv6") else "node1", options=[
                "-o", "StrictHostKeyChecking=no"]).stdout, "node1\n")

    def test_hosts_share_the_machines_files_but_not_tmp_run_shm_home_and_processes(self):
        with Lab(2) as lab:
            ssh(lab, "node1", "touch /tmp/a /dev/shm/b /run/c ~/d; mkdir -p ~/.cache/e; sleep 1000 >&- 2>&- <&- &")
            self.assertEqual(lab.files("node1"), {"/tmp/a", "/dev/shm/b", "/run/c", lab_module.HOME + "/.cache/e/"})
            self.assertEqual(lab.files("node2"), set())
            self.assertEqual(ssh(lab, "node2", "ls ~/d /tmp; pgrep -c sleep").returncode, 1)
            self.assertFalse(os.path.exists(lab_module.HOME + "/d"))
            self.assertEqual(ssh(lab, "node2", f"test -f {shlex.quote(HERE)}/lab.py").returncode, 0)
            self.assertIn("sleep 1000", [process.command for process in lab.processes("node1")])
            self.assertNotIn("sleep 1000", [process.command for process in lab.processes("node2")])

    def test_a_cut_host_is_silent_and_a_healed_one_answers(self):
        with Lab(2) as lab:
            lab.cut("node1")
            self.assertEqual(ssh(lab, "node1", options=QUICK).returncode, 255)
            self.assertEqual(ssh(lab, "node2").stdout, "node2\n")
            lab.heal("node1")
            self.assertEqual(ssh(lab, "node1").stdout, "node1\n")

    def test_a_killed_host_refuses_a_powerless_one_is_silent_and_both_come_back(self):
        with Lab(2) as lab:
            lab.kill("node1")
            self.assertEqual(lab.processes("node1"), [])
            self.assertIn("refused", ssh(lab, "node1", options=QUICK).stderr)
            lab.kill("node2", power=True)
            silent = ssh(lab, "node2", options=QUICK)
            self.assertEqual(silent.returncode, 255)
            self.assertNotIn("refused", silent.stderr)
            for host in ("node1", "node2"):
                lab.revive(host)
                self.assertEqual(ssh(lab, host).stdout, host + "\n")

    def test_a_slow_host_answers_after_a_near_one_and_a_narrow_one_drops_what_comes_too_fast(self):
        with Lab(2) as lab:
            lab.slow("node1", delay_ms=100)
            order = lab.run("head", ["sh", "-c", "(ssh node1 echo far) & (ssh node2 echo near) & wait"])
            self.assertEqual(order.stdout.split(), ["near", "far"], order.stderr)
            sent = lab.run("head", ["ssh", "node1", "head -c 3000000 /dev/zero | md5sum"])
            self.assertEqual(sent.stdout.split()[0], "c9fc2d3dd83ab67a129ac10b09c9ebbb")
            lab.slow("node1")
            lab.slow("node2", rate="1mbit")
            command = "(ssh node2 'head -c 200000 /dev/zero' | tail -c1 | od -An -c; echo narrow) & " \
                      "(ssh node1 'head -c 200000 /dev/zero' | tail -c1 | od -An -c; echo wide) & wait"
            order = lab.run("head", ["sh", "-c", command])
            self.assertEqual(order.stdout.split(), ["\\0", "wide", "\\0", "narrow"], order.stderr)
            shown = lab.run("node2", ["tc", "qdisc", "show", "dev", "eth0"]).stdout
            self.assertIn("rate 1Mbit", shown)
            lab.slow("node2")
            self.assertNotIn("rate", lab.run("node2", ["tc", "qdisc", "show", "dev", "eth0"]).stdout)

    def test_signals_reach_a_process_of_a_host_and_its_end_is_seen(self):
        with Lab(1) as lab:
            process = lab.popen("node1", ["sleep", "1000"])
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=30), -signal.SIGTERM)

    def test_two_labs_at_once_do_not_see_each_other(self):
        with Lab(1) as one, Lab(1) as two:
            ssh(one, "node1", "touch /tmp/mine")
            self.assertEqual(two.files("node1"), set())
            one.cut("node1")
            self.assertEqual(ssh(two, "node1").stdout, "node1\n")

    def test_nothing_is_left_after_stop(self):
        before = machine()
        with Lab(3) as lab:
            ssh(lab, "node1", "nohup setsid sleep 1000 >/dev/null 2>&1 </dev/null &")
            lab.slow("node2", delay_ms=10, rate="100mbit")
            lab.cut("node3")
            own = network_namespaces(lab.pid(name) for name in lab.hosts + ["switch"])
        self.assertEqual(machine(), before)
        self.assertEqual(own & network_namespaces(), set())
        self.assertFalse(os.path.exists(lab.folder))

    def test_nothing_is_left_after_kill_9_of_the_maker(self):
        before = machine()
        code = ("import sys; sys.path.insert(0, sys.argv[1])\nfrom lab import Lab\nlab = Lab(2)\n"
                "print(lab.folder, *[lab.pid(host) for host in lab.hosts], flush=True)\nsys.stdin.read()")
        maker = subprocess.Popen(["/usr/bin/python3", "-c", code, HERE], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        folder, *pids = maker.stdout.readline().split()
        handles = [os.pidfd_open(int(pid)) for pid in pids]
        own = network_namespaces(pids)
        maker.kill()
        maker.wait()
        for handle in handles:  # readable once the process is gone
            self.assertTrue(select.select([handle], [], [], 30)[0], "a host outlived its maker")
            os.close(handle)
        maker.stdin.close()
        maker.stdout.close()
        self.assertEqual(own & network_namespaces(), set())
        lab_module.clean_stale()
        self.assertFalse(os.path.exists(folder))
        self.assertEqual(machine(), before)

    def test_the_command_starts_uses_and_stops_a_lab(self):
        before = machine()
        command = [HERE + "/lab", "--name", f"selftest-{os.getpid()}"]

        def lab(*words):
            done = subprocess.run(command + list(words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  stdin=subprocess.DEVNULL, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout)
            return done.stdout
        lab("start", "2")
        try:
            self.assertEqual(lab("in", "head", "ssh", "node2", "hostname"), "node2\n")
            lab("slow", "node1", "--rate", "10mbit")
            lab("cut", "node1")
            lab("heal", "node1")
            lab("kill", "node1", "--power")
            lab("revive", "node1")
            self.assertIn("sshd", lab("ps", "node1"))
            lab("files", "node1")
        finally:
            lab("stop")
        self.assertEqual(machine(), before)


def main():
    reason = lab_module.unavailable()
    if reason:
        print(f"SKIP: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
