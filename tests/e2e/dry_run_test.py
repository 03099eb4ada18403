"""--dry-run: everything that can be decided from here is, and nobody is contacted."""
import json
import os
import shutil
import unittest

from harness import BASE_ENVIRONMENT, TRAINRUN, WORKER, LocalTest, main


class DryRun(LocalTest):
    def plan(self, *words, **options):
        return json.loads(self.assertEnds(self.run_job("--dry-run", "--json", *words, **options), 0).out)

    def test_the_json_has_hosts_and_ranks_in_order(self):
        plan = self.plan("-np", 5, "-H", "gpu1:2,gpu2:4", "./train", "--lr", "0.1")
        self.assertEqual(plan["schema"], 1)
        self.assertEqual([(host["name"], host["slots"]) for host in plan["hosts"]], [("gpu1", 2), ("gpu2", 4)])
        self.assertEqual([(rank["rank"], rank["local_rank"], rank["host"]) for rank in plan["ranks"]],
                         [(0, 0, "gpu1"), (1, 1, "gpu1"), (2, 0, "gpu2"), (3, 1, "gpu2"), (4, 2, "gpu2")])
        for rank in plan["ranks"]:
            self.assertEqual(rank["argv"], ["./train", "--lr", "0.1"])
            env = rank["env"]
            self.assertEqual((env["RANK"], env["WORLD_SIZE"]), (str(rank["rank"]), "5"))
            self.assertIn("<reserved on gpu1 at start>", env["MASTER_PORT"])

    def test_the_path_that_all_hosts_will_run_is_shown(self):
        python = shutil.which("python3", path=BASE_ENVIRONMENT["PATH"])
        self.assertEqual(self.plan("-np", 1, "-H", "gpu1", "train.py")["ranks"][0]["argv"], [python, "train.py"])
        self.assertEqual(self.plan("-np", 1, "-H", "gpu1", "--resolve", "each", "train.py")["ranks"][0]["argv"],
                         ["python3", "train.py"])

    def test_it_starts_nothing(self):
        marker = self.folder + "/ran"
        self.assertEnds(self.run_job("--dry-run", "-np", 2, "touch", marker), 0)
        self.assertFalse(os.path.exists(marker))

    def test_it_contacts_nobody_not_even_a_name_server(self):
        if not shutil.which("strace"):
            raise unittest.SkipTest("strace is needed to see every connection")
        log = self.folder + "/trace"
        # Under strace a leak checker cannot work, and it is not what is tested.
        self.assertEnds(self.run_job("-f", "-e", "trace=connect,sendto,sendmsg,sendmmsg,execve", "-o", log, TRAINRUN,
                                     "--dry-run", "-np", 4, "-H", "gpu1.example.org:2,[2001:db8::1]:2", "./train",
                                     program=shutil.which("strace"), env={"ASAN_OPTIONS": "detect_leaks=0"}), 0)
        with open(log) as file:
            lines = file.read().splitlines()
        self.assertEqual([line for line in lines if "AF_INET" in line or "nscd" in line or "sendmmsg" in line], [])
        self.assertEqual(len([line for line in lines if "execve(" in line]), 1, "no other program is run")

    def test_for_people_it_names_hosts_ranks_and_the_remote_command(self):
        done = self.assertEnds(self.run_job("--dry-run", "-np", 3, "-H", "gpu1:2,gpu2:2", "./train", "--lr", "0.1"), 0)
        for word in ("gpu1", "gpu2", "./train", "--lr", "agent"):
            self.assertIn(word, done.out)

    def test_secrets_are_redacted_in_both_forms(self):
        words = ("-np", 1, "-H", "gpu1", "-x", "WANDB_API_KEY=hunter2", "-x", "DB_PASSWORD=hunter2", "./train")
        for form in ((), ("--json",)):
            done = self.assertEnds(self.run_job("--dry-run", *form, *words), 0)
            self.assertNotIn("hunter2", done.out + done.err)
            self.assertIn("WANDB_API_KEY", done.out)

    def test_what_stays_behind_is_named_with_the_way_to_take_it(self):
        done = self.run_job("--dry-run", "-np", 1, "-H", "gpu1", "./train", env={"WANDB_API_KEY": "x", "MY_DATA": "y"})
        self.assertEnds(done, 0)
        self.assertRegex(done.out + done.err, r"not forwarded: .*MY_DATA")
        self.assertRegex(done.out + done.err, r"not forwarded: .*WANDB_API_KEY")

    def test_the_default_list_takes_a_virtual_environment_along(self):
        env = {"VIRTUAL_ENV": "/venv", "CONDA_PREFIX": "/conda", "LD_LIBRARY_PATH": "/lib64", "NCCL_DEBUG": "INFO",
               "OMP_PROC_BIND": "true", "PYTHONPATH": "/code"}
        given = self.plan("-np", 1, "-H", "gpu1", "./train", env=env)["ranks"][0]["env"]
        self.assertEqual({name: given.get(name) for name in env}, env)
        self.assertEqual(given["PATH"], BASE_ENVIRONMENT["PATH"])

    def test_map_by_host_and_ppr(self):
        def hosts(*words):
            return [rank["host"] for rank in self.plan("-H", "a:4,b:4", *words, "./train")["ranks"]]
        self.assertEqual(hosts("-np", 4, "--map-by", "host"), ["a", "b", "a", "b"])
        self.assertEqual(hosts("-np", 4, "--map-by", "node"), ["a", "b", "a", "b"])
        self.assertEqual(hosts("-np", 4, "--map-by", "ppr:2:host"), ["a", "a", "b", "b"])
        self.assertEqual(hosts("--ppn", 1), ["a", "b"])
        self.assertEqual(hosts(), ["a"] * 4 + ["b"] * 4)

    def test_what_can_be_decided_from_here_is_an_error(self):
        for words, says in ((("-np", 9, "-H", "a:4,b:4"), "--oversubscribe"), (("--hostfile", "no-such-file"), "no-such-file"),
                            (("-np", 2, "-H", "a;rm -rf /"), "a;rm"), (("--stdin", 4, "-np", 2), "there is no rank 4")):
            with self.subTest(words=words):
                self.assertSays(self.assertEnds(self.run_job("--dry-run", *words, "./train"), 2), says)

    def test_what_this_host_alone_decides_is_the_error_of_a_start(self):
        folder = self.folder + "/logs"
        for words in (("--bind-to", "core", "--cpus-per-rank", 60000, "-np", 2), ("--gpus-per-rank", 1000, "-np", 2),
                      ("--bind-to", "core", "--cpus-per-rank", 60000, "-np", 1, "--spares", 1),
                      ("--network-interface", "nosuch0", "-np", 2), ("--output-filename", "/proc/nope"),
                      ("--output-filename", "/etc/passwd"), ("--output-filename", "/etc/passwd/a")):
            with self.subTest(words=words):
                start = self.assertEnds(self.run_job(*words, "true"), 2).err
                dry = self.assertEnds(self.run_job("--dry-run", *words, "true"), 2)
                cause, cure = dry.err.splitlines()[-2:]
                self.assertIn(cause.removeprefix("trainrun: "), start)
                self.assertIn(cure.strip(), start)
        self.assertEnds(self.run_job("--dry-run", "--output-filename", folder + "/a/b", "-np", 1, "true"), 0)
        self.assertFalse(os.path.exists(folder), "a dry run makes nothing")
        self.assertEnds(self.run_job("--dry-run", "--gpus-per-rank", 1000, "-H", "gpu1:2", "./train"), 0)

    def test_a_discovery_is_not_asked_and_the_elastic_job_is_described(self):
        script, marker = self.folder + "/hosts.sh", self.folder + "/asked"
        with open(script, "w") as file:
            file.write(f"#!/bin/sh\ntouch {marker}\necho gpu1:2\n")
        os.chmod(script, 0o755)
        words = ("--host-discovery-script", script, "--min-np", 2, "--max-np", 8, "--max-restarts", 3)
        plan = self.plan(*words, "./train")
        self.assertEqual((plan["world_size"], plan["hosts"], plan["ranks"]), (0, [], []))
        self.assertEqual([program["argv"] for program in plan["programs"]], [["./train"]])
        elastic = plan["elastic"]
        self.assertEqual((elastic["on_failure"], elastic["min_np"], elastic["max_np"]), ("auto", 2, 8))
        self.assertEqual(elastic["discovery"]["source"], script)
        self.assertEqual(elastic["reset_limit"], {"count": 3, "window": None})
        done = self.assertEnds(self.run_job("--dry-run", *words, "./train"), 0)
        self.assertIn(script, done.out)
        self.assertIn("2 to 8 ranks", done.out)
        self.assertFalse(os.path.exists(marker))

    def test_the_first_world_is_what_the_hosts_hold(self):
        plan = self.plan("-H", "a:2,b:2", "-np", 8, "--min-np", 2, "--spares", 1, "./train")
        self.assertEqual((plan["world_size"], [rank["host"] for rank in plan["ranks"]]), (4, ["a", "a", "b", "b"]))
        self.assertEqual((plan["elastic"]["max_np"], plan["elastic"]["spares"]), (8, 1))
        self.assertIsNone(self.plan("-np", 2, "true")["elastic"])

    def test_hosts_of_a_slurm_job_are_taken_unless_forbidden(self):
        slurm = {"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "node[01-02]", "SLURM_TASKS_PER_NODE": "2(x2)"}
        plan = self.plan("./train", env=slurm)
        self.assertEqual([(host["name"], host["slots"]) for host in plan["hosts"]], [("node01", 2), ("node02", 2)])
        self.assertEqual(len(plan["ranks"]), 4)
        plan = self.plan("-np", 1, "--hosts-from", "none", "true", env=slurm)
        self.assertNotIn("node01", [host["name"] for host in plan["hosts"]])

    def test_print_config_says_where_each_value_comes_from(self):
        with open(self.folder + "/job.toml", "w") as file:
            file.write("limits.grace = 3\n")
        done = self.run_job("--config", "job.toml", "--print-config", "-np", 2, WORKER, env={"TRAINRUN_HOST_TIMEOUT": "7"})
        self.assertEnds(done, 0)
        self.assertRegex(done.out, r"job\.toml:1")
        self.assertRegex(done.out, r"TRAINRUN_HOST_TIMEOUT")

    def test_mistakes_in_the_configuration_file_are_told_with_line_and_column(self):
        for text, where in (("np = 2\nno-such-key = 1\n", r"job\.toml:2:1"), ('np = "two"\n', r"job\.toml:1:\d+"),
                            ("np = = 2\n", r"job\.toml:1:\d+")):
            with self.subTest(text=text):
                with open(self.folder + "/job.toml", "w") as file:
                    file.write(text)
                done = self.assertEnds(self.run_job("--config", "job.toml", "--dry-run", "true"), 2)
                self.assertSays(done, where)

    def test_mistakes_in_a_host_file_are_told_with_file_and_line(self):
        with open(self.folder + "/hosts", "w") as file:
            file.write("a slots=2\n# fine\nb slots=two\n")
        done = self.assertEnds(self.run_job("--hostfile", "hosts", "--dry-run", "true"), 2)
        self.assertSays(done, r"hosts:3")


if __name__ == "__main__":
    main()
