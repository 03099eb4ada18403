#!/usr/bin/python3
"""`trainrun rendezvous` as a program: its words, its one line, its key file, signals and lost streams. That its members
meet is in unit/rendezvous."""
import os
import re
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness


STORE_WORKER = os.environ.get("TRAINRUN_STORE_WORKER", os.path.dirname(harness.WORKER) + "/store_worker")


class Store(harness.LocalTest):
    def test_replies_of_any_length_the_protocol_allows_pass_the_door(self):
        """A frame of the Link holds 8 MiB, a reply 16."""
        for count in ("9", "16"):
            result = self.assertEnds(self.run_job("-np", "1", STORE_WORKER, count), 0)
            self.assertIn(count + " values", result.out)


class Rendezvous(harness.LocalTest):
    def serve(self, *words, **options):
        """A server that has told its line; gives it and what the line says."""
        job = self.start("rendezvous", "--np", "2", *words, **options)
        line = job.wait_for(r"^TRAINRUN_RENDEZVOUS=.*\n")[0]
        return job, dict(word.split("=", 1) for word in line.split())

    def test_help(self):
        for words in (["--help"], ["-h"], ["--np", "x", "--help"]):
            result = self.assertEnds(self.run_job("rendezvous", *words), 0)
            self.assertTrue(result.out.startswith("usage: trainrun rendezvous --np N"), result)
            self.assertEqual(result.err, "")

    def test_what_is_wrong_is_told_and_ends_with_2(self):
        folder = self.folder + "/home"
        pipe = self.folder + "/pipe"
        os.mkfifo(pipe, 0o600)
        for words, message in ((["--timeout", "0"], "--timeout: '0' is not a time above zero"),
                               (["--timeout", "abc"], "--timeout: 'abc' is not a time above zero"),
                               (["--key-file", ""], "--key-file is empty"),
                               (["--key-file", folder], "is not a regular file"),
                               (["--key-file", pipe], "is not a regular file"),
                               (["--tmeout", "1"], "unknown flag '--tmeout'"),
                               (["--np"], "--np needs a value")):
            result = self.assertEnds(self.run_job("rendezvous", "--np", "2", *words), 2)
            self.assertIn(message, result.err)
            self.assertEqual(result.out, "")
            self.assertNotIn("chmod", result.err)

    def test_the_last_of_a_repeated_flag_counts(self):
        job, line = self.serve("--np", "3")
        self.assertEqual(line["TRAINRUN_SIZE"], "3")
        job.signal(signal.SIGTERM)
        self.assertEnds(job.wait(), 143)

    def test_the_time_limit_says_who_has_not_joined(self):
        result = self.assertEnds(self.run_job("rendezvous", "--np", "2", "--timeout", "50ms"), 124)
        self.assertEqual(result.err, "trainrun: the time limit passed (--timeout): 2 of 2 members have not joined "
                                     "generation 1: rank 0 and rank 1\n")

    def test_each_signal_ends_it_in_order(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131)):
            job, line = self.serve()
            self.assertTrue(os.path.exists(line["TRAINRUN_KEY_FILE"]))
            job.signal(number)
            result = self.assertEnds(job.wait(), code)
            self.assertEqual(result.err, f"trainrun: the server got {number.name}\n")
            self.assertFalse(os.path.exists(os.path.dirname(line["TRAINRUN_KEY_FILE"])))

    def test_usr1_and_usr2_change_nothing(self):
        job, _ = self.serve()
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
            job.signal(number)
        self.assertEqual(self.assertEnds(job.wait(), 143).err, "trainrun: the server got SIGTERM\n")

    def test_what_was_ignored_at_the_start_stays_so(self):
        names = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
        old = [signal.signal(number, signal.SIG_IGN) for number in names]
        try:
            job, _ = self.serve()
        finally:
            for number, handler in zip(names, old):
                signal.signal(number, handler)
        for number in names:
            job.signal(number)
        job.signal(signal.SIGTERM)
        self.assertEqual(self.assertEnds(job.wait(), 143).err, "trainrun: the server got SIGTERM\n")

    def test_a_second_signal_does_not_wait_for_connections_to_go(self):
        job, line = self.serve()
        host, port = line["TRAINRUN_RENDEZVOUS"].rsplit(":", 1)
        with socket.create_connection((host, int(port))) as one:
            one.sendall(b"trnrdc\6\0" + bytes(32))
            self.assertTrue(one.recv(1))  # the server has it
            job.signal(signal.SIGINT)
            job.wait_for("got SIGINT$", "err")
            job.signal(signal.SIGINT)
            result = self.assertEnds(job.wait(), 130)
        self.assertSays(result, "got SIGINT and does not wait for its members to go$")

    def test_lost_streams_leave_no_key_file(self):
        """Nobody reads stdout and stderr any more: it ends as it was told, and removes what it made."""
        for number, code in ((signal.SIGTERM, 143), (signal.SIGQUIT, 131)):
            reader, writer = os.pipe()
            job = self.start("rendezvous", "--np", "2", "--key-file", "key", stderr=writer)
            os.close(writer)
            job.wait_for(r"^TRAINRUN_RENDEZVOUS=.*\n")
            job.stop_reading()
            job.process.stdout.close()
            os.close(reader)
            job.signal(number)
            job.wait_until(lambda: job.ended, "the server ends")
            self.assertEqual(job.process.wait(), code)
            self.assertFalse(os.path.exists(self.folder + "/key"))

    def test_an_address_that_nobody_can_read_ends_it(self):
        reader, writer = os.pipe()
        os.close(reader)
        result = self.assertEnds(self.run_job("rendezvous", "--np", "2", stdout=writer), 141)
        os.close(writer)
        self.assertEqual(result.err, "trainrun: stdout cannot be written to: Broken pipe\n")
        with open("/dev/full", "wb") as full:
            result = self.assertEnds(self.run_job("rendezvous", "--np", "2", stdout=full), 74)
        self.assertEqual(result.err, "trainrun: stdout cannot be written to: No space left on device\n")

    def test_the_line_has_what_members_elsewhere_can_use(self):
        with open(self.folder + "/key", "w", encoding="ascii") as file:
            file.write("ab" * 32 + "\n")
            os.fchmod(file.fileno(), 0o600)
        job, line = self.serve("--key-file", "key", "--bind", "0.0.0.0:0")
        self.assertEqual(line["TRAINRUN_KEY_FILE"], self.folder + "/key")
        self.assertTrue(re.fullmatch(r"[0-9.]+:[0-9]+", line["TRAINRUN_RENDEZVOUS"]), line)
        self.assertFalse(line["TRAINRUN_RENDEZVOUS"].startswith("0.0.0.0:"))
        host, port = line["TRAINRUN_RENDEZVOUS"].rsplit(":", 1)
        socket.create_connection((host, int(port))).close()
        job.signal(signal.SIGTERM)
        self.assertEnds(job.wait(), 143)
        self.assertTrue(os.path.exists(self.folder + "/key"))  # it was there before


if __name__ == "__main__":
    harness.main()
