#!/usr/bin/python3
"""digits trains to the same losses on 1, 2 and 4 ranks, saves and resumes, and says who died.

usage: digits_test.py DIGITS RENDEZVOUS_SERVER. Ranks are started here, over a rendezvous server of their own.
"""
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest

DIGITS, SERVER = sys.argv[1:3]
PATIENCE = 150  # seconds, only against hanging


def start_server(np, *more):
    """A server for `np` ranks, and the environment that it says the ranks need."""
    server = subprocess.Popen([SERVER, "--np", str(np), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    return server, dict(word.split("=", 1) for word in shlex.split(line))


def start_ranks(np, place, *args):
    ranks = []
    for rank in range(np):
        env = dict(os.environ, TRAINRUN_RANK=str(rank), **place)
        ranks.append(subprocess.Popen([DIGITS, *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    return ranks


def train(np, *args):
    """Rank 0's lines; all ranks and the server have ended well."""
    if np == 1:
        done = subprocess.run([DIGITS, *args], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()
    server, place = start_server(np)
    ranks = start_ranks(np, place, *args)
    try:
        outputs = [rank.communicate(timeout=PATIENCE) for rank in ranks]
        errors = server.communicate(timeout=PATIENCE)[1]
    finally:
        for process in [*ranks, server]:
            process.kill()
    assert [rank.returncode for rank in ranks] == [0] * np, outputs
    assert server.returncode == 0, errors
    assert not os.path.exists(place["TRAINRUN_KEY_FILE"])
    assert all(output[0] == "" for output in outputs[1:]), "only rank 0 speaks"
    return outputs[0][0].splitlines()


def losses(lines):
    return [float(line.split()[3]) for line in lines if line.startswith("step ")]


class Digits(unittest.TestCase):
    def test_the_losses_of_the_first_steps_do_not_depend_on_the_number_of_ranks(self):
        alone = losses(train(1, "--epochs", "3", "--log-steps", "50"))
        self.assertEqual(len(alone), 50)
        self.assertLess(alone[-1], alone[0] / 2)
        for np in (2, 4):
            together = losses(train(np, "--epochs", "3", "--log-steps", "50"))
            self.assertEqual(len(together), 50)
            for step, (one, many) in enumerate(zip(alone, together)):
                self.assertLessEqual(abs(one - many), 1e-4 * abs(one), f"step {step} on {np} ranks")

    def test_a_full_training_reaches_95_percent(self):
        lines = train(4)
        self.assertRegex(lines[-1], r"^held-out accuracy \d\d\.\d %$")
        self.assertGreaterEqual(float(lines[-1].split()[2]), 95.0)

    def test_a_resumed_training_ends_as_the_undisturbed_one(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "checkpoint")
            whole = train(1, "--epochs", "4")
            train(2, "--epochs", "2", "--checkpoint", path)
            self.assertEqual(os.listdir(directory), ["checkpoint"])
            resumed = train(2, "--epochs", "4", "--checkpoint", path)
            self.assertIn("going on after epoch 2", resumed[0])
            self.assertEqual(resumed[-2:], whole[-2:])
            with open(path, "r+b") as file:
                file.truncate(100)
            broken = subprocess.run([DIGITS, "--checkpoint", path], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(broken.returncode, 1)
            self.assertIn(path, broken.stderr)

    def test_a_killed_rank_is_named_by_the_others_and_by_the_server(self):
        server, place = start_server(3)
        ranks = start_ranks(3, place, "--epochs", "100000")
        try:
            while "epoch" not in ranks[0].stdout.readline():
                pass
            ranks[2].send_signal(signal.SIGKILL)
            for rank in ranks[:2]:
                errors = rank.communicate(timeout=PATIENCE)[1]
                self.assertEqual(rank.returncode, 1)
                self.assertIn("PeerLost", errors)
                self.assertIn("rank 2 on ", errors)
            errors = server.communicate(timeout=PATIENCE)[1]
            self.assertEqual(server.returncode, 69)
            self.assertIn("rank 2 on ", errors)
        finally:
            for process in [*ranks, server]:
                process.kill()
                process.communicate()

    def test_the_server_ends_cleanly_on_a_signal_and_on_its_timeout(self):
        server, place = start_server(2)
        self.assertEqual(os.stat(place["TRAINRUN_KEY_FILE"]).st_mode & 0o777, 0o600)
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=PATIENCE)
        self.assertEqual(server.returncode, 143)
        self.assertFalse(os.path.exists(os.path.dirname(place["TRAINRUN_KEY_FILE"])))
        server, place = start_server(2, "--timeout", "0.1")
        self.assertIn("--timeout", server.communicate(timeout=PATIENCE)[1])
        self.assertEqual(server.returncode, 124)

    def test_wrong_words_are_refused(self):
        for words in ([], ["--np", "0"], ["--np", "x"], ["--nq", "2"], ["--np", "2", "--bind", "nowhere"],
                      ["--np", "2", "--timeout", "soon"], ["--np"]):
            done = subprocess.run([SERVER, *words], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertTrue(done.stderr.startswith("trainrun: "))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
