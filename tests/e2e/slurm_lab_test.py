"""Inside jobs of a real Slurm: its allocation is taken as it is, and an elastic job follows it when it shrinks."""
from harness import TRAINRUN, WORKER, main, told
from slurm_lab import SlurmTest

WHERE = ("sh", "-c", "echo $RANK $LOCAL_RANK $GROUP_RANK $(hostname)")
IN_SHELL = "sh -c 'echo $RANK $LOCAL_RANK $GROUP_RANK $(hostname)'"
ELASTIC = ("--host-timeout", "2s", "--grace", "1s", "--settle", "200ms", "--discovery-interval", "200ms",
           "--on-failure", "restart-world", "--discover", "slurm")


class Allocation(SlurmTest):
    def test_a_batch_job_without_hosts_and_without_np(self):
        done = self.batch(("-N", 3, "--ntasks-per-node=2"), f"{TRAINRUN} --tag none {IN_SHELL}").wait()
        self.assertEqual(sorted(done.out.splitlines()), [
            "0 0 0 node1", "1 1 0 node1", "2 0 1 node2", "3 1 1 node2", "4 0 2 node3", "5 1 2 node3"])

    def test_counts_that_differ_between_nodes(self):
        done = self.batch(("-N", 3, "-n", 10), f"exec {TRAINRUN} --tag none {IN_SHELL}").wait()
        lines = sorted((line.split() for line in done.out.splitlines()), key=lambda line: int(line[0]))
        self.assertEqual([(line[1], line[3]) for line in lines],
                         [(str(local), "node1") for local in range(8)] + [("0", "node2"), ("0", "node3")])

    def test_the_exit_code_of_a_rank_is_that_of_the_script(self):
        done = self.batch(("-N", 3, "-n", 3), f"{TRAINRUN} {WORKER} on 2 exit 3 -- wait; echo ended with $?").wait()
        self.assertInOrder(done.out, "rank 2 on node3 exited with code 3", "^ended with 3$")

    def test_salloc_on_a_host_that_is_no_node_of_the_job(self):
        done = self.allocated(("-w", "node[1,3]", "--ntasks-per-node=2"), TRAINRUN, "--tag", "none", *WHERE).wait()
        self.assertEqual(sorted(self.assertEnds(done, 0).out.splitlines()),
                         ["0 0 0 node1", "1 1 0 node1", "2 0 1 node3", "3 1 1 node3"])

    def test_ranks_hear_nothing_of_the_batch_steps_own_rank(self):
        done = self.allocated(("-N", 2, "-n", 2), TRAINRUN, WORKER, "env").wait()
        for rank, value in told(self.assertEnds(done, 0)).items():
            self.assertEqual((value["env"]["RANK"], value["env"]["WORLD_SIZE"]), (str(rank), "2"))
            for name in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NODEID"):
                self.assertNotIn(name, value["env"])

    def test_a_step_has_its_own_nodes(self):
        """`srun` of one task on one node of three: the step's variables count, though the job's list is there too."""
        done = self.allocated(("-N", 3, "--ntasks-per-node=2"), "srun", "-N", 1, "-n", 1, "-w", "node2",
                              "--ntasks-per-node=1", TRAINRUN, "--tag", "none", *WHERE).wait()
        self.assertEqual(self.assertEnds(done, 0).out, "0 0 0 node2\n")

    def test_scancel_ends_everything_on_every_node(self):
        job = self.batch(("-N", 3, "-n", 3), f"{TRAINRUN} --grace 1s {WORKER} stubborn")
        job.wait_for("ready", count=3)
        self.slurm("scancel", "--name=job.sh")
        self.assertRegex(job.wait().out, r"trainrun: ended by SIGTERM .* after the signal; (\d ranks? ended after SIGTERM and )?\d ranks? needed SIGKILL")


class Live(SlurmTest):
    """--discover slurm: the environment of the job stays as it was, squeue knows better."""
    OPTIONS_OF_JOB = ("-N", 3, "--ntasks-per-node=2", "--no-kill")

    def program(self):
        return (TRAINRUN, *ELASTIC, "-np", 6, "--min-np", 2, *self.train())

    def begun(self, job):
        """Gives the job's number in Slurm."""
        self.job = job
        self.await_generation(job, 1, 6)
        return self.slurm("squeue", "-h", "-o", "%i")

    def hosts_of(self, generation, size):
        return [start["host"] for start in self.await_generation(self.job, generation, size)]

    def test_an_allocation_that_shrinks(self):
        """In a batch script. By scontrol, which Slurm without a data base allows once a job, and by a node that goes
        down. A node that is only drained keeps its jobs, so nothing happens."""
        command = " ".join(map(str, self.program()))
        job = self.begun(self.batch(self.OPTIONS_OF_JOB, f"{command}; echo ended with $?"))
        self.slurm("scontrol", "update", "NodeName=node1", "State=DRAIN", "Reason=test")
        self.slurm("scontrol", "update", f"JobId={job}", "NodeList=node1,node3")
        self.assertEqual(self.hosts_of(2, 4), ["node1", "node1", "node3", "node3"])
        self.slurm("scontrol", "update", "NodeName=node3", "State=DOWN", "Reason=test")
        self.assertEqual(self.hosts_of(3, 2), ["node1", "node1"])
        self.finish()
        self.assertInOrder(self.job.wait().out,
                           "hosts no longer listed: node2", "generation 2: 4 ranks on 2 hosts; node2 left",
                           "hosts no longer listed: node3", "generation 3: 2 ranks on 1 host; node3 left",
                           "3 generations; 2 changes .hosts left 2x.", "^ended with 0$")
        self.assertGenerationsFit([0, 0, 0])
        for node in ("node1", "node3"):
            self.slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def test_without_power_a_node_is_lost_at_once(self):
        """Under salloc. The loss is noticed long before Slurm notices; then Slurm takes the node away, and nothing more
        happens. No test can follow: the node's Slurm is gone."""
        job = self.begun(self.allocated(self.OPTIONS_OF_JOB, *self.program()))
        self.before["node2"], self.files_before["node2"] = set(), None
        self.lab.kill("node2", power=True)
        self.assertEqual(self.hosts_of(2, 4), ["node1", "node1", "node3", "node3"])
        self.slurm("scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=test")
        self.job.wait_for("hosts no longer listed: node2", stream="err")
        self.assertEqual(self.slurm("squeue", "-h", "-j", job, "-o", "%N"), "node[1,3]")
        self.finish()
        done = self.assertEnds(self.job.wait(), 0)
        self.assertInOrder(done.err, r"node2 lost \(no answer for", "generation 2: 4 ranks on 2 hosts",
                           "2 generations; 1 restart")
        self.assertGenerationsFit([0, 1])


if __name__ == "__main__":
    main()
