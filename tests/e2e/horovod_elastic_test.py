#!/usr/bin/python3
"""Elastic ranks that speak Horovod's bytes go on in place: whoever is killed, and when hosts come and go."""
import os
import re
import signal

import harness

PYTHON = "/usr/bin/python3"
RANK = harness.without_blanks(harness.ROOT + "/tests/workers/horovod_elastic.py")
WORLD = r"world of (\d): rank (\d), (\d) of (\d) here, from step (\d+), pid (\d+)"


class HorovodElastic(harness.LocalTest):
    def begin(self, *words, size=3, program=()):
        self.job = self.start("--compat", "horovod", "--oversubscribe", "-np", size, *words, PYTHON, RANK, self.folder, *program)
        return self.await_world(1, size)

    def await_world(self, number, size):
        """Of the ranks of the world, by rank: local rank, step, pid. The first `number - 1` worlds had as many ranks."""
        self.job.wait_for(WORLD, count=number * size)
        met = re.findall(WORLD, self.job.out)[(number - 1) * size:number * size]
        self.assertEqual({line[0] for line in met}, {str(size)})
        self.assertEqual(sorted(line[1] for line in met), [str(rank) for rank in range(size)])
        self.assertEqual(len({line[4] for line in met}), 1, "ranks begin at different steps")
        return {int(rank): (int(local), int(step), int(pid)) for _, rank, local, _, step, pid in met}

    def end(self, size, *said):
        with open(self.folder + "/end", "w", encoding="ascii"):
            pass
        done = self.assertEnds(self.job.wait(), 0)
        self.assertEqual(len(re.findall(f"end of rank . of {size}", done.out)), size, done)
        self.assertSays(done, *said)
        return done

    def test_a_rank_is_killed(self):
        first = self.begin("--max-restarts", 3)
        os.kill(first[1][2], signal.SIGKILL)
        second = self.await_world(2, 3)
        for rank in (0, 2):
            self.assertEqual((first[rank][0], first[rank][2]), (second[rank][0], second[rank][2]), "survivors are as they were")
        self.end(3, "rank 1 on .* was killed by SIGKILL; the others wait for another in its place",
                 "generation 2: 3 ranks on 1 host; state kept by 2 survivors", "1 restart ")

    def test_rank_0_is_killed_and_then_its_successor(self):
        first = self.begin("--max-restarts", 3)
        os.kill(first[0][2], signal.SIGKILL)
        second = self.await_world(2, 3)
        self.assertIn(second[0][2], (first[1][2], first[2][2]), "rank 0 has survived")
        os.kill(second[0][2], signal.SIGKILL)
        third = self.await_world(3, 3)
        self.assertIn(third[0][2], (second[1][2], second[2][2]), "rank 0 has survived")
        self.assertGreaterEqual(third[0][1], second[0][1])
        self.end(3, "generation 3: 3 ranks on 1 host; state kept by 2 survivors")

    def test_a_newcomer_that_is_killed_while_the_others_wait_for_it(self):
        first = self.begin("--max-restarts", 3, program=["late"])
        os.kill(first[2][2], signal.SIGKILL)
        late = self.job.wait_for(r"late (\d+)")[0].split()[-1]
        os.kill(int(late), signal.SIGKILL)
        self.job.wait_for(r"late (\d+)", count=2)
        with open(self.folder + "/late", "w", encoding="ascii"):
            pass
        second = self.await_world(2, 3)
        self.assertEqual((first[0][2], first[1][2]), (second[0][2], second[1][2]))
        self.end(3, "state kept by 2 survivors", "2 restarts")

    def test_after_a_newcomer_that_failed_the_others_go_on_and_try_again(self):
        first = self.begin("--max-restarts", 3, "--min-np", 2, program=["late"])
        os.kill(first[2][2], signal.SIGKILL)
        late = self.job.wait_for(r"late (\d+)")[0].split()[-1]
        os.kill(int(late), signal.SIGKILL)
        alone = self.world_of(2)
        self.assertEqual([first[rank][2] for rank in (0, 1)], [alone[rank][2] for rank in (0, 1)])
        with open(self.folder + "/late", "w", encoding="ascii"):
            pass
        self.job.wait_for(r"world of 3: ", count=6)
        self.end(3, "rank 2 on .* was killed by SIGKILL before it had joined; 2 ranks go on without it; starting it again in",
                 "3 ranks on 1 host; .*state kept by 2 survivors", "1 restart ")

    def test_a_rank_that_stands_still_while_the_others_want_a_new_world_is_named(self):
        first = self.begin("--max-restarts", 3, "-x", "HOROVOD_GLOO_TIMEOUT_SECONDS=2")
        os.kill(first[1][2], signal.SIGSTOP)
        self.job.wait_for(r"trainrun: 2 of 3 ranks wait in the rendezvous of the next world; not there yet: rank 1 on ",
                          stream="err")
        os.kill(first[1][2], signal.SIGCONT)
        self.await_world(2, 3)
        self.end(3, "2 generations")

    def test_restarts_are_limited(self):
        first = self.begin("--max-restarts", 1)
        os.kill(first[1][2], signal.SIGKILL)
        second = self.await_world(2, 3)
        os.kill(second[1][2], signal.SIGKILL)
        done = self.assertEnds(self.job.wait(), 137)
        self.assertSays(done, "none left")

    def test_a_world_that_is_to_start_anew_does(self):
        self.job = self.start("--compat", "horovod", "--on-failure", "restart-world", PYTHON, "-c",
                              "import os; print('elastic' if 'HOROVOD_ELASTIC' in os.environ else 'static')")
        done = self.assertEnds(self.job.wait(), 0)
        self.assertIn("static", done.out)

    def test_slots_come_and_go_and_rank_0_is_told(self):
        hosts = self.folder + "/hosts"

        def list_slots(count):
            with open(hosts + ".new", "w", encoding="ascii") as file:
                file.write(f"localhost:{count}\n")
            os.rename(hosts + ".new", hosts)

        list_slots(2)
        self.job = self.start("--compat", "horovod", "-np", 2, "--min-np", 1, "--max-np", 3, "--reset-limit", "0",
                              "--settle", "200ms", "--discovery-interval", "200ms", "--discover", f"file:{hosts}", PYTHON, RANK, self.folder)
        first = self.world_of(2)
        list_slots(3)
        self.job.wait_for("rank 0 was told: 2")
        second = self.world_of(3)
        self.assertEqual([first[rank][2] for rank in (0, 1)], [second[rank][2] for rank in (0, 1)], "survivors keep their process")
        self.assertGreater(second[2][1], 0, "the newcomer has the state of the others")
        list_slots(1)
        self.job.wait_for("rank 0 was told: 3")
        third = self.world_of(1)
        self.assertEqual(third[0][2], first[0][2])
        self.assertGreaterEqual(third[0][1], second[0][1])
        done = self.end(1, "generation 2: 3 ranks on 1 host; .*state kept by 2 survivors",
                        "generation 3: 1 rank on 1 host; .*state kept by 1 survivor")
        self.assertNotIn("restart", done.err)

    def test_whom_the_others_wait_for_is_named_also_when_slots_come(self):
        with open(self.folder + "/hosts", "w", encoding="ascii") as file:
            file.write("localhost:2\n")
        self.job = self.start("--compat", "horovod", "-np", 2, "--max-np", 3, "--settle", "200ms", "--discovery-interval",
                              "200ms", "--discover", f"file:{file.name}", PYTHON, RANK, self.folder, "late")
        self.world_of(2)
        with open(file.name + ".new", "w", encoding="ascii") as new:
            new.write("localhost:3\n")
        os.rename(new.name, file.name)
        self.job.wait_for(r"trainrun: 2 of 3 ranks wait in hvd\.init; not there yet: rank 2 on \S+ "
                          r"\(last words: 'late \d+'\)", stream="err")
        with open(self.folder + "/late", "w", encoding="ascii"):
            pass
        self.world_of(3)
        self.end(3, "2 generations; 1 change")

    def world_of(self, size):
        """The only world of this size: of its ranks, by rank, local rank, step and pid."""
        self.job.wait_for(f"world of {size}: rank", count=size)
        met = [line for line in re.findall(WORLD, self.job.out) if line[0] == str(size)]
        self.assertEqual(sorted(line[1] for line in met), [str(rank) for rank in range(size)])
        return {int(rank): (int(local), int(step), int(pid)) for _, rank, local, _, step, pid in met}


if __name__ == "__main__":
    harness.main()
