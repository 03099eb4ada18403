"""A job in a shell with job control: foreground, background, ^C."""
import os
import pty
import subprocess

from harness import TRAINRUN, WORKER, LocalTest, main


class JobControl(LocalTest):
    def on_terminal(self, script):
        """An interactive-like shell with job control on a pty of its own; gives (process, terminal)."""
        leader, follower = pty.openpty()
        process = subprocess.Popen(["bash", "--norc", "--noprofile", "-c", "set -m; " + script], stdin=follower,
                                   stdout=follower, stderr=follower, env=self.environment(), cwd=self.folder,
                                   start_new_session=True, preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)))
        os.close(follower)
        self.addCleanup(os.close, leader)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process, leader

    def read_until(self, terminal, needle):
        """What the terminal shows up to `needle`; a deadline against hanging is ctest's."""
        shown = b""
        while needle not in shown:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                break
            shown += data
        self.assertIn(needle, shown)
        return shown

    def wait_and_read(self, process, terminal, shown):
        """All that it shows until it ends; a trial more would take the place of its end."""
        while b"trial 2" not in shown:
            try:
                shown += os.read(terminal, 65536)
            except OSError:
                process.wait(timeout=60)
                break
        return shown

    def test_a_background_job_with_the_terminal_as_stdin_is_never_stopped(self):
        process, terminal = self.on_terminal(
            f"{TRAINRUN} -np 2 {WORKER} when {self.folder}/go exit 0 & wait $!; echo code=$?=")
        self.read_until(terminal, b"waiting")
        os.write(terminal, b"typed for nobody\n")
        open(self.folder + "/go", "w").close()
        self.assertIn(b"code=0=", self.read_until(terminal, b"code="  b"0="))
        process.wait(timeout=60)

    def test_the_status_line_is_drawn_in_the_foreground_alone(self):
        process, terminal = self.on_terminal(
            f"TERM=xterm {TRAINRUN} -np 1 sh -c 'sleep 1; echo later; exec {WORKER} when {self.folder}/go exit 0' & "
            "read line; fg; echo code=$?=")
        self.assertNotIn(b"running", self.read_until(terminal, b"later"))
        os.write(terminal, b"\n")
        self.read_until(terminal, b"1 of 1 rank running")
        open(self.folder + "/go", "w").close()
        self.read_until(terminal, b"code=0=")
        process.wait(timeout=60)

    def test_control_c_on_the_terminal_drains_the_job(self):
        process, terminal = self.on_terminal(f"{TRAINRUN} -np 2 {WORKER} signals 0; echo code=$?=")
        shown = b""
        while shown.count(b"ready") < 2:
            shown += os.read(terminal, 65536)
        os.write(terminal, b"\x03")
        self.read_until(terminal, b"ended by SIGINT")
        self.assertEqual(process.wait(timeout=60), 130)  # a shell whose command died of ^C goes no further

    def test_control_c_ends_the_loop_of_a_script_as_well(self):
        with open(self.folder + "/sweep", "w") as script:
            script.write(f"for trial in 1 2 3; do echo trial $trial; {TRAINRUN} -np 2 {WORKER} signals 0; done\n")
        process, terminal = self.on_terminal(f"bash {self.folder}/sweep; echo over")
        shown = b""
        while shown.count(b"ready") < 2:
            shown += os.read(terminal, 65536)
        os.write(terminal, b"\x03")
        self.assertEqual(self.wait_and_read(process, terminal, shown).count(b"trial "), 1)
        self.assertEqual(process.returncode, 130)

    def test_control_z_leaves_no_status_line_behind(self):
        process, terminal = self.on_terminal(
            f"TERM=xterm {TRAINRUN} -np 1 {WORKER} when {self.folder}/go exit 0; echo stopped; fg; echo code=$?=")
        shown = self.read_until(terminal, b"1 of 1 rank running")
        os.write(terminal, b"\x1a")
        shown += self.read_until(terminal, b"stopped")
        last_line = shown[:shown.index(b"stopped")].split(b"\r\x1b[K")[-1]
        self.assertNotIn(b"rank running", last_line)
        open(self.folder + "/go", "w").close()
        self.read_until(terminal, b"code=0=")
        process.wait(timeout=60)

    def test_typed_input_reaches_rank_0(self):
        process, terminal = self.on_terminal(
            f"{TRAINRUN} -np 2 sh -c 'test $RANK = 0 || exit 0; read line; echo heard $line-$RANK'; echo code=$?=")
        os.write(terminal, b"hello\n")
        shown = self.read_until(terminal, b"code=0=")
        self.assertIn(b"heard hello-0", shown)
        process.wait(timeout=60)


if __name__ == "__main__":
    main()
