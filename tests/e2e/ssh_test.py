"""Jobs over several hosts by ssh: launch, environment, the agent that deploys itself, and hosts that cannot be had."""
import json
import os
import re
import shutil
import unittest
import zlib

from harness import ROOT, TRAINRUN, WORKER, main, told
from lab import HOME
from lab_harness import AGENT_CACHE, SshTest

ALL = "node1:2,node2:2,node3:2"
WHERE = ("sh", "-c", "echo $RANK $LOCAL_RANK $GROUP_RANK $(hostname)")


class Launch(SshTest):
    def where(self, *words, **options):
        done = self.assertEnds(self.run_job(*words, "--tag", "none", *WHERE, **options), 0)
        return sorted(done.out.splitlines())

    def test_three_hosts_with_two_ranks_each_in_the_order_given(self):
        self.assertEqual(self.where("-np", 6, "-H", ALL), [
            "0 0 0 node1", "1 1 0 node1", "2 0 1 node2", "3 1 1 node2", "4 0 2 node3", "5 1 2 node3"])
        self.assertEqual(self.where("-H", "node3:1,node1:1"), ["0 0 0 node3", "1 0 1 node1"])

    def test_the_openssh_transport_does_the_same(self):
        self.assertEqual(self.where("--transport", "openssh", "-H", "node1:1,node2:1"), ["0 0 0 node1", "1 0 1 node2"])

    def test_a_host_behind_a_jump_host_is_reached_without_being_asked_for(self):
        with open(self.folder + "/config", "w") as file:
            file.write("Host node2\n  ProxyJump node1\n")
        words = ("--ssh-config", self.folder + "/config", "-H", "node1:1,node2:1", "--tag", "none", *WHERE)
        done = self.assertEnds(self.run_job(*words), 0)
        self.assertEqual(sorted(done.out.splitlines()), ["0 0 0 node1", "1 0 1 node2"])
        self.assertNotIn("Proxy", done.err)
        done = self.assertEnds(self.run_job("-v", *words), 0)
        self.assertSays(done, "node2: ssh_config reaches it through a ProxyJump .* reached by OpenSSH's ssh$")
        self.assertSays(done, "node1: reached by ssh$")
        self.assertNotRegex(done.err, "node1: .*OpenSSH")
        done = self.assertEnds(self.run_job("--transport", "ssh", *words), 2)
        self.assertSays(done, "node2: ssh_config reaches it through a ProxyJump", "try: use --transport openssh")

    def test_this_host_takes_part_without_ssh(self):
        self.assertEqual(self.where("-H", "head:1,node1:1"), ["0 0 0 head", "1 0 1 node1"])
        done = self.run_job("-v", "--ssh-port", 22, "-H", "head:1,node1:1", "true")
        self.assertSays(self.assertEnds(done, 0), "head: this host, without ssh$", "node1: reached by ssh as node1:22$")
        self.lab.kill("head")
        self.addCleanup(self.lab.revive, "head")
        self.before["head"] = set()
        self.assertEqual(self.where("-H", "head:2"), ["0 0 0 head", "1 1 0 head"])
        self.assertEqual(self.where("-H", "localhost:1,10.77.0.1:1"), ["0 0 0 head", "1 1 0 head"])

    def test_a_low_limit_on_open_files_is_raised(self):
        self.assertEnds(self.run_job("--nofile=16:", TRAINRUN, "-H", "node1:1,node2:1,node3:1", *WHERE, program="prlimit"), 0)

    def test_users_ports_and_addresses_of_a_host_can_be_given(self):
        self.on("node2", "/usr/sbin/sshd -f /run/.lab/sshd_config -o Port=2222 -o PidFile=/run/.lab/second")
        self.addCleanup(self.on, "node2", "kill $(cat /run/.lab/second)")
        self.before["node2"] = self.keys("node2")
        self.on("head", "sed 's/^head[^ ]*/[node2]:2222,[10.77.0.3]:2222/' ~/.ssh/known_hosts > ~/.ssh/more; "
                "cat ~/.ssh/more >> ~/.ssh/known_hosts")
        self.assertEqual(self.where("-H", "ssh://root@node2:2222"), ["0 0 0 node2"])
        self.assertEqual(self.where("-p", 2222, "-H", "root@node2:1"), ["0 0 0 node2"])
        with open(self.folder + "/hosts", "w") as file:
            file.write("node1 slots=1\nnode2 slots=1 port=2222 user=root\n")
        self.assertEqual(self.where("--hostfile", self.folder + "/hosts"), ["0 0 0 node1", "1 0 1 node2"])

    def test_master_addr_is_one_that_the_others_reach_and_the_port_can_be_bound_there(self):
        for hosts, first in (("node1:1,node2:1", ("node1", "10.77.0.2")), ("head:1,node2:1", ("head", "10.77.0.1"))):
            with self.subTest(hosts=hosts):
                given = told(self.assertEnds(self.run_job("-H", hosts, WORKER, "env"), 0))
                self.assertEqual(len({(value["env"]["MASTER_ADDR"], value["env"]["MASTER_PORT"])
                                      for value in given.values()}), 1)
                self.assertIn(given[0]["env"]["MASTER_ADDR"], first)

    def test_every_host_gets_the_default_list_and_the_rest_is_named(self):
        env = {"NCCL_DEBUG": "WARN", "PYTHONPATH": "/code", "WANDB_API_KEY": "hunter2", "MY_DATA": "/data"}
        done = self.assertEnds(self.run_job("-H", "head:1,node1:1", WORKER, "env", env=env), 0)
        for value in told(done).values():
            self.assertEqual((value["env"].get("NCCL_DEBUG"), value["env"].get("PYTHONPATH")), ("WARN", "/code"))
            self.assertNotIn("WANDB_API_KEY", value["env"])
            self.assertNotIn("MY_DATA", value["env"])
        self.assertSays(done, "not forwarded: .*MY_DATA", "WANDB_API_KEY", "-x NAME")
        self.assertNotIn("hunter2", done.err)
        done = self.assertEnds(self.run_job("-x", "MY_DATA", "-H", "node1:1", WORKER, "env", env=env), 0)
        self.assertEqual(told(done)[0]["env"]["MY_DATA"], "/data")

    def test_the_home_and_name_are_those_of_the_login_on_each_host(self):
        env = {"HOME": "/nowhere", "USER": "somebody", "LOGNAME": "somebody", "SHELL": "/bin/false"}
        login = self.on("node1", 'su - root -c "echo \\$HOME,\\$USER,\\$LOGNAME,\\$SHELL"').strip().split(",")
        names = ("HOME", "USER", "LOGNAME", "SHELL")
        for words in ([], ["--env", "all"], ["--env", "none", "-x", "PATH"]):
            with self.subTest(words=words):
                done = self.assertEnds(self.run_job(*words, "-H", "head:1,node1:1", WORKER, "env", env=env), 0)
                here, there = told(done)[0]["env"], told(done)[1]["env"]
                self.assertEqual([there.get(name) for name in names], login)
                self.assertEqual([here.get(name) for name in names], [env[name] for name in names])
        done = self.assertEnds(self.run_job("-x", "HOME=/own", "-H", "node1:1", WORKER, "env", env=env), 0)
        self.assertEqual(told(done)[0]["env"]["HOME"], "/own")

    def test_stdin_and_output_pass_whole(self):
        data = os.urandom(1 << 20) * 3
        done = self.assertEnds(self.run_job("-H", "node1:1,node2:1", WORKER, "checksum", feed=data), 0)
        self.assertIn(f"[0] bytes {len(data)} crc32 {zlib.crc32(data)}", done.out)
        done = self.assertEnds(self.run_job("-H", ALL, "--tag", "none", WORKER, "lines", 3000, 100), 0)
        lines = done.out.splitlines()
        for rank in range(6):
            self.assertEqual([line for line in lines if line.startswith(f"{rank}:")],
                             [f"{rank}:{number}:{'x' * 100}" for number in range(3000)])

    def test_a_shell_that_reads_a_file_goes_on_where_the_ranks_left_it(self):
        """What was read ahead for a rank that did not take it is no loss to the loop around."""
        with open(cases := os.path.join(self.folder, "cases"), "w", encoding="ascii") as file:
            file.write("".join(f"case {i}\n" for i in range(6)))
        for rank, left in (("true", 6), ("read taken", 3)):
            with self.subTest(rank=rank):
                loop = f'n=0; while read line; do n=$((n+1)); {TRAINRUN} -H node1 sh -c "{rank}"; done < {cases}; echo $n'
                done = self.assertEnds(self.run_job("-c", loop, program="/bin/bash"), 0)
                self.assertEqual(done.out.splitlines()[-1], str(left), done)
        # A pipe holds 64 KiB: the last byte fits only when some were read. Then the rank may end.
        job = f"(head -c 70000 /dev/zero; touch {self.folder}/fed) | {TRAINRUN} -H node1 {WORKER} when {self.folder}/fed exit 0"
        done = self.assertEnds(self.run_job("-c", job, program="/bin/bash"), 0)
        self.assertSays(done, r"[0-9]+ bytes of stdin were read, and no rank took them \(try: --stdin none, or </dev/null\)")

    def test_exit_codes_and_the_cause_name_the_host(self):
        done = self.run_job("-H", ALL, WORKER, "on", 3, "err", "no space", 5, "--", "wait")
        self.assertSays(self.assertEnds(done, 5), r"^trainrun: rank 3 on node2 exited with code 5, ", r"^  last words +.*no space$")
        done = self.run_job("-H", ALL, WORKER, "on", 4, "die", 11, "--", "wait")
        self.assertSays(self.assertEnds(done, 139), r"^trainrun: rank 4 on node3 was killed by SIGSEGV\b")

    def test_signals_are_forwarded_and_drain_on_every_host(self):
        job = self.start("-H", ALL, WORKER, "signals", 0)
        job.wait_for("ready", count=6)
        job.signal(10)
        job.wait_for("got USR1", count=6)
        job.signal(2)
        self.assertEqual(self.assertEnds(job.wait(), 130).out.count("got TERM"), 6)

    def test_noise_of_a_login_shell_does_no_harm(self):
        self.on("node1", "for i in $(seq 200); do echo 'echo noise noise noise; echo more >&2'; done > ~/.bashrc")
        self.addCleanup(self.on, "node1", ": > ~/.bashrc")
        trainrun = self.lone_trainrun()
        for _ in range(2):
            done = self.assertEnds(self.run_job("-H", "node1:1", *WHERE, program=trainrun), 0)
            self.assertEqual(done.out, "0 0 0 node1\n")

    def test_check_hosts_reports_every_host_and_starts_nothing(self):
        done = self.assertEnds(self.run_job("--check-hosts", "-H", ALL, "touch", self.folder + "/ran"), 0)
        self.assertRegex(done.out, r"\Anode1: ok: .*\nnode2: ok: .*\nnode3: ok: .*\n\Z")
        self.assertFalse(os.path.exists(self.folder + "/ran"))


class Deployment(SshTest):
    NODES = 2

    def setUp(self):
        super().setUp()
        self.trainrun = self.lone_trainrun()

    def run_lone(self, *words):
        return self.run_job(*words, program=self.trainrun)

    def cached(self, host):
        return self.on(host, f"cd {AGENT_CACHE} 2>/dev/null && stat -c '%n %i %Y %a' agent-* || true").split("\n")[:-1]

    def test_the_agent_is_uploaded_once_and_used_again(self):
        for transport in ("ssh", "openssh"):
            with self.subTest(transport=transport):
                self.on("node1", f"rm -rf {AGENT_CACHE}")
                self.assertEnds(self.run_lone("--transport", transport, "-H", "node1:1", *WHERE), 0)
                first = self.cached("node1")
                self.assertEqual(len(first), 1, first)
                self.assertTrue(first[0].endswith(" 700") or first[0].endswith(" 500"), first)
                self.assertEnds(self.run_lone("--transport", transport, "-H", "node1:1", *WHERE), 0)
                self.assertEqual(self.cached("node1"), first)

    def test_a_half_written_agent_is_replaced(self):
        size = "$(stat -c %s $a)"
        for transport in ("ssh", "openssh"):
            for kept in ("0", "1000", f"$(({size} / 2))", f"$(({size} - 1))"):
                with self.subTest(transport=transport, kept=kept):
                    self.assertEnds(self.run_lone("--transport", transport, "-H", "node1:1", *WHERE), 0)
                    whole = self.on("node1", f"stat -c %s {AGENT_CACHE}/agent-*")
                    self.on("node1", f"cd {AGENT_CACHE}; for a in agent-*; do head -c {kept} $a > part; chmod 700 part; mv part $a; done")
                    self.assertNotEqual(self.on("node1", f"stat -c %s {AGENT_CACHE}/agent-*"), whole)
                    done = self.assertEnds(self.run_lone("--transport", transport, "-H", "node1:1", *WHERE), 0)
                    self.assertEqual(self.on("node1", f"stat -c %s {AGENT_CACHE}/agent-*"), whole, done.err)

    def test_an_agent_of_the_right_size_with_other_bytes_is_replaced(self):
        for transport in ("ssh", "openssh"):
            for at in (0, 64):  # no ELF file, other headers
                with self.subTest(transport=transport, at=at):
                    self.assertEnds(self.run_lone("--transport", transport, "-H", "node1:1", *WHERE), 0)
                    whole = self.on("node1", f"sha256sum {AGENT_CACHE}/agent-*")
                    self.on("node1", f"head -c 4096 /dev/zero | dd of=$(echo {AGENT_CACHE}/agent-*) bs=1 seek={at} conv=notrunc status=none")
                    self.assertNotEqual(self.on("node1", f"sha256sum {AGENT_CACHE}/agent-*"), whole)
                    done = self.assertEnds(self.run_lone("--transport", transport, "-H", "node1:1", *WHERE), 0)
                    self.assertEqual(self.on("node1", f"sha256sum {AGENT_CACHE}/agent-*"), whole, done.err)

    def test_a_full_disk_is_told_and_agent_dir_is_the_way_out(self):
        self.on("node1", f"rm -rf {AGENT_CACHE}; mount -t tmpfs -o size=64k none {HOME}/.cache")
        self.addCleanup(self.on, "node1", f"umount {HOME}/.cache")
        done = self.assertEnds(self.run_lone("-H", "node1:1", *WHERE), 69)
        self.assertSays(done, r"node1: the agent \(\d+ bytes\) could not be stored: .*[Nn]o space left", "try: .*--agent-dir")
        self.assertEnds(self.run_lone("--agent-dir", self.folder + "/agents", "-H", "node1:1", *WHERE), 0)

    def test_a_home_without_execution_is_told_and_agent_dir_is_the_way_out(self):
        self.on("node1", f"mount -t tmpfs -o noexec none {HOME}/.cache")
        self.addCleanup(self.on, "node1", f"umount {HOME}/.cache")
        done = self.assertEnds(self.run_lone("-H", "node1:1", *WHERE), 69)
        self.assertSays(done, "node1: the agent may not be executed where it was stored: ", "that file system is mounted noexec; .*--agent-dir")
        self.assertEnds(self.run_lone("--agent-dir", self.folder + "/agents", "-H", "node1:1", *WHERE), 0)

    def test_an_installed_agent_that_others_could_have_written_is_not_run(self):
        """What the launcher's host has in /run/lone is its own; on another host anybody may have put it there."""
        self.assertEnds(self.run_lone("-H", "node1:1", *WHERE), 0)
        agent = self.on("node1", f"cd {AGENT_CACHE}; ls agent-*; cp agent-* {self.folder}").strip()
        place = "/run/lone/libexec/trainrun"
        evil = f"printf '#!/bin/sh\\ntouch {self.folder}/stolen\\n' > {agent}; chmod 755 {agent}"
        try:
            self.on("head", f"mkdir -p /run/lone/bin {place}; cp {TRAINRUN} /run/lone/bin; cp {self.folder}/{agent} {place}")
            for ours, opened in ((True, ":"), (False, f"chmod o+w {agent}"), (False, "chmod 777 ."),
                                 (False, f"chown 65534 {agent}")):
                with self.subTest(opened=opened):
                    self.on("node1", f"rm -rf {AGENT_CACHE}; mkdir -p {place}; cd {place}; chmod 755 .; rm -f *; {evil}; {opened}")
                    done = self.run_job("-H", "node1:1", *WHERE, program="/run/lone/bin/trainrun")
                    self.assertEqual(os.path.exists(self.folder + "/stolen"), ours, str(done))
                    if ours:  # it was taken for the agent, so the test can fail
                        os.remove(self.folder + "/stolen")
                    else:
                        self.assertEnds(done, 0)
        finally:
            for host in ("head", "node1"):
                self.on(host, "rm -rf /run/lone")

    def test_a_cache_that_belongs_to_another_user_is_not_trusted(self):
        self.assertEnds(self.run_lone("-H", "node1:1", *WHERE), 0)
        self.on("node1", f"chown -R 65534 {AGENT_CACHE}; for a in {AGENT_CACHE}agent-*; do "
                f"printf '#!/bin/sh\\ntouch {self.folder}/stolen\\n' > $a; done")
        self.run_lone("-H", "node1:1", *WHERE)
        self.assertFalse(os.path.exists(self.folder + "/stolen"), "a stranger's program was run")


class Unavailable(SshTest):
    """Hosts that cannot be had: all of them are named in one report, and no worker was started anywhere."""

    def refused(self, *words, code=69):
        marker = self.folder + "/ran"
        done = self.assertEnds(self.run_job(*words, "touch", marker), code)
        self.assertFalse(os.path.exists(marker), f"a worker was started: {done}")
        return done

    def known_hosts(self, script):
        self.on("head", f"cp ~/.ssh/known_hosts ~/.ssh/saved; {script}")
        self.addCleanup(self.on, "head", "mv ~/.ssh/saved ~/.ssh/known_hosts")

    def test_all_that_fail_are_in_one_report_with_their_reasons(self):
        self.known_hosts("sed -i 's/node[*]/node1,node2/; s/,10.77.[*]//' ~/.ssh/known_hosts")
        self.lab.cut("node1")
        self.addCleanup(self.lab.heal, "node1")
        self.lab.kill("node2")
        self.addCleanup(self.lab.revive, "node2")
        self.before["node2"] = set()
        done = self.refused("--start-timeout", 6, "-H", "head:1,node1:1,node2:1,node3:1,no-such-name:1")
        self.assertSays(done, "node1.*([Tt]imed? ?out|[Nn]o route|no answer)", "node2.*[Rr]efused", "node3.*key",
                        "no-such-name")

    def test_one_command_fetches_the_keys_of_all_hosts_that_are_unknown(self):
        self.known_hosts(": > ~/.ssh/known_hosts")
        for words in ([], ["--check-hosts"]):
            done = self.run_job(*words, "-H", "node1:1,node2:1,node3:1", *WHERE)
            self.assertEnds(done, 69)
            said = done.out + done.err
            command = re.findall(r"or(?: \(unless a jump host is between\))?: (ssh-keyscan .*)$", said, re.M)
            self.assertEqual(len(command), 1, said)
            self.assertIn("node1 node2 node3 >> ", command[0])
        self.on("head", command[0])
        self.assertEnds(self.run_job("-H", "node1:1,node2:1,node3:1", *WHERE), 0)

    def test_an_unknown_host_key_is_told_with_its_fingerprint_and_the_cure(self):
        self.known_hosts(": > ~/.ssh/known_hosts")
        done = self.refused("-H", "node1:1")
        self.assertSays(done, r"node1: its host key is not known: \S+ SHA256:", "--ssh-accept-new")
        self.assertEnds(self.run_job("--ssh-accept-new", "-H", "node1:1", *WHERE), 0)
        self.assertEnds(self.run_job("-H", "node1:1", *WHERE), 0)

    def test_another_host_key_is_refused_even_when_new_ones_are_accepted(self):
        self.known_hosts("ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/other; "
                         "echo \"node1 $(cat ~/.ssh/other.pub)\" > ~/.ssh/known_hosts; rm ~/.ssh/other*")
        for words in ((), ("--ssh-accept-new",)):
            done = self.refused(*words, "-H", "node1:1")
            self.assertSays(done, r"node1: ITS HOST KEY HAS CHANGED, now \S+ SHA256:")

    def test_a_refused_login_is_told(self):
        self.on("node1", "mv ~/.ssh/authorized_keys ~/.ssh/away")
        self.addCleanup(self.on, "node1", "mv ~/.ssh/away ~/.ssh/authorized_keys")
        for transport, says in (("ssh", "node1: none of your keys was accepted for user \\S+"), ("openssh", "node1: .*Permission denied")):
            with self.subTest(transport=transport):
                self.assertSays(self.refused("--transport", transport, "-H", "node1:1,node2:1"), says)

    def test_a_program_that_one_host_lacks_is_127_and_the_host_is_named(self):
        for host in ("node1", "node3"):
            self.on(host, f"cp {WORKER} /tmp/only-here")
            self.addCleanup(self.on, host, "rm /tmp/only-here")
            self.files_before[host].add("/tmp/only-here")
        done = self.assertEnds(self.run_job("-H", ALL, "/tmp/only-here", "lines", 1), 127)
        self.assertSays(done, "node2: program '/tmp/only-here' not found: No such file")
        self.assertEqual(done.out, "", "no worker was started")

    def venv(self, *hosts):
        """A python3 of its own on these hosts; gives a PATH where it comes first."""
        for host in hosts:
            self.on(host, "mkdir -p /tmp/venv/bin && ln -s /usr/bin/python3 /tmp/venv/bin/python3")
            self.addCleanup(self.on, host, "rm -r /tmp/venv")
            self.files_before[host] |= {"/tmp/venv/", "/tmp/venv/bin/", "/tmp/venv/bin/python3"}
        return {"PATH": "/tmp/venv/bin:/usr/bin:/bin"}

    def test_a_virtual_environment_that_one_host_lacks_is_127_and_not_another_python(self):
        env = self.venv("head", "node1")
        with open(self.folder + "/by_env", "w") as file:
            file.write("#!/usr/bin/env python3\nimport sys; print(sys.executable)\n")
        os.chmod(self.folder + "/by_env", 0o755)
        shutil.copy(self.folder + "/by_env", self.folder + "/plain.py")
        os.chmod(self.folder + "/plain.py", 0o644)
        for program in (["python3", "plain.py"], ["plain.py"], ["./by_env"], ["env", "A=1", "python3", "plain.py"]):
            for words in ([], ["--check-hosts"]):
                with self.subTest(program=program, words=words):
                    done = self.assertEnds(self.run_job(*words, "-H", "head:1,node1:1,node2:1", *program, env=env), 127)
                    said = done.out + done.err
                    self.assertIn("node2: program '/tmp/venv/bin/python3' not found: No such file", said)
                    self.assertIn("--resolve each", said)
                    self.assertNotRegex(said, "(?m)^.*(head|node1): program|/usr/bin/python3$")
            with self.subTest(program=program, resolve="each"):
                done = self.assertEnds(self.run_job("--resolve", "each", "--tag", "none", "-H", "node1:1,node2:1",
                                                    *program, env=env), 0)
                self.assertEqual(sorted(done.out.splitlines()), ["/tmp/venv/bin/python3", "/usr/bin/python3"])
            with self.subTest(program=program, hosts="that have it"):
                done = self.assertEnds(self.run_job("--tag", "none", "-H", "head:1,node1:1", *program, env=env), 0)
                self.assertEqual(done.out, "/tmp/venv/bin/python3\n" * 2)

    def test_a_program_that_only_other_hosts_have_is_found_there(self):
        env = self.venv("node1")
        self.on("node1", "ln -s /bin/true /tmp/venv/bin/only_there")
        self.files_before["node1"].add("/tmp/venv/bin/only_there")
        done = self.assertEnds(self.run_job("-v", "-H", "node1:1", "only_there", env=env), 0)
        self.assertSays(done, "'only_there' is not in PATH here: each host looks in its own")
        done = self.assertEnds(self.run_job("-H", "node1:1,node2:1", "only_there", env=env), 127)
        self.assertSays(done, "node2: program 'only_there' not found")

    def test_a_script_that_one_host_lacks_is_127_and_the_host_is_named(self):
        self.on("head", "echo 'print(1)' > /tmp/only_here.py")
        self.addCleanup(self.on, "head", "rm /tmp/only_here.py")
        self.files_before["head"].add("/tmp/only_here.py")
        for words, script in ([], "/tmp/only_here.py"), (["--check-hosts"], "/tmp/only_here.py"), (["--wdir", "/tmp"], "only_here.py"):
            with self.subTest(words=words):
                done = self.assertEnds(self.run_job(*words, "-H", "head:1,node1:1", "python3", script), 127)
                self.assertIn("node1: script '/tmp/only_here.py' cannot be read: No such file", done.out + done.err)
                self.assertNotIn("head: script", done.out + done.err)

    def test_a_directory_that_one_host_lacks_is_an_error_and_never_home(self):
        for host in ("head", "node1"):
            self.on(host, "mkdir /tmp/work")
            self.addCleanup(self.on, host, "rmdir /tmp/work")
            self.files_before[host].add("/tmp/work/")
        done = self.run_job("-H", "node1:1,node2:1", "touch", self.folder + "/ran", cwd="/tmp/work")
        self.assertSays(self.assertEnds(done, 2), "node2: no usable directory '/tmp/work': No such file")
        self.assertFalse(os.path.exists(self.folder + "/ran"))

    def test_check_hosts_names_the_bad_and_the_good(self):
        self.lab.kill("node2")
        self.addCleanup(self.lab.revive, "node2")
        self.before["node2"] = set()
        done = self.assertEnds(self.run_job("--check-hosts", "-H", ALL, "true"), 69)
        self.assertRegex(done.out, r"\Anode1: ok: .*\nnode2: .*refused\n    try: .*\nnode3: ok: .*\n\Z")
        done = self.assertEnds(self.run_job("--check-hosts", "--json", "-H", ALL, "true"), 69)
        found = json.loads(done.out)
        self.assertEqual((found["ok"], found["exit_code"]), (False, 69))
        self.assertEqual([(host["name"], host["ok"], host.get("code")) for host in found["hosts"]],
                         [("node1", True, None), ("node2", False, "unreachable"), ("node3", True, None)])


class Frameworks(SshTest):
    NODES = 2
    OPTIONS = {"own_name_on_loopback": True}

    def test_unmodified_pytorch_ddp_trains_over_two_hosts_whose_names_are_on_loopback(self):
        if not os.path.isdir(ROOT + "/examples/torch_ddp"):
            raise unittest.SkipTest("examples/torch_ddp is not written")
        if self.lab.run("head", ["/usr/bin/python3", "-c", "import torch"]).returncode != 0:
            raise unittest.SkipTest("python3-torch is not installed")
        script = next(name for name in sorted(os.listdir(ROOT + "/examples/torch_ddp")) if name.endswith(".py"))
        shutil.copytree(ROOT + "/examples", self.folder + "/examples")
        done = self.run_job("-H", "node1:1,node2:1", "/usr/bin/python3", f"examples/torch_ddp/{script}", timeout=300)
        self.assertEnds(done, 0)
        self.assertRegex(done.out, r"held-out accuracy 9\d\.\d %")


if __name__ == "__main__":
    main()
