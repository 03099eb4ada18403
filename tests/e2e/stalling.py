"""A disk that can be made to stall, and one that is soon full: file systems of their own."""
import os
import shutil
import subprocess
import unittest

from harness import LocalTest


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)


class WithSmallDisk(LocalTest):
    """200 KB of it."""

    def setUp(self):
        super().setUp()
        self.disk = self.folder + "/disk"
        os.mkdir(self.disk)
        try:
            run("mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", self.disk)
        except (OSError, subprocess.CalledProcessError) as why:
            raise unittest.SkipTest(f"no file system can be mounted here: {why}") from why
        self.addCleanup(shutil.rmtree, self.folder)  # tearDown cannot, while the disk is mounted
        self.addCleanup(run, "umount", self.disk)


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
        self.addCleanup(shutil.rmtree, self.folder)  # tearDown cannot, while the disk is mounted
        self.addCleanup(run, "umount", self.disk)
        self.thaws = None
        self.addCleanup(self.thaw)

    def tearDown(self):
        self.thaw()  # before all else: what waits for the disk cannot even be killed
        super().tearDown()

    def freeze(self):
        # What waits for a frozen disk cannot even be killed: whatever ends this process, also with its children, thaws it.
        thaw = ["setsid", "--fork", "sh", "-c", 'read -r _; exec fsfreeze -u "$0"', self.disk]
        self.thaws = subprocess.Popen(thaw, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        run("fsfreeze", "-f", self.disk)

    def thaw(self):
        if self.thaws is not None:
            self.thaws.stdin.close()
            self.thaws.stdout.read()  # to its end
            self.thaws.stdout.close()
            self.thaws.wait()
            self.thaws = None
