"""What a worker is given: its place in the world, its environment, directory and open files."""
import json
import os
import re
import unittest

from harness import TRAINRUN, WORKER, LocalTest, main, told

LEAKED = {"OMPI_COMM_WORLD_RANK": "7", "OMPI_COMM_WORLD_SIZE": "8", "PMI_RANK": "7", "PMI_SIZE": "8", "PMI_FD": "9",
          "SLURM_PROCID": "7", "SLURM_LOCALID": "7", "SLURM_NTASKS": "8", "RANK": "7", "WORLD_SIZE": "8",
          "LOCAL_RANK": "7", "MASTER_ADDR": "stale", "MASTER_PORT": "1", "GROUP_RANK": "7",
          "TORCHELASTIC_RUN_ID": "stale", "MV2_COMM_WORLD_RANK": "7", "MPI_LOCALRANKID": "7", "HOROVOD_RANK": "7"}


class Environment(LocalTest):
    def told(self, *words, **options):
        return told(self.assertEnds(self.run_job(*words, WORKER, "env", **options), 0))

    def test_the_torchelastic_block_is_exact(self):
        given = self.told("-np", 3)
        self.assertEqual(sorted(given), [0, 1, 2])
        for rank, value in given.items():
            env = value["env"]
            expected = {"RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "3",
                        "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": "3",
                        "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RESTART_COUNT": "0",
                        "TORCHELASTIC_USE_AGENT_STORE": "False", "PYTHONUNBUFFERED": "1"}
            self.assertEqual({name: env.get(name) for name in expected}, expected)
            for name in ("ROLE_NAME", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "OMP_NUM_THREADS"):
                self.assertTrue(env.get(name), name)
            self.assertTrue(0 < int(env["MASTER_PORT"]) < 65536)
            self.assertGreaterEqual(int(env["OMP_NUM_THREADS"]), 1)
            self.assertTrue(os.path.isabs(env["TORCHELASTIC_ERROR_FILE"]))
            self.assertFalse(os.path.exists(os.path.dirname(env["TORCHELASTIC_ERROR_FILE"])), "it is removed")
        self.assertEqual(len({value["env"]["MASTER_PORT"] for value in given.values()}), 1)
        self.assertEqual(len({value["env"]["TORCHELASTIC_ERROR_FILE"] for value in given.values()}), 3)

    def test_rank_variables_of_other_launchers_are_scrubbed(self):
        for rank, value in self.told("-np", 2, env=LEAKED).items():
            env = value["env"]
            for name in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "SLURM_PROCID", "SLURM_LOCALID",
                         "MV2_COMM_WORLD_RANK"):
                self.assertNotIn(name, env)
            ours = {"PMI_RANK": str(rank), "PMI_SIZE": "2", "PMI_FD": "20", "MPI_LOCALRANKID": str(rank)}
            self.assertEqual({name: env.get(name) for name in ours}, ours)
            self.assertEqual(env["RANK"], str(rank))
            self.assertEqual(env["WORLD_SIZE"], "2")
            self.assertNotIn("stale", env.values())
            self.assertEqual([name for name in env if name.startswith("HOROVOD_")], [])

    def test_a_local_job_inherits_everything_and_what_the_user_set_wins(self):
        given = self.told("-np", 1, env={"WANDB_API_KEY": "secret", "PYTHONUNBUFFERED": "0", "OMP_NUM_THREADS": "7"})
        env = given[0]["env"]
        self.assertEqual((env["WANDB_API_KEY"], env["PYTHONUNBUFFERED"], env["OMP_NUM_THREADS"]), ("secret", "0", "7"))

    def test_x_sets_and_forwards(self):
        env = self.told("-np", 1, "-x", "A=b c=d", "-x", "FROM_HERE", "-x", "EMPTY=", env={"FROM_HERE": "yes"})[0]["env"]
        self.assertEqual((env["A"], env["FROM_HERE"], env["EMPTY"]), ("b c=d", "yes", ""))

    def test_env_none_forwards_only_what_is_asked_for(self):
        env = self.told("-np", 1, "--env", "none", "-x", "A=1", env={"MY_DATA": "here"})[0]["env"]
        self.assertEqual(env.get("A"), "1")
        self.assertNotIn("MY_DATA", env)

    def test_env_file(self):
        with open(self.folder + "/job.env", "w") as file:
            file.write("# a comment\n\nALPHA=one\nBETA=two words\n")
        env = self.told("-np", 1, "--env-file", self.folder + "/job.env")[0]["env"]
        self.assertEqual((env.get("ALPHA"), env.get("BETA")), ("one", "two words"))

    def test_no_secret_is_on_any_command_line(self):
        job = self.start("-np", 1, "-x", "TOKEN", WORKER, "wait", env={"TOKEN": "hunter2"})
        job.wait_for("ready")
        commands = [command for _, command in self.processes()]
        job.signal(15)
        self.assertEnds(job.wait(), 143)
        self.assertGreaterEqual(len(commands), 3, "launcher, agent and worker")
        for command in commands:
            self.assertNotIn("hunter2", command)

    def test_values_are_on_no_command_line_however_x_is_spelled(self):
        job = self.start("-np", 1, "-x", "A=hunter2", "-x=B=hunter2", "--export", "C=hunter2", "--export=D=hunter2",
                         "-export", "E=hunter2", WORKER, "env", ":", "-np", 1, "-x=F=hunter2", WORKER, "wait")
        job.wait_for("ready")
        with open(f"/proc/{job.pid}/cmdline", "rb") as file:
            own = file.read().split(b"\0")
        commands = [command for _, command in self.processes()]
        job.signal(15)
        self.assertEnds(job.wait(), 143)
        for word in (b"A=*******", b"-x=B=*******", b"C=*******", b"--export=D=*******", b"E=*******", b"-x=F=*******"):
            self.assertIn(word, own)
        self.assertNotIn("hunter2", " ".join(commands))

    def test_workers_have_stdin_stdout_stderr_and_no_other_file_of_ours(self):
        inherited = set(told(self.assertEnds(self.run_job("-np", 1, WORKER, "env"), 0))[0]["fds"])
        self.assertTrue({0, 1, 2} <= inherited)
        # A documented one comes with a variable that names it: that of PMI.
        value = self.told("-np", 1)[0]
        named = {int(text) for name, text in value["env"].items() if name.endswith("_FD")}
        self.assertEqual(named, {20})
        self.assertEqual(set(value["fds"]) - {0, 1, 2} - named, set())

    def test_the_limit_on_open_files_is_the_workers_own_and_not_ours(self):
        def limited(limits, *program):
            return self.run_job(f"--nofile={limits}", TRAINRUN, "-np", 16, *(program or ("sh", "-c", "ulimit -Sn")),
                                program="prlimit")
        done = self.assertEnds(limited("32:"), 0)
        self.assertEqual([line.split()[-1] for line in done.out.splitlines()], ["32"] * 16)
        for many in range(30, 36):  # whichever of a rank's descriptors is the one too many
            with self.subTest(many=many):
                done = self.assertEnds(limited(f"{many}:{many}", WORKER, "wait"), 75)
                self.assertSays(done, "Too many open files", "ulimit -Hn")
        for many in range(16, 26):  # the number of PMI's descriptor, or too few for the agent
            with self.subTest(many=many):
                self.assertSays(self.assertEnds(limited(f"{many}:{many}"), 75), "Too many open files", "ulimit -Hn")
        for many in range(6, 14):  # too few for a loop
            with self.subTest(many=many):
                done = self.assertEnds(limited(f"{many}:{many}"), 75)
                self.assertSays(done, "^trainrun: .*Too many open files", "ulimit -Hn")
                self.assertNotIn("terminate called", done.err)

    def test_the_directory_is_the_callers_or_that_of_wdir(self):
        os.mkdir(self.folder + "/work")
        self.assertEqual(self.told("-np", 1)[0]["cwd"], self.folder)
        self.assertEqual(self.told("-np", 1, "--wdir", self.folder + "/work")[0]["cwd"], self.folder + "/work")

    def test_the_directory_has_the_name_that_the_shell_has_for_it(self):
        os.mkdir(self.folder + "/real")
        os.symlink("real", self.folder + "/link")
        for named, plan in (("/link", "/link"), ("/link/../link", "/real"), ("", "/real")):
            done = self.assertEnds(self.run_job("-np", 1, "--dry-run", "--json", "true", cwd=self.folder + "/link",
                                                env={"PWD": self.folder + named}), 0)
            self.assertEqual(json.loads(done.out)["programs"][0]["directory"], self.folder + plan)

    def test_arguments_arrive_as_they_were_typed(self):
        words = ["", " ", "a b", "'", '"', "$HOME", "*", "\\", "-np", "--", ":x", "ü", "a\nb", "-x=1"]
        done = self.assertEnds(self.run_job("-np", 1, WORKER, "env", *words), 0)
        self.assertEqual([word.encode("latin-1").decode() for word in told(done)[0]["argv"][1:]], words)

    def test_our_flags_end_at_the_program_and_at_two_dashes(self):
        given = told(self.assertEnds(self.run_job("-np", 1, "--", WORKER, "env", "-np", 4), 0))
        self.assertEqual(given[0]["argv"][1:], ["-np", "4"])

    def test_several_programs_share_one_world(self):
        done = self.assertEnds(self.run_job("-np", 1, WORKER, "env", "server", ":", "-np", 2, WORKER, "env", "client"), 0)
        given = told(done)
        self.assertEqual({rank: value["argv"][1] for rank, value in given.items()},
                         {0: "server", 1: "client", 2: "client"})
        self.assertEqual({value["env"]["WORLD_SIZE"] for value in given.values()}, {"3"})

    def test_this_host_has_as_many_slots_as_np_asks_unless_a_count_is_given(self):
        self.assertEqual(len(self.told("-np", 16)), 16)
        done = self.assertEnds(self.run_job("-np", 3, "-H", "localhost:2", WORKER, "env"), 2)
        self.assertSays(done, "--oversubscribe")
        self.assertEqual(len(self.told("-np", 3, "--oversubscribe", "-H", "localhost:2")), 3)

    def test_names_of_this_host_are_one_host(self):
        name = os.uname().nodename
        given = self.told("-np", 2, "-H", "localhost:1,127.0.0.1:1")
        self.assertEqual({value["env"]["LOCAL_WORLD_SIZE"] for value in given.values()}, {"2"}, name)

    def test_bind_to_core_gives_each_rank_its_own(self):
        if len(os.sched_getaffinity(0)) < 2:
            raise unittest.SkipTest("two cores are needed to bind two ranks")
        done = self.assertEnds(self.run_job("-np", 2, "--bind-to", "core", "sh", "-c",
                                            "grep Cpus_allowed_list /proc/self/status"), 0)
        self.assertEqual(len({line.split()[-1] for line in done.out.splitlines()}), 2, done.out)

    def test_a_rank_file_and_parts_of_the_host_place_and_bind_ranks(self):
        first = str(min(os.sched_getaffinity(0)))
        with open(self.folder + "/ranks", "w", encoding="ascii") as file:
            file.write("rank 0=localhost slot=0\nrank 1=localhost slot=*\n")
        show = ("sh", "-c", "echo $RANK $(grep Cpus_allowed_list /proc/self/status)")
        done = self.assertEnds(self.run_job("--rankfile", "ranks", *show), 0)
        cpus = dict(re.findall(r"^(?:\[\d\] )?(\d) Cpus_allowed_list: (\S+)$", done.out, re.M))
        self.assertIn(first, re.split("[,-]", cpus["0"])[0], done)
        self.assertEqual(len(cpus), 2, done)
        plan = json.loads(self.assertEnds(self.run_job("--dry-run", "--json", "--rankfile", "ranks", *show), 0).out)
        self.assertEqual((plan["map_by"], plan["world_size"]), ("rankfile", 2), plan)
        done = self.run_job("--map-by", "ppr:1:socket", "-H", "localhost:64", "--bind-to", "socket", *show)
        sockets = set()
        for cpu in os.sched_getaffinity(0):
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", encoding="ascii") as file:
                sockets.add(file.read())
        self.assertEqual(len(re.findall("Cpus_allowed_list", self.assertEnds(done, 0).out)), len(sockets), done)

    def test_the_environment_and_the_configuration_file_set_flags_and_flags_win(self):
        with open(self.folder + "/job.toml", "w") as file:
            file.write('np = 3\n')
        self.assertEqual(len(self.told("--config", "job.toml")), 3)
        self.assertEqual(len(self.told("--config", "job.toml", env={"TRAINRUN_NP": "2"})), 2)
        self.assertEqual(len(self.told("--config", "job.toml", "-np", "1", env={"TRAINRUN_NP": "2"})), 1)

    def test_master_port_is_used_as_given_and_a_held_one_can_be_bound_with_reuse_address(self):
        self.assertEqual(self.told("-np", 1, "--master-port", 29871)[0]["env"]["MASTER_PORT"], "29871")
        code = ("import os, socket\ns = socket.socket()\ns.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                "s.bind(('', int(os.environ['MASTER_PORT'])))\ns.listen()\nprint('bound')\n")
        done = self.assertEnds(self.run_job("-np", 1, "/usr/bin/python3", "-c", code), 0)
        self.assertEqual(done.out, "bound\n")


if __name__ == "__main__":
    main()
