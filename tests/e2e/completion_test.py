#!/usr/bin/python3
"""Completion in the shells themselves: what a line is after TAB.

usage: completion_test.py TRAINRUN
"""
import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

TRAINRUN = str(pathlib.Path(sys.argv[1]).resolve())
DEADLINE = 60  # against hanging only

# what is typed, and what the shell makes of it
LINES = (("trainrun --bind-to=c\t", "--bind-to=core"), ("trainrun --bind-to c\t", "--bind-to core"),
         ("trainrun --tag=r\t", "--tag=rank"), ("trainrun --config=p\t", "--config=p.toml"),
         ("trainrun -np 2 --tag=ho\t", "-np 2 --tag=host"), ("trainrun --overs\t", "--oversubscribe"),
         ("trainrun completi\t", "completion"), ("trainrun ct\t", "ctl"), ("trainrun rendez\t", "rendezvous"),
         ("trainrun ctl --fo\t", "ctl --force"), ("trainrun comm-i\t", "comm-info"), ("trainrun comm-info --j\t", "comm-info --json"), ("trainrun rendezvous --k\t", "rendezvous --key-file"),
         ("trainrun replay p\t", "replay p.toml"), ("trainrun replay --q\t", "replay --quiet"),
         ("trainrun --help al\t", "--help all"), ("trainrun --map-by pp\t2:host x", "--map-by ppr:2:host x"),
         ("trainrun ./p.toml --overs\t", "./p.toml --overs"))


class Completion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in ("p.toml", "twice"):
            path = pathlib.Path(self.folder, name)
            path.touch()
            path.chmod(0o755)
        # no program is found but `twice`, so that every prefix above has one completion
        self.env = {"PATH": f"{self.folder}:{self.folder}", "HOME": self.folder, "TERM": "dumb", "LANG": "C.UTF-8"}

    def script(self, shell):
        program = shutil.which(shell)
        if program is None:
            raise unittest.SkipTest(f"{shell} is needed")
        path = pathlib.Path(self.folder, ".completion")
        path.write_bytes(subprocess.run([TRAINRUN, "completion", shell], check=True, capture_output=True,
                                        timeout=DEADLINE).stdout)
        return program, path

    def typed(self, shell, *start, setup):
        """Types LINES at a shell in which trainrun is a function that prints its words."""
        program, path = self.script(shell)
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(program, [program, *start], self.env)
        heard, end = b"", time.monotonic() + DEADLINE

        def read_until(word, times=1):
            nonlocal heard
            while heard.count(word.encode()) < times:
                ready, _, _ = select.select([terminal], [], [], max(0, end - time.monotonic()))
                self.assertTrue(ready, f"no {word!r} in {heard!r}")
                heard += os.read(terminal, 4096)

        try:
            os.write(terminal, f"{setup.format(path)}; echo 'rea''dy'\n".encode())
            read_until("ready")
            for number, (keys, expected) in enumerate(LINES):
                os.write(terminal, keys.encode() + b"\n")
                read_until("-END", number + 1)
                with self.subTest(shell=shell, keys=keys):
                    got = heard.rpartition(b"BEGIN-")[2].partition(b"-END")[0].decode().strip()
                    self.assertEqual(got, expected)
            os.write(terminal, b"exit\n")
        finally:
            os.close(terminal)
            os.waitpid(pid, 0)

    def test_bash(self):
        self.typed("bash", "--norc", "--noprofile", "-i",
                   setup="trainrun() {{ printf 'BEGIN''-%s-EN''D\\n' \"$*\"; }}; PS1=; . {}")

    def test_zsh(self):
        self.typed("zsh", "-f", "-i",
                   setup="trainrun() {{ printf 'BEGIN''-%s-EN''D\\n' \"$*\"; }}; PS1=; unsetopt zle_bracketed_paste; "
                         "autoload -U compinit; compinit -u -D; . {}")

    def test_bash_offers_no_name_twice(self):
        program, path = self.script("bash")
        line = "trainrun twi"
        done = subprocess.run([program, "-c", f'. {path}; COMP_LINE="{line}" COMP_POINT={len(line)} _trainrun; '
                               'printf "%s\\n" "${COMPREPLY[@]}"'], env=self.env, cwd=self.folder, capture_output=True,
                              text=True, timeout=DEADLINE, check=True)
        self.assertEqual(done.stdout.split(), ["twice"])

    def test_the_ids_of_jobs_are_offered(self):
        """By each shell as far as it can be asked without a terminal."""
        listed = "job               pid  started              command\n0a1f00000000000b  12   2026-01-01 00:00:00  trainrun\n"
        stub = pathlib.Path(self.folder, "trainrun")
        stub.write_text(f"#!/bin/sh\n[ \"$*\" = 'ctl list' ] && /bin/cat {self.folder}/.list\n")
        stub.chmod(0o755)
        pathlib.Path(self.folder, ".list").write_text(listed)
        ids = ["0a1f00000000000b"]
        with self.subTest(shell="bash"):
            program, path = self.script("bash")
            line = "trainrun ctl --job "
            done = subprocess.run([program, "-c", f'. {path}; COMP_LINE="{line}" COMP_POINT={len(line)} _trainrun; '
                                   'printf "%s\n" "${COMPREPLY[@]}"'], env=self.env, cwd=self.folder,
                                  capture_output=True, text=True, timeout=DEADLINE, check=True)
            self.assertEqual(done.stdout.split(), ids)
        with self.subTest(shell="fish"):
            program, path = self.script("fish")
            done = subprocess.run([program, "--no-config", "-c", f"source {path}; complete -C 'trainrun ctl --job '"],
                                  env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=DEADLINE, check=True)
            self.assertEqual([row.split("\t")[0] for row in done.stdout.splitlines()], ids)
        with self.subTest(shell="zsh"):
            program, path = self.script("zsh")
            done = subprocess.run([program, "-f", "-c", f"compdef() {{ : }}; compadd() {{ print -l -- $@ }}; . {path}; "
                                   "words=(trainrun ctl --job '') CURRENT=4; _trainrun"], env=self.env, cwd=self.folder,
                                  capture_output=True, text=True, timeout=DEADLINE, check=True)
            self.assertEqual(done.stdout.split(), ["--", *ids])

    def test_fish(self):
        program, path = self.script("fish")
        def offered(line):
            done = subprocess.run([program, "--no-config", "-c", f"source {path}; complete -C '{line}'"], env=self.env,
                                  cwd=self.folder, capture_output=True, text=True, timeout=DEADLINE, check=True)
            return [row.split("\t")[0] for row in done.stdout.splitlines()]
        for line, word in (("trainrun --bind-to=c", "--bind-to=core"), ("trainrun --bind-to c", "core"),
                           ("trainrun compl", "completion"), ("trainrun ct", "ctl"), ("trainrun rend", "rendezvous"),
                           ("trainrun --help a", "all"), ("trainrun --map-by p", "ppr:"),
                           ("trainrun -np 2 --overs", "--oversubscribe"), ("trainrun ctl wor", "world"),
                           ("trainrun ctl --fo", "--force")):
            with self.subTest(line=line):
                self.assertEqual([one for one in offered(line) if not one.endswith(".toml")], [word])
        self.assertEqual(offered("trainrun twice --overs"), [])
        self.assertEqual(offered("trainrun -np 2 -- --overs"), [])
        self.assertEqual(offered("trainrun twice : --overs"), ["--oversubscribe"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
