"""torchrun's words for output, and the scheduling policy of ranks, with the real binary."""
import os
import re

from harness import LocalTest, main

SPEAK = "import os, sys; print('out', os.environ['LOCAL_RANK']); print('err', os.environ['LOCAL_RANK'], file=sys.stderr)"
POLICY = "import os; print(os.sched_getscheduler(0) == os.SCHED_BATCH)"


class Output(LocalTest):
    def speak(self, *flags):
        done = self.assertEnds(self.run_job(*flags, "-np", 2, "python3", "-c", SPEAK), 0)
        return sorted(done.out.splitlines()), sorted(line for line in done.err.splitlines() if line.startswith("["))

    def test_redirected_streams_are_in_the_files_alone(self):
        logs = self.folder + "/logs"
        self.assertEqual(self.speak("--log-dir", logs, "-r", "0:1,1:2"), (["[1] out 1"], ["[0] err 0"]))
        for rank in range(2):
            for stream, word in (("stdout", "out"), ("stderr", "err")):
                with open(f"{logs}/latest/rank.{rank}/{stream}", encoding="ascii") as file:
                    self.assertEqual(file.read(), f"{word} {rank}\n")

    def test_without_a_directory_one_is_made_and_named(self):
        done = self.assertEnds(self.run_job("-r", 3, "-np", 2, "python3", "-c", SPEAK, env={"TMPDIR": self.folder}), 0)
        self.assertEqual(done.out, "")
        self.assertSays(done, r"^trainrun: -r: what is not shown goes to " + re.escape(self.folder) + r"/trainrun-[0-9a-f]{16}$")
        [made] = [name for name in os.listdir(self.folder) if name.startswith("trainrun-")]
        with open(f"{self.folder}/{made}/latest/rank.1/stderr", encoding="ascii") as file:
            self.assertEqual(file.read(), "err 1\n")

    def test_local_ranks_that_are_filtered_out_are_not_shown(self):
        self.assertEqual(self.speak("--local-ranks-filter", "1"), (["[1] out 1"], ["[1] err 1"]))


class Policy(LocalTest):
    def policies(self, *flags, ranks=2):
        done = self.assertEnds(self.run_job("--tag", "none", "-np", ranks, *flags, "python3", "-c", POLICY), 0)
        return set(done.out.split())

    def test_python_ranks_that_share_all_cores_are_batch(self):
        many = len(os.sched_getaffinity(0)) + 1
        self.assertEqual(self.policies("-x", "CUDA_VISIBLE_DEVICES=", "--oversubscribe", ranks=many), {"True"})
        self.assertEqual(self.policies("--sched", "normal", "--oversubscribe", ranks=many), {"False"})

    def test_a_rank_alone_is_not_unless_asked_for(self):
        self.assertEqual(self.policies(ranks=1), {"False"})
        self.assertEqual(self.policies("--sched", "batch", ranks=1), {"True"})

    def test_ranks_that_are_forked_have_the_policy_too(self):
        self.assertEqual(self.policies("--sched", "batch", "--preload", "json"), {"True"})
        self.assertEqual(self.policies("--sched", "normal", "--preload", "json"), {"False"})


if __name__ == "__main__":
    main()
