"""Tests of jobs with many generations: `worker train` as the program, and what its ranks told.

A test case mixes this in, and has `folder`, which all hosts of its jobs see.
"""
import json
import os
import re

from harness import WORKER


class Training:
    def train(self, steps=1000000, pause=20):
        return (WORKER, "train", self.folder, steps, pause)

    def finish(self):
        """From now on the training ends after its current step."""
        self.write("finish", "")

    def write(self, name, text):
        """As a file that changes at one stroke; its path."""
        with open(f"{self.folder}/{name}.new", "w") as file:
            file.write(text)
        os.rename(f"{self.folder}/{name}.new", f"{self.folder}/{name}")
        return f"{self.folder}/{name}"

    def starts(self, generation=None):
        """What workers told of their starts, in order."""
        try:
            with open(self.folder + "/starts") as file:
                all_of_them = [json.loads(line) for line in file]
        except FileNotFoundError:
            return []
        return [each for each in all_of_them if generation in (None, each["generation"])]

    def await_generation(self, job, generation, size=2, steps=2):
        """Until all its ranks have made steps; gives their starts by rank."""
        job.wait_for(rf"step \d+ of generation {generation}$", count=steps)
        starts = sorted(self.starts(generation), key=lambda each: each["rank"])
        self.assertEqual([(each["rank"], each["size"]) for each in starts], [(rank, size) for rank in range(size)])
        return starts

    def assertGenerationsFit(self, restarts):
        """All ranks of a generation agree, no two generations share a port, nothing that was saved is lost.
        restarts: TRAINRUN_RESTART_COUNT of each generation."""
        seen = {}
        for start in self.starts():
            own = (start["port"], start["size"], start["restart"], start["torch_restart"], start["from"])
            self.assertEqual(seen.setdefault(start["generation"], own), own, start)
        facts = [seen[generation] for generation in sorted(seen)]
        self.assertEqual(sorted(seen), list(range(1, len(restarts) + 1)))
        self.assertEqual([fact[2] for fact in facts], restarts)
        self.assertEqual([fact[3] for fact in facts], restarts)
        self.assertEqual(len({fact[0] for fact in facts}), len(facts), "a port was used by two generations")
        self.assertEqual([fact[4] for fact in facts], sorted(fact[4] for fact in facts))

    def assertInOrder(self, text, *patterns):
        """Each pattern is found behind the one before it."""
        at = 0
        for pattern in patterns:
            found = re.compile(pattern, re.MULTILINE).search(text, at)
            self.assertTrue(found, f"no {pattern!r} after character {at} of:\n{text}")
            at = found.end()
