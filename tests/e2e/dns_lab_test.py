"""--discover dns:NAME with real answers: hosts are addresses that come and go."""
import subprocess

from elastic_lab import ElasticLabTest
from harness import HERE, main

NAME = "workers.training.lab"
# A link of systemd-resolved leads into /run, which is the host's own, so there the file is made; else a file of the
# host's own is laid over the machine's. Without any, the resolver asks 127.0.0.1 too.
RESOLVER = """
echo nameserver 127.0.0.1 > /run/resolv.conf
if [ -f /etc/resolv.conf ]; then mount --bind /run/resolv.conf /etc/resolv.conf
elif [ -L /etc/resolv.conf ]; then
  target=$(readlink -m /etc/resolv.conf) && mkdir -p "${target%/*}" && cp /run/resolv.conf "$target"
fi
"""


class Dns(ElasticLabTest):
    """The name's addresses are lines of a file, see dns_server.py."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = cls.lab.run("head", ["sh", "-ec", RESOLVER])
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    def setUp(self):
        super().setUp()
        self.write("addresses", "10.77.0.3\n10.77.0.2\n")
        server = self.lab.popen("head", ["/usr/bin/python3", HERE + "/dns_server.py", NAME, self.folder + "/addresses",
                                         self.folder + "/answers"], stdout=subprocess.PIPE,
                                stdin=subprocess.DEVNULL)
        self.addCleanup(self.end_server, server)
        self.assertEqual(server.stdout.readline(), b"ready\n")
        self.before["head"] = self.keys("head")

    @staticmethod
    def end_server(server):
        server.kill()
        server.wait()
        server.stdout.close()

    def begin_found(self, size):
        return self.begin("--discovery-interval", "200ms",
                          hosts=("--discover", f"dns:{NAME}:2", "-np", 4, "--max-np", 6), size=size)

    def hosts_of(self, starts):
        return [start["host"] for start in starts]

    def test_two_addresses_become_three_and_two_again(self):
        self.assertEqual(self.hosts_of(self.begin_found(4)), ["node1", "node1", "node2", "node2"])
        self.write("addresses", "10.77.0.3\n10.77.0.4\n10.77.0.2\n")
        self.assertEqual(self.hosts_of(self.await_generation(self.job, 2, 6)),
                         ["node1", "node1", "node2", "node2", "node3", "node3"])
        self.write("addresses", "10.77.0.4\n10.77.0.2\n")
        self.assertEqual(self.hosts_of(self.await_generation(self.job, 3, 4)), ["node1", "node1", "node3", "node3"])
        self.job.wait_until(lambda: not self.new("node2"), "nothing is left on the host that has gone")
        self.end([0, 0, 0], "hosts found: 10.77.0.4", "generation 2: 6 ranks on 3 hosts; 10.77.0.4 came",
                 "hosts no longer listed: 10.77.0.3", "generation 3: 4 ranks on 2 hosts; 10.77.0.3 left",
                 "3 generations; 2 changes .hosts")

    def test_a_server_in_trouble_and_a_name_that_is_gone_change_nothing(self):
        self.begin_found(4)
        for trouble in ("fail", ""):
            self.write("addresses", trouble)
            # Looks that agree are what would make a host leave. A look may be two questions, and be repeated.
            self.job.wait_until(lambda: self.answers().count(trouble) >= 12, f"the answer is {trouble!r} again and again")
        self.write("addresses", "10.77.0.2\n10.77.0.3\n10.77.0.4\n")
        self.await_generation(self.job, 2, 6)
        done = self.end([0, 0], "getent ahosts .* the last good answer stays", "host discovery answers again: 3 hosts",
                        "generation 2: 6 ranks on 3 hosts; 10.77.0.4 came", r"2 generations; 1 change .hosts came.")
        self.assertEqual(done.err.count("the last good answer stays"), 1, done.err)

    def answers(self):
        with open(self.folder + "/answers") as file:
            return file.read().split("\n")[:-1]

    def test_addresses_of_ipv6(self):
        self.write("addresses", "\n".join(self.lab.address6(host) for host in ("node1", "node2")))
        self.assertEqual(self.hosts_of(self.begin_found(4)), ["node1", "node1", "node2", "node2"])
        self.write("addresses", "\n".join(self.lab.address6(host) for host in ("node1", "node2", "node3")))
        self.assertEqual(self.hosts_of(self.await_generation(self.job, 2, 6)),
                         ["node1", "node1", "node2", "node2", "node3", "node3"])
        self.end([0, 0], "hosts found: fd77::4", "generation 2: 6 ranks on 3 hosts; fd77::4 came")


if __name__ == "__main__":
    main()
