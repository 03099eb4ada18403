"""Every launcher under test keeps a journal, whatever becomes of it. When a test is over they are replayed: the build that
wrote them must decide the same again."""
import os
import shutil
import subprocess
import tempfile


class Journals:
    """Of one test. `replayed`: how many there were in all tests of this process."""
    replayed = 0

    def __init__(self):
        # Not in the test's own folders: what is left there is looked at. Some launchers are another user's.
        self.folder = tempfile.mkdtemp(prefix="trainrun-test-journals-", dir="/var/tmp")
        os.chmod(self.folder, 0o1777)
        self.environment = {"TRAINRUN_JOURNAL": self.folder}

    def differences(self, trainrun):
        """What `trainrun replay` says of those that differ, or cannot be read; empty when all is well."""
        paths = [os.path.join(self.folder, name) for name in sorted(os.listdir(self.folder))]
        paths = [path for path in paths if os.path.getsize(path) > 0]  # killed before it had begun
        if not paths:
            return ""
        Journals.replayed += len(paths)
        done = subprocess.run([trainrun, "replay", "--quiet", *paths], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=60)
        return f"trainrun replay ends with {done.returncode}: {done.stdout[-4000:]}" if done.returncode else ""

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)
