"""Logins by ssh that need more than a key in its place, or fail: jump hosts, keys, ssh agents, users that nobody knows, hosts
that say nothing. Every message names what failed, where and why."""
import os
import re

from harness import TRAINRUN, main
from lab import HOME
from lab_harness import SshTest

WHERE = ("sh", "-c", "echo $RANK $(hostname)")


class LoginTest(SshTest):
    NODES = 2

    def refused(self, *words, code=69, **options):
        marker = self.folder + "/ran"
        done = self.assertEnds(self.run_job(*words, "touch", marker, **options), code)
        self.assertFalse(os.path.exists(marker), f"a worker was started: {done}")
        return done

    def ran(self, *words, **options):
        done = self.assertEnds(self.run_job("--tag", "none", *words, *WHERE, **options), 0)
        return sorted(done.out.splitlines()), done.err

    def away(self, host, path):
        """A file is not there during the test."""
        self.on(host, f"mv {path} {path}.away")
        self.addCleanup(self.on, host, f"mv {path}.away {path}")

    def listen(self, host, script):
        """A Python program on a host, until the end of the test; returns when it has said that it is ready."""
        job = self.start("-c", "import socket, time\n" + script + "\nprint('ready', flush=True)\ntime.sleep(600)",
                         program="/usr/bin/python3", host=host)
        self.addCleanup(job.kill_all)
        job.wait_for("ready")
        self.before[host] = self.keys(host)

    def kill(self, host):
        self.lab.kill(host)
        self.addCleanup(self.lab.revive, host)
        self.before[host] = set()


class Aliases(LoginTest):
    def test_a_pattern_behind_a_HostName_counts_as_for_ssh(self):
        with open(self.folder + "/config", "w") as file:
            file.write("Host twin\n  HostName node2\n  Port 1\nHost tw*\n  User root\nHost *\n  LogLevel ERROR\n")
        words = ("-v", "--ssh-config", self.folder + "/config", "--ssh-port", 22, "--tag", "none", "-H", "twin:1", "hostname")
        done = self.assertEnds(self.run_job(*words), 0)
        self.assertEqual(done.out, "node2\n")
        self.assertSays(done, "twin: libssh reads 'Host tw\\*' of ssh_config as if it were about node2.* reached by OpenSSH's ssh$")


class JumpHosts(LoginTest):
    def setUp(self):
        super().setUp()
        self.config("Host node2\n  ProxyJump node1\n")

    def config(self, text):
        with open(self.folder + "/config", "w") as file:
            file.write(text)
        self.words = ("--ssh-config", self.folder + "/config", "-H", "node2:1")

    def test_the_jump_host_is_down(self):
        self.kill("node1")
        done = self.refused(*self.words)
        self.assertSays(done, r"node2: not reached, its jump host or ProxyCommand failed: .*connect to host node1 .*refused",
                        r"ssh_config reaches it through a ProxyJump \(node1\)")

    def test_the_host_behind_it_is_down(self):
        self.kill("node2")
        done = self.refused(*self.words)
        self.assertSays(done, "node2: its jump host accepts us but cannot connect to it: .*Connection refused")

    def test_the_jump_host_takes_no_key_of_ours(self):
        self.away("node1", "~/.ssh/authorized_keys")
        done = self.refused(*self.words)
        self.assertSays(done, "node2: not reached, its jump host .* failed: .*root@node1: Permission denied")

    def test_the_host_behind_it_takes_no_key_of_ours(self):
        self.away("node2", "~/.ssh/authorized_keys")
        done = self.refused(*self.words)
        self.assertSays(done, "node2: ssh says: .*root@node2: Permission denied")
        self.assertNotIn("jump host", done.err)

    def test_the_jump_host_is_named_in_a_file_that_is_included_or_by_match(self):
        self.on("head", "mkdir -p ~/.ssh/more.d; printf 'Host node2\\n ProxyJump node1\\n' > ~/.ssh/more.d/jump")
        self.addCleanup(self.on, "head", "rm -r ~/.ssh/more.d; rm -f ~/.ssh/config")
        for text in ("Include more.d/*", "Include ~/.ssh/more.d/jump", "Match host node2\\n ProxyJump node1",
                     "Match final host node2\\n ProxyJump node1", "Host node1\\n ProxyJump none\\nHost *\\n ProxyJump node1"):
            with self.subTest(text=text):
                self.on("head", f"printf '{text}\\n' > ~/.ssh/config")
                out, err = self.ran("-v", "-H", "node2:1")
                self.assertEqual(out, ["0 node2"])
                self.assertIn("through a ProxyJump (node1): reached by OpenSSH's ssh", err)

    def test_nobody_is_asked_for_the_key_of_the_jump_host(self):
        self.on("head", "cp ~/.ssh/known_hosts ~/.ssh/saved; sed -i 's/^head[^ ]*/node2/' ~/.ssh/known_hosts; "
                f"printf '#!/bin/sh\\ntouch {self.folder}/asked\\necho yes\\n' > {self.folder}/ask; chmod 755 {self.folder}/ask")
        self.addCleanup(self.on, "head", "mv ~/.ssh/saved ~/.ssh/known_hosts")
        env = {"DISPLAY": ":0", "SSH_ASKPASS": self.folder + "/ask", "SSH_ASKPASS_REQUIRE": "force"}
        done = self.refused(*self.words, env=env)
        self.assertSays(done, "node2: not reached, its jump host .* failed: 'Host key verification failed",
                        "log in to the jump host once by hand")
        self.assertFalse(os.path.exists(self.folder + "/asked"))


class Keys(LoginTest):
    def setUp(self):
        super().setUp()
        self.key = self.folder + "/key"
        self.new_key = f"cp ~/.ssh/id_ed25519 {self.key}; chmod 600 {self.key}; "
        self.on("head", self.new_key)
        self.words = ("-i", self.key, "-H", "node1:1,node2:1")

    def test_a_key_that_can_be_used_is(self):
        self.away("head", "~/.ssh/id_ed25519")
        self.assertEqual(self.ran(*self.words)[0], ["0 node1", "1 node2"])

    def test_a_key_that_cannot_be_used_is_told_once_before_anybody_is_called(self):
        phrase = f"rm {self.key}; ssh-keygen -q -t ed25519 -N secret -f {self.key}"
        for spoil, said in ((f"echo nonsense > {self.key}", "holds no private key"),
                            (f": > {self.key}", "holds no private key"),
                            (f"head -n 3 ~/.ssh/id_ed25519 > {self.key}", "is cut off"),
                            (f"chmod 644 {self.key}", r"is readable by others \(mode 0644\)"),
                            (f"cp ~/.ssh/id_ed25519.pub {self.key}", "is the public half"),
                            (phrase, "has a passphrase, .* no ssh agent"),
                            (phrase + f"; ssh-keygen -q -p -m PEM -P secret -N other -f {self.key}", "has a passphrase")):
            with self.subTest(spoil=spoil):
                self.on("head", self.new_key + spoil)
                for words in ((), ("--transport", "openssh"), ("--check-hosts",), ("--dry-run",)):
                    done = self.assertEnds(self.run_job(*words, *self.words, *WHERE), 2)
                    self.assertEqual(done.err.count(self.key + "'"), 1, done.err)
                    self.assertSays(done, f"trainrun: -i: key '{self.key}' {said}", "\n  try: ")

    def test_a_key_of_others_is_told_with_the_words_of_the_system(self):
        self.on("head", f"chmod 755 {self.folder}")
        done = self.assertEnds(self.run_job("--reuid", "65534", "--clear-groups", TRAINRUN, *self.words, *WHERE,
                                            program="setpriv"), 2)
        self.assertSays(done, f"-i: key '{self.key}' cannot be read: Permission denied")

    def test_a_key_of_one_host_is_told_with_the_host(self):
        with open(self.folder + "/hosts", "w") as file:
            file.write(f"node1 slots=1\nnode2 slots=1 identity={self.folder}/none\n")
        done = self.assertEnds(self.run_job("--hostfile", self.folder + "/hosts", *WHERE), 2)
        self.assertSays(done, f"node2: key '{self.folder}/none' cannot be read: No such file or directory")

    def test_a_local_job_does_not_look_at_it(self):
        self.on("head", f"echo nonsense > {self.key}")
        self.assertEqual(self.ran("-i", self.key, "-np", 1)[0], ["0 head"])


class SshAgents(LoginTest):
    """The key that is named does not fit, so that the ssh agent is asked, and then the other keys."""

    def setUp(self):
        super().setUp()
        self.away("head", "~/.ssh/id_ed25519")
        self.on("head", "cp ~/.ssh/id_ed25519.away ~/.ssh/second")
        self.addCleanup(self.on, "head", "rm -f ~/.ssh/second")
        self.on("head", f"ssh-keygen -q -t ed25519 -N '' -f {self.folder}/other")
        with open(self.folder + "/config", "w") as file:
            file.write(f"IdentityFile {HOME}/.ssh/second\n")
        self.words = ("-v", "--ssh-config", self.folder + "/config", "-i", self.folder + "/other", "-H", "node1:1")

    def test_one_that_is_gone_or_hangs_is_passed_over(self):
        self.listen("head", "s = socket.socket(socket.AF_UNIX)\ns.bind('/tmp/hangs')\ns.listen(5)\n"
                    "d = socket.socket(socket.AF_UNIX)\nd.bind('/tmp/dead')\nd.close()")
        self.addCleanup(self.on, "head", "rm /tmp/hangs /tmp/dead")
        self.files_before["head"] |= {"/tmp/hangs", "/tmp/dead"}
        for path, why in (("/tmp/none", "No such file"), ("/tmp/dead", "Connection refused"), ("/tmp/hangs", "no answer")):
            with self.subTest(path=path):
                out, err = self.ran(*self.words, env={"SSH_AUTH_SOCK": path})
                self.assertEqual(out, ["0 node1"])
                self.assertRegex(err, f"node1: the ssh agent is of no use: {path}: {why}")

    def test_it_is_told_when_no_key_is_left(self):
        self.on("head", "rm ~/.ssh/second")
        done = self.refused(*self.words, env={"SSH_AUTH_SOCK": "/tmp/none"})
        self.assertSays(done, "node1: none of your keys was accepted .*the ssh agent is of no use: /tmp/none: No such file")


class Machines(LoginTest):
    def test_two_names_of_one_machine_are_told(self):
        address = self.lab.address("node2")
        for words in ([], ["--check-hosts"], ["--bind-to", "core"]):
            with self.subTest(words=words):
                done = self.run_job(*words, "-H", f"node1:1,node2:1,{address}:1", *WHERE)
                self.assertEqual(done.rc, 2, str(done))
                said = done.out + done.err
                self.assertRegex(said, f"({address}: is the same machine as node2|node2: is the same machine as {address}): "
                                 "its cores and GPUs would be given twice")
                self.assertIn("name it once, as node2:2, or add --oversubscribe", said)
        self.assertEqual(self.ran("--oversubscribe", "-H", f"node2:1,{address}:1")[0], ["0 node2", "1 node2"])

    def test_an_elastic_job_goes_on_without_the_second_name(self):
        done = self.assertEnds(self.run_job("-np", 2, "--min-np", 1, "--elastic-timeout", 1, "--tag", "none", "-H",
                                            f"node1:1,node2:1,{self.lab.address('node1')}:1", *WHERE), 0)
        self.assertEqual(sorted(done.out.splitlines()), ["0 node1", "1 node2"])

    def test_a_port_of_ours_that_is_taken_is_told_with_who_has_it(self):
        for host, hosts in (("node1", "node1:1,node2:1"), ("head", "head:2")):
            with self.subTest(host=host):
                self.listen(host, "s = socket.socket()\ns.bind(('', 29777))\ns.listen()")
                done = self.refused("--master-port", 29777, "-H", hosts, code=75)
                self.assertSays(done, f"{host}: rank 0 could not listen on --master-port 29777: Address already in use "
                                r"\(by python3, pid [0-9]+\)", "leave --master-port out")
        self.assertEqual(self.ran("--master-port", 29778, "-H", "node1:1")[0], ["0 node1"])

    def test_ranks_have_the_umask_of_the_login_also_when_the_agent_was_just_brought(self):
        trainrun = self.lone_trainrun()
        login = self.on("head", "ssh node1 umask").strip()
        self.assertNotEqual(login, "0077")
        for transport in ("ssh", "openssh"):
            self.on("node1", "rm -rf ~/.cache/trainrun")
            for time in ("first", "second"):
                with self.subTest(transport=transport, time=time):
                    done = self.run_job("--transport", transport, "-H", "node1:1", "sh", "-c", "umask", program=trainrun)
                    self.assertEqual(self.assertEnds(done, 0).out.strip(), login)
        done = self.run_job("-c", f"umask 007; exec {TRAINRUN} -np 1 sh -c umask", program="sh")
        self.assertEqual(self.assertEnds(done, 0).out.strip(), "0007")

    def test_without_libssh_hosts_are_reached_by_openssh_and_local_jobs_need_neither(self):
        hidden = "for lib in /usr/lib/*/libssh.so.4*; do mount --bind /dev/null $lib; done; "
        inside = ("--mount", "sh", "-c", hidden + 'exec "$@"', "sh", TRAINRUN, "--tag", "none")

        def run(*words, **options):
            return self.run_job(*inside, *words, *WHERE, program="unshare", **options)

        self.assertEqual(self.assertEnds(run("-np", 1), 0).out, "0 head\n")
        done = self.assertEnds(run("-v", "-H", "node1:1,node2:1"), 0)
        self.assertEqual(sorted(done.out.splitlines()), ["0 node1", "1 node2"])
        self.assertSays(done, "node1: libssh cannot be loaded: .*: reached by OpenSSH's ssh")
        done = self.assertEnds(run("--transport", "ssh", "-H", "node1:1"), 69)
        self.assertSays(done, "node1: libssh cannot be loaded: ", "apt install libssh-4")

    def test_a_user_without_an_entry_is_told_once_that_ssh_needs_one(self):
        words = ("--reuid", "12345", "--clear-groups", TRAINRUN, "--tag", "none")
        done = self.assertEnds(self.run_job(*words, "-np", 1, "id", "-u", program="setpriv", env={"HOME": "/none"}, cwd="/"), 0)
        self.assertEqual(done.out, "12345\n")
        for transport in ("auto", "ssh", "openssh"):
            with self.subTest(transport=transport):
                done = self.assertEnds(self.run_job(*words, "--transport", transport, "-H", "node1:1,node2:1", *WHERE,
                                                    program="setpriv", cwd="/"), 2)
                self.assertEqual(done.err.count("12345"), 1, done.err)
                self.assertSays(done, "nobody can log in by ssh as uid 12345, which has no entry in /etc/passwd")


class HostKeys(LoginTest):
    """One command is told for all hosts, and it helps."""

    def setUp(self):
        super().setUp()
        self.on("head", "cp ~/.ssh/known_hosts ~/.ssh/saved")
        self.addCleanup(self.on, "head", "mv ~/.ssh/saved ~/.ssh/known_hosts; rm -f ~/.ssh/known_hosts.old")

    def cured(self, transport, pattern):
        words = ("--transport", transport, "-H", "node1:1,node2:1")
        done = self.refused(*words)
        self.assertEqual(done.err.count("try: "), 1, done.err)
        command = re.search(pattern, done.err, re.M)
        self.assertTrue(command, done.err)
        self.on("head", command[1])
        self.assertEqual(self.ran(*words)[0], ["0 node1", "1 node2"])

    def test_of_unknown_hosts(self):
        for transport in ("ssh", "openssh"):
            with self.subTest(transport=transport):
                self.on("head", ": > ~/.ssh/known_hosts")
                self.cured(transport, r"(ssh-keyscan -H -t [a-z0-9-]+ node1 node2 >> \S+)$")

    def test_of_hosts_whose_key_has_changed(self):
        self.on("head", "rm -f ~/.ssh/other*; ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/other; "
                "(for h in node1 node2; do echo \"$h $(cat ~/.ssh/other.pub)\"; done) > ~/.ssh/known_hosts; rm ~/.ssh/other*")
        self.cured("ssh", "(for h in 'node1' 'node2'; do ssh-keygen .*)")


class Silence(LoginTest):
    def test_a_host_that_takes_connections_and_never_speaks_is_told_with_the_step(self):
        self.listen("node1", "s = socket.socket()\ns.bind(('', 2222))\ns.listen()")
        for transport, step in (("ssh", "exchanging keys with its sshd"), ("openssh", "ssh logs in and starts the agent")):
            with self.subTest(transport=transport):
                done = self.refused("--transport", transport, "--start-timeout", 3, "-p", 2222, "-H", "node1:1")
                self.assertSays(done, f"node1: no answer while {step}, given up after 2.[0-9] s", "--start-timeout")

    def test_a_login_that_stalls_is_told_with_the_step(self):
        self.on("node1", "chmod 755 /run; printf '#!/bin/sh\\nexec sleep 600\\n' > /run/stalls; chmod 755 /run/stalls; "
                "/usr/sbin/sshd -f /run/.lab/sshd_config -o Port=2223 -o AuthorizedKeysFile=none -o AuthorizedKeysCommandUser=root "
                "-o AuthorizedKeysCommand=/run/stalls -o PidFile=/run/.lab/second")
        self.addCleanup(self.on, "node1", "kill $(cat /run/.lab/second); rm /run/stalls; pkill -x sleep")
        self.files_before["node1"].add("/run/stalls")
        self.on("head", "cp ~/.ssh/known_hosts ~/.ssh/saved; sed 's/^head[^ ]*/[node1]:2223/' ~/.ssh/saved >> ~/.ssh/known_hosts")
        self.addCleanup(self.on, "head", "mv ~/.ssh/saved ~/.ssh/known_hosts")
        for transport, step in (("ssh", "logging in"), ("openssh", "ssh logs in and starts the agent")):
            with self.subTest(transport=transport):
                done = self.refused("--transport", transport, "--start-timeout", 4, "-p", 2223, "-H", "node1:1")
                self.assertSays(done, f"node1: no answer while {step}, given up after 3.[0-9] s")
        self.before["node1"] = self.keys("node1")

    def test_a_dns_that_does_not_answer_is_told(self):
        self.listen("head", "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('127.0.0.1', 53))")
        self.on("head", "echo nameserver 127.0.0.1 > /run/resolv; mount --bind /run/resolv /etc/resolv.conf")
        self.addCleanup(self.on, "head", "umount /etc/resolv.conf; rm /run/resolv")
        self.files_before["head"].add("/run/resolv")
        done = self.refused("--start-timeout", 3, "-H", "no-such-host:1,node2:1")
        self.assertSays(done, "no-such-host: no answer while looking up its name, given up after", "getent hosts no-such-host")
        self.assertNotIn("node2:", done.err)

    def test_one_that_is_no_sshd_is_told(self):
        self.listen("node1", "import threading\ns = socket.socket()\ns.bind(('', 2222))\ns.listen()\n"
                    "def serve():\n  while True:\n    c = s.accept()[0]\n    c.sendall(b'HTTP/1.0 400 Bad\\r\\n\\r\\n')\n    c.close()\n"
                    "threading.Thread(target=serve, daemon=True).start()")
        done = self.refused("-p", 2222, "-H", "node1:1", "--start-timeout", 4)
        self.assertSays(done, "node1: port 2222 does not talk like an sshd")


if __name__ == "__main__":
    main()
