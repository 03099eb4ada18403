"""A disk that can be made to stall: a file system of its own, frozen for real."""
import os
import subprocess
import unittest

from harness import LocalTest


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)


class WithDisk(LocalTest):
    def setUp(self):
        super().setUp()
        self.disk = self.folder + "/disk"
        os.mkdir(self.disk)
        image = self.folder + "/image"
        with open(image, "wb") as file:
            file.truncate(64 << 20)
        try:
            run("mkfs.ext4", "-q", image)
            run("mount", "-o", "loop", image, self.disk)
        except (OSError, subprocess.CalledProcessError) as why:
            raise unittest.SkipTest(f"no file system can be mounted here: {why}") from why
        self.addCleanup(run, "umount", self.disk)
        self.frozen = False
        self.addCleanup(self.thaw)

    def tearDown(self):
        self.thaw()  # before all else: what waits for the disk cannot even be killed
        super().tearDown()

    def freeze(self):
        run("fsfreeze", "-f", self.disk)
        self.frozen = True

    def thaw(self):
        if self.frozen:
            run("fsfreeze", "-u", self.disk)
            self.frozen = False
