"""A host that is slow, or that swallows all packets, keeps no other host's login waiting. What proves it is the order: of
hosts that are found at the same moment, those that answer join the world first, though they are last in the list."""
from elastic_lab import ElasticLabTest
from harness import main

TIMES = ("--host-timeout", "20s", "--grace", "1s", "--settle", "200ms")
SILENT = 40  # more than the dials that begin at once


class SlowHost(ElasticLabTest):
    NODES = 4

    def begin_on_two(self, *words):
        self.write("hosts", "node2:2\nnode3:2\n")
        self.job = self.start(*TIMES, *self.POLICY, *words, "--discover", f"file:{self.folder}/hosts", "-np", 4, "--max-np",
                              2 * SILENT + 6, *self.train())
        self.await_generation(self.job, 1, 4)

    def hosts_of(self, generation, size):
        return {start["host"] for start in self.await_generation(self.job, generation, size)}

    def test_a_slow_host_comes_after_the_others(self):
        self.begin_on_two()
        self.addCleanup(self.lab.slow, "node1")
        self.lab.slow("node1", delay_ms=200)
        self.write("hosts", "node1:2\nnode2:2\nnode3:2\nnode4:2\n")
        self.assertEqual(self.hosts_of(2, 6), {"node2", "node3", "node4"})
        self.assertEqual(self.hosts_of(3, 8), {"node1", "node2", "node3", "node4"})
        self.end([0, 0, 0], "hosts found: node1 and node4", "generation 2: 6 ranks on 3 hosts; node4 came",
                 "generation 3: 8 ranks on 4 hosts; node1 came")

    def join_past_silent_hosts(self, transport):
        """Silent are addresses behind node4, which forwards nothing and says so to nobody."""
        self.on("head", "ip route add 10.88.0.0/24 via " + self.lab.address("node4"))
        self.addCleanup(self.on, "head", "ip route delete 10.88.0.0/24")
        self.begin_on_two("--transport", transport)
        silent = "".join(f"10.88.0.{i}:2\n" for i in range(1, SILENT + 1))
        self.write("hosts", "node2:2\nnode3:2\n" + silent + "node1:2\n")
        self.assertEqual(self.hosts_of(2, 6), {"node1", "node2", "node3"})
        done = self.end([0, 0], f"hosts found: 10.88.0.1, .* and {SILENT + 1 - 8} more",
                        "generation 2: 6 ranks on 3 hosts; node. came")
        self.assertQuietOn(done, "trying again")  # they were still being dialled

    def test_silent_hosts_delay_nobody_over_libssh(self):
        self.join_past_silent_hosts("ssh")

    def test_silent_hosts_delay_nobody_over_openssh(self):
        self.join_past_silent_hosts("openssh")


if __name__ == "__main__":
    main()
