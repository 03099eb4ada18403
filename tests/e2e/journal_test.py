"""--journal, and `trainrun replay`: the decisions of a job are made again from one file."""
import os
import shutil
import signal
import subprocess

from elastic_test import RESTARTS, TWO_HOSTS, ElasticTest
from harness import TRAINRUN, WORKER, main

LENGTH_AND_SUM = 12  # of a record


def fnv1a(data):
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


def records(journal):
    """Where each begins and how long its payload is; the header comes first."""
    at = journal.index(b"\n") + 1
    while at < len(journal):
        size = int.from_bytes(journal[at:at + 4], "big")
        yield at, size
        at += LENGTH_AND_SUM + size


class JournalTest(ElasticTest):
    def setUp(self):
        super().setUp()
        self.file = self.folder + "/j"

    def content(self):
        with open(self.file, "rb") as file:
            return file.read()

    def rewrite(self, data):
        with open(self.file, "wb") as file:
            file.write(data)

    def replay(self, *words, rc=0):
        done = subprocess.run([TRAINRUN, "replay", *words], env=self.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, rc, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def fails(self):
        """A job that wrote a journal."""
        return self.assertEnds(self.run_job("-np", 2, "--journal", "j", "sh", "-c",
                                            f"[ $RANK = 1 ] && exit 7; exec {WORKER} when {self.folder}/never exit 0"), 7)


class Replay(JournalTest):
    def test_a_job_that_fails(self):
        self.assertNotIn("journal", self.fails().err)
        text = self.replay(self.file)
        self.assertInOrder(text, r"^job [0-9a-f]{16} began at .*: 1 host, 2 ranks$", r"^written by trainrun \S+ build [0-9a-f]+$",
                           r"^ +1 +0\.\d{6}  begin$", "^ +-> dial host host=0$", "  host ready host=0 facts=",
                           "^ +-> start worker worker=2 generation=1 rank=1 ", r'^ +"job: forming -> running"$',
                           "  worker exited worker=2 status={kind=exited number=7 ", "^ +-> signal workers number=15 ",
                           "^ +-> finish outcome={kind=worker failed exit_code=7 ", r"j: \d+ records, all decided as then$")
        self.assertEqual(self.replay("--quiet", self.file), "")

    def test_hosts_that_are_lost_found_removed_and_added(self):
        self.write("hosts", "alpha:1\nbeta:1\n")
        job = self.start(*TWO_HOSTS, "--journal", self.file, "--discover", f"file:{self.folder}/hosts",
                         "--discovery-interval", "100ms", "-np", 2, "--min-np", 1, "--max-np", 3, *RESTARTS, *self.train())
        self.await_generation(job, 1)
        watchers = [pid for pid, _ in self.processes("trainrun-agent") if self.parent(pid) == job.pid]
        os.kill([pid for pid, _ in self.processes("trainrun-agent") if self.parent(pid) in watchers][-1], signal.SIGKILL)
        self.await_generation(job, 2, size=1)  # the other one rests
        self.ctl("add", "gamma:1")
        self.await_generation(job, 3, size=2)
        self.write("hosts", "alpha:2\n")
        self.await_generation(job, 4, size=3)
        self.ctl("remove", "gamma")
        self.await_generation(job, 5, size=2)
        self.finish()
        self.assertEnds(job.wait(), 0)
        text = self.replay(self.file)
        for event in ("host lost", "hosts discovered", "add hosts", "remove host", "deadline passed", "worker started"):
            self.assertRegex(text, rf"(?m)^ +\d+ +\d+\.\d+  {event} ")

    def test_a_launcher_that_is_killed(self):
        job = self.start("-np", 2, "--journal", self.file, WORKER, "when", self.folder + "/never", "exit", 0)
        job.wait_for("waiting", count=2)
        job.wait_until(lambda: "-> running" in self.replay(self.file), "the journal has it")
        job.signal(signal.SIGKILL)
        job.wait()
        self.assertAllGone()
        shutil.rmtree(self.runtime)  # its socket
        self.assertIn("it has no end: the launcher was killed, or still runs", self.replay(self.file))
        self.rewrite(self.content()[:-3])
        self.assertIn("all decided as then; then it breaks off", self.replay(self.file))

    def test_another_build_shows_the_first_difference(self):
        self.fails()
        data = bytearray(self.content())
        at, size = list(records(data))[3]
        begins = at + LENGTH_AND_SUM
        data[begins + size - 1] ^= 1  # of what was decided
        data[at + 4:begins] = fnv1a(data[begins:begins + size]).to_bytes(8, "big")
        self.rewrite(data)
        for words in ((self.file,), ("-q", self.file)):
            text = self.replay(*words, rc=65)
            self.assertInOrder(text, "^written by trainrun", r"^ +3 +0\.\d+  port reserved generation=1$",
                               "^ +-> start worker ", "j: record 3 differs: the launcher decided otherwise than this build$")
            self.assertNotIn("worker exited", text)

    def test_what_is_damaged_or_no_journal_is_an_error(self):
        self.fails()
        whole = self.content()
        begins = [at for at, _ in records(whole)]
        for at, says in ((begins[0] + 20, "its header is damaged"), (begins[2] + 20, "record 2 is damaged")):
            data = bytearray(whole)
            data[at] ^= 0x10
            self.rewrite(data)
            self.assertIn(f"trainrun: '{self.file}': {says}: its bytes are not those that were written", self.replay(self.file, rc=2))
        self.assertIn("it is not a trainrun journal", self.replay(WORKER, rc=2))
        self.assertIn("No such file", self.replay(self.folder + "/nothing", rc=2))
        self.assertIn("which journal?", self.replay(rc=2))

    def test_no_secret_is_in_it(self):
        with open(self.folder + "/env", "w") as file:
            file.write("IN_A_FILE=hush-1\n")
        job = self.start("-np", 2, "--journal", self.file, "--env-file", "env", "-x", "GIVEN=hush-2", "-x", "INHERITED",
                         "--env", "all", "sh", "-c", f'cat "$TRAINRUN_KEY_FILE"; exec {WORKER} when {self.folder}/go exit 0',
                         env={"INHERITED": "hush-3"})
        job.wait_for("waiting", count=2)
        open(self.folder + "/go", "w").close()
        done = self.assertEnds(job.wait(), 0)
        keys = [line.removeprefix("[0] ") for line in done.out.splitlines() if "waiting" not in line and line.startswith("[0]")]
        self.assertTrue(keys and len(keys[0]) >= 32, done.out)
        data = self.content()
        self.assertIn(b"INHERITED", data)
        for secret in (b"hush-", keys[0].encode(), bytes.fromhex(keys[0])):
            self.assertNotIn(secret, data)


class Files(JournalTest):
    def test_a_directory_a_descriptor_and_a_file_that_is_written_anew(self):
        os.mkdir(self.folder + "/many")
        for _ in range(2):
            self.assertEnds(self.run_job("-np", 1, "--journal", "many", "true"), 0)
        names = [f"{self.folder}/many/{name}" for name in os.listdir(self.folder + "/many")]
        self.assertEqual(len(names), 2)
        self.assertEqual(self.replay(*names).count("all decided as then"), 2)
        for _ in range(2):
            self.assertEnds(self.run_job("-np", 1, "true", env={"TRAINRUN_JOURNAL": self.file}), 0)
            self.replay(self.file)
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o600)
        with open(self.file, "wb") as file:
            self.assertEnds(self.run_job("-np", 1, "--journal", f"fd:{file.fileno()}", "true", pass_fds=[file.fileno()]), 0)
        self.assertIn("all decided as then", self.replay(self.file))

    def test_what_cannot_be_written_is_told_once_and_the_job_goes_on(self):
        with open(self.folder + "/train.py", "w") as file:
            file.write("print(1)\n")
        for target, why in (("/nosuchfolder/j", "No such file"), ("fd:55", "Bad file descriptor"),
                            ("/dev/full", "No space left"), ("train.py", "it exists and is not a trainrun journal")):
            with self.subTest(target=target):
                done = self.assertEnds(self.run_job("-np", 1, "-q", "--journal", target, "echo", "here"), 0)
                self.assertEqual(done.out, "here\n")
                self.assertSays(done, rf"^trainrun: --journal: .*{why}.*; the job goes on without it$")
                self.assertEqual(done.err.count("--journal"), 1)
        with open(self.folder + "/train.py") as file:
            self.assertEqual(file.read(), "print(1)\n")

    def test_a_reader_that_takes_nothing_does_not_keep_the_job(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            pass
        done = self.assertEnds(self.run_job("-np", 2, "--grace", 1, "--journal", f"fd:{writer}", "echo", "here",
                                            pass_fds=[writer]), 0)
        self.assertSays(done, "--journal: .* did not take its end in time")
        os.close(reader)
        os.close(writer)

    def test_stdout_is_the_ranks(self):
        for target in ("-", "fd:1"):
            done = self.assertEnds(self.run_job("-np", 1, "--journal", target, "true"), 2)
            self.assertSays(done, "stdin, stdout and stderr are the ranks'")


if __name__ == "__main__":
    main()
