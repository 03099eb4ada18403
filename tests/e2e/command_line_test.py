#!/usr/bin/python3
"""The real program's command line: errors, help, dry run, and the files of examples/.

usage: command_line_test.py TRAINRUN SOURCE_DIRECTORY
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TRAINRUN = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(sys.argv[2]).resolve()
DEADLINE = 120  # against hanging only


def trainrun(*words, env=None, cwd=SOURCE):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TRAINRUN_", "SLURM_"))}
    return subprocess.run([TRAINRUN, *words], capture_output=True, text=True, timeout=DEADLINE, cwd=cwd,
                          stdin=subprocess.DEVNULL, env={**clean, **(env or {})}, check=False)


class CommandLine(unittest.TestCase):
    def test_an_error_is_one_line_and_a_hint_on_stderr_and_exit_2(self):
        done = trainrun("--npp", "3", "./train")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, "trainrun: unknown flag '--npp'\n  try: did you mean --np?\n")

    def test_who_asks_for_json_gets_an_object_whatever_is_wrong(self):
        for words, error, schema in (
                (["--check-hosts", "--json", "-H", "a:x", "true"], "number of slots", 2),
                (["--check-hosts", "--json", "--hostfile", "/nope", "true"], "cannot read", 2),
                (["--check-hosts", "--json", "-H", "a", "-i", "/nope", "true"], "/nope", 2),
                (["--dry-run", "--json", "-H", "a,b", "-np", "4", "true"], "-np 4 needs 4 slots", 1),
                (["--dry-run", "--json", "--npp", "true"], "unknown flag '--npp'", 1),
                (["ctl", "--json", "bogus"], "no command 'bogus'", None)):
            done = trainrun(*words)
            self.assertEqual((words, done.returncode, done.stderr), (words, 2, ""))
            told = json.loads(done.stdout)
            self.assertEqual((told["ok"], told["exit_code"], told.get("schema")), (False, 2, schema))
            self.assertIn(error, told["error"])

    def test_a_list_behind_x_is_one_variable_and_no_value_of_it_is_told(self):
        done = trainrun("-np", "1", "-x", "A=secret,B=hidden", "sh", "-c", "echo $A")
        self.assertEqual((done.returncode, done.stdout), (0, "secret,B=hidden\n"))
        self.assertEqual(done.stderr, "trainrun: -x A=...,B=... is one variable, A; for two write -x A=... -x B=...\n")

    def test_every_kind_of_usage_error_ends_with_2(self):
        for words in ([], ["-np", "x", "true"], ["-H", "a;b", "true"], ["--hostfile", "/nope", "true"],
                      ["-np", "9", "-H", "a:2", "true"], ["--config", "/nope", "true"], ["--wdir", "/nope", "true"],
                      ["completion", "tcsh"], ["-H", "a", "--transport", "local", "true"]):
            done = trainrun(*words)
            self.assertEqual((words, done.returncode, done.stdout), (words, 2, ""))
            self.assertTrue(done.stderr.startswith("trainrun: "), done.stderr)
            self.assertEqual(done.stderr.count("trainrun: "), 1, done.stderr)

    def test_the_commonest_errors_of_the_readme_are_what_is_printed(self):
        rows = SOURCE.joinpath("README.md").read_text().split("## What it says most often, and what to do")[1].split("\n## ")[0]
        for words, says in ((["-np", "4", "-H", "localhost:2", "true"], "-np 4 needs 4 slots, the host has 2"),
                            (["/home/me/nothere"], "program '/home/me/nothere' not found: it does not exist"),
                            (["train"], "program 'train' not found in PATH"),
                            (["--timout", "3", "true"], "unknown flag '--timout'"),
                            (["--timout", "3", "true"], "try: did you mean --timeout?"),
                            (["-np", "2", "--gpus-per-rank", "1", "true"],
                             "2 ranks with 1 GPU each need 2 GPUs, and the host has 0")):
            self.assertIn(f"`{says}`", rows)
            if "GPUs" not in says or not os.path.exists("/dev/nvidia0"):
                self.assertIn(says, trainrun("--dry-run", *words, env={"CUDA_VISIBLE_DEVICES": ""}).stderr)

    def test_a_program_that_is_not_there_or_cannot_be_executed(self):
        self.assertEqual(trainrun("-np", "1", "./nope").returncode, 127)
        self.assertEqual(trainrun("-np", "1", "no-such-program").returncode, 127)
        self.assertEqual(trainrun("-np", "1", "./examples/hosts.txt").returncode, 126)

    def test_what_is_asked_for_goes_to_stdout(self):
        for words in (["--help"], ["--help", "all"], ["help"], ["--version"], ["completion", "zsh"],
                      ["rendezvous", "--help"], ["ctl", "--help"], ["replay", "--help"], ["--print-config", "-np", "2"]):
            done = trainrun(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            self.assertTrue(done.stdout)

    def test_a_dry_run_of_the_hosts_example_is_json_for_programs(self):
        done = trainrun("--dry-run", "--json", "--hostfile", "examples/hosts.txt", "./train")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"\Atrainrun: '\S*train' is not on this host; [^\n]*\n\Z")
        plan = json.loads(done.stdout)
        self.assertEqual(plan["schema"], 1)
        self.assertEqual([(host["name"], host["slots"]) for host in plan["hosts"]], [("gpu1", 8), ("gpu2", 8)])
        self.assertEqual([rank["host"] for rank in plan["ranks"]], ["gpu1"] * 8 + ["gpu2"] * 8)

    def test_the_slurm_example_takes_its_allocation(self):
        with tempfile.TemporaryDirectory() as directory:
            os.symlink(TRAINRUN, pathlib.Path(directory, "trainrun"))
            env = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}", "SLURM_JOB_ID": "7",
                   "SLURM_JOB_NODELIST": "n[01-02]", "SLURM_TASKS_PER_NODE": "8(x2)",
                   "TRAINRUN_DRY_RUN": "1", "TRAINRUN_JSON": "1"}
            done = subprocess.run(["sh", SOURCE / "examples/job.sbatch"], capture_output=True, text=True, env=env,
                                  timeout=DEADLINE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["world_size"], 16)

    def test_the_toml_example_runs(self):
        done = trainrun("--config", "examples/job.toml")
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(4):
            self.assertIn(f"[{rank}] rank {rank} of 4 on {os.uname().nodename}\n", done.stdout)

    def test_print_config_can_be_read_again(self):
        first = trainrun("--print-config", "--config", "examples/job.toml", "--grace", "3s")
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(first.stdout)
            file.flush()
            done = trainrun("--config", file.name, "--dry-run", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["world_size"], 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
