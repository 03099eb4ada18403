"""What is drawn on a terminal, and when not."""
import fcntl
import os
import pty
import re
import select
import termios
import time

from harness import LocalTest, main


def take_terminal():
    """In a child: stdin becomes the terminal of a session of its own, whose foreground it is."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class StatusLine(LocalTest):
    def shown_on_a_terminal(self, both, columns=80):
        """What a job of a second draws on stderr, a terminal."""
        leader, follower = pty.openpty()
        termios.tcsetwinsize(follower, (24, columns))
        try:
            job = self.start("-np", 2, "sh", "-c", "sleep 1", env={"TERM": "xterm"}, stderr=follower,
                             **({"stdout": follower} if both else {}))
            os.close(follower)
            shown = b""
            while True:
                try:
                    shown += os.read(leader, 65536)
                except OSError:
                    break
            self.assertEnds(job.wait(), 0)
            return shown
        finally:
            os.close(leader)

    def test_it_is_drawn_when_all_goes_to_a_terminal(self):
        self.assertIn(b"2 of 2 ranks running", self.shown_on_a_terminal(both=True))

    def test_it_is_cut_to_the_width_of_the_terminal(self):
        shown = self.shown_on_a_terminal(both=True, columns=12)
        self.assertEqual(set(re.findall(rb"\x1b\[2m(.*?)\x1b\[0m", shown)), {b"2 of 2 rank"})

    def test_it_is_not_drawn_where_another_program_shows_our_stdout(self):
        self.assertEqual(self.shown_on_a_terminal(both=False), b"")


    def test_it_is_not_drawn_over_the_question_of_a_rank(self):
        os.mkfifo(self.folder + "/go")
        leader, follower = pty.openpty()
        try:
            job = self.start("-np", 2, "python3", "-uc", "import os, time\nif os.environ['RANK'] == '0':\n"
                             "  time.sleep(.6)\n  print('hello ' + input('name? '))\nelse: open('go').read()",
                             env={"TERM": "xterm"}, stdin=follower, stdout=follower, stderr=follower,
                             preexec_fn=take_terminal)
            os.close(follower)
            shown = b""

            def read_for(seconds, until=None):
                nonlocal shown
                end = time.monotonic() + seconds
                while time.monotonic() < end and (until is None or until not in shown):
                    if select.select([leader], [], [], 0.1)[0]:
                        shown += os.read(leader, 65536)

            read_for(60, until=b"name?")
            before = shown
            read_for(1)  # five times the pace of the status line
            asked = shown[len(before):]
            os.write(leader, b"me\n")
            read_for(60, until=b"hello me")
            read_for(1)
            answered = shown.partition(b"hello me")[2]
            with open(self.folder + "/go", "w"):
                pass
            while True:
                try:
                    if not os.read(leader, 65536):
                        break
                except OSError:
                    break
            self.assertEnds(job.wait(), 0)
        finally:
            os.close(leader)
        self.assertIn(b"ranks running", before)
        self.assertNotIn(b"ranks running", asked)
        self.assertIn(b"running", answered)


if __name__ == "__main__":
    main()
