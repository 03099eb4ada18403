"""Tests of jobs that go on in place: examples/elastic_digits as the program, and what its ranks said.

A test case mixes this in, and has `folder`, which all hosts of its jobs see.
"""
import collections
import os
import re
import subprocess
import unittest

import harness

DIGITS = harness.without_blanks(os.environ.get("TRAINRUN_ELASTIC_DIGITS", harness.BUILD + "/elastic_digits"))
EPOCHS = 4


class Digits:
    POLICY = ("--on-failure", "auto")
    PROGRAM = DIGITS

    def setUp(self):
        if not os.access(DIGITS, os.X_OK):
            raise unittest.SkipTest(f"{DIGITS} is not built")
        super().setUp()

    def digits(self, *words, pace=30, epochs=EPOCHS):
        return (DIGITS, "--epochs", epochs, "--pace", pace, "--log-samples", self.folder + "/used", *words)

    def await_world(self, job, generation, size):
        """Until all its ranks train."""
        job.wait_for(rf"generation {generation}: rank \d+ of {size},", count=size)

    def await_epoch(self, job, epoch):
        job.wait_for(rf"epoch +{epoch}/{EPOCHS} ")

    @staticmethod
    def undisturbed():
        """What a run says in the end to which nothing happens."""
        done = subprocess.run([DIGITS, "--epochs", str(EPOCHS)], env=harness.BASE_ENVIRONMENT, stdout=subprocess.PIPE,
                              text=True, timeout=60, check=True)
        return re.search(r"held-out accuracy ([\d.]+) %", done.stdout).group(1)

    def assertTrained(self, result):
        """As if nothing had happened: each epoch used each digit once, and the accuracy is the usual one."""
        for epoch in range(1, EPOCHS + 1):
            self.assertEachUsedOnce(epoch, result)
        found = re.findall(r"held-out accuracy ([\d.]+) %", result.out)
        self.assertEqual(len(found), 1, str(result))
        self.assertAlmostEqual(float(found[0]), float(self.undisturbed()), delta=0.3)

    def assertEachUsedOnce(self, epoch, result):
        with open(f"{self.folder}/used.{epoch}") as file:
            counts = collections.Counter(line.split()[1] for line in file)
        self.assertEqual(list(counts), ["1"], f"epoch {epoch} used digits that often: {counts}; {result}")
