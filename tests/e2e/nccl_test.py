#!/usr/bin/python3
"""Groups on devices and NCCL's unique ids under trainrun, over libnccl_fake, which only looks like NCCL: this is about how
comm and the launcher behave, and shows nothing about NCCL or a GPU."""
import os
import re
import unittest

from harness import BUILD, LocalTest, main, without_blanks

WORKER = without_blanks(os.environ.get("TRAINRUN_NCCL_WORKER", BUILD + "/nccl_worker"))
FAKE = without_blanks(os.environ.get("TRAINRUN_NCCL_FAKE", os.path.dirname(BUILD) + "/lib/libnccl_fake.so"))


class FakeNccl(LocalTest):
    def job(self, *words, faults="", env=None):
        return self.run_job(*words, env={"TRAINRUN_NCCL_LIB": FAKE, "TRAINRUN_CUDA_LIB": FAKE, "NCCL_FAKE": faults, **(env or {})})

    def test_every_operation_gives_what_it_must(self):
        for size in (1, 2, 4):
            with self.subTest(size=size):
                done = self.assertEnds(self.job("-np", size, WORKER, "ops"), 0)
                self.assertEqual(done.out.count("all operations are right"), size, done)

    def test_ids_are_the_same_on_all_ranks_and_others_each_time(self):
        seen = set()
        for _ in range(2):
            done = self.assertEnds(self.job("-np", 3, WORKER, "ids"), 0)
            ids = re.findall(r"id (\d+)", done.out)
            self.assertEqual(len(ids), 3, done)
            self.assertEqual(len(set(ids)), 1, done)
            seen.update(ids)
        self.assertEqual(len(seen), 2)

    def test_versions_that_differ_are_told_on_all_ranks(self):
        for mode in ("ids", "group"):
            done = self.assertEnds(self.job("-np", 3, "--grace", 20, "sh", "-c", 'trap "" TERM; exec "$@"', "sh", WORKER, mode, faults="2:version=22703"), 3)
            self.assertEqual(len(re.findall(r"failed Mismatch culprit -1: the ranks have different versions of NCCL: 2\.27\.3 on rank 2 "
                                            r"\(\S+: \S+\), 2\.28\.9 on ranks 0-1 ", done.out)), 3, done)

    def test_a_rank_without_a_driver_is_named_on_all(self):
        done = self.survivors("1:cuda=none", "group", status="Unsupported", culprit=-1, count=3)
        self.assertRegex(done.out, r"NCCL cannot be used by rank 1 \(\S+: the CUDA driver \(\S+\) does not start: CUDA_ERROR_NO_DEVICE \(100\)\)")

    def test_a_library_that_is_not_there_is_named(self):
        done = self.assertEnds(self.job("-np", 2, WORKER, "ids", env={"TRAINRUN_NCCL_LIB": "/no/such/libnccl.so"}), 3)
        self.assertRegex(done.out, r"cannot be used by ranks 0-1 \(\S+: '/no/such/libnccl.so' \(TRAINRUN_NCCL_LIB\): .*No such file")

    def test_lists_of_tensors_are_cast_scaled_and_fused(self):
        for size, bytes_of_buffer in ((1, "4096"), (2, "4096"), (2, ""), (4, "5000")):
            with self.subTest(size=size, bytes_of_buffer=bytes_of_buffer):
                done = self.assertEnds(self.job("-np", size, WORKER, "lists", env={"TRAINRUN_FUSION_BYTES": bytes_of_buffer}), 0)
                self.assertEqual(done.out.count("all lists are right"), size, done)

    def test_kernels_that_cannot_be_loaded_are_told_and_the_world_goes_on(self):
        done = self.survivors("*:kernels=none", "list", status="Unsupported", culprit=-1, count=3)
        self.assertRegex(done.out, r"allreduce of a list: (this library was built without CUDA kernels; try: .*TRAINRUN_CUDA=ON"
                                   r"|CUDA cannot load the kernels, which are for architectures \d.*: cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU \(209\); try: )")
        self.assertEnds(self.job("-np", 2, WORKER, "steps", 3, faults="*:kernels=none"), 0)

    def test_a_launch_that_fails_loses_the_device(self):
        for number in (1, 2):
            done = self.survivors(f"1:launch=fail:{number}", "list", status="Aborted", culprit=1)
            self.assertRegex(done.out, r"\[1\] failed RestartRequired culprit -1: allreduce\(mean of 3105 bf16\) .*cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED \(719\)")

    def test_a_buffer_that_there_is_no_memory_for(self):
        done = self.survivors("1:memory=little", "list", status="Aborted", culprit=1)
        self.assertRegex(done.out, r"\[1\] failed Device culprit -1: allreduce\(mean of 3105 bf16\) .*cuMemAlloc of 67108864 bytes for lists of tensors "
                                   r"\(TRAINRUN_FUSION_BYTES\): CUDA_ERROR_OUT_OF_MEMORY \(2\)")

    def test_a_rank_that_dies_between_the_rounds_of_a_list(self):
        self.survivors("2:op=die:2", "list", status="PeerLost", culprit=2, env={"TRAINRUN_FUSION_BYTES": "4096"})

    def survivors(self, faults, *words, status, culprit, count=2, env=None):
        # They have the time to say what they were told.
        done = self.job("-np", 3, "--grace", 20, "sh", "-c", 'trap "" TERM; exec "$@"', "sh", WORKER, *words, faults=faults, env=env)
        self.assertNotEqual(done.rc, 0, done)
        self.assertEqual(len(re.findall(rf"failed {status} culprit {culprit}: ", done.out)), count, done)
        return done

    def test_a_rank_that_dies_while_communicators_are_made(self):
        self.survivors("1:init=die", "group", status="PeerLost", culprit=1)

    def test_a_rank_that_dies_in_an_operation(self):
        for rank in (0, 2):  # all data of the fake goes through rank 0
            with self.subTest(rank=rank):
                self.survivors(f"{rank}:op=die:9", "steps", 1000, status="PeerLost", culprit=rank)

    def test_an_init_that_fails_is_told_as_such_and_ends_the_wait_of_the_others(self):
        done = self.survivors("1:init=fail", "group", status="Aborted", culprit=1)
        self.assertRegex(done.out, r"\[1\] failed Device culprit -1: opening NCCL's communicator: ncclCommInitRankConfig: unhandled cuda error \(1\)")
        self.assertRegex(done.out, r"\[0\] failed Aborted .*unhandled cuda error")

    def test_an_id_that_cannot_be_made_ends_the_wait_of_the_others(self):
        done = self.survivors("0:id=fail", "ids", status="Aborted", culprit=0)
        self.assertRegex(done.out, r"\[0\] failed Device culprit -1: ncclGetUniqueId: invalid usage \(5\)")

    def test_a_device_that_is_lost_to_its_process(self):
        done = self.survivors("1:cuda=broken", "steps", 5, status="Aborted", culprit=1)
        self.assertRegex(done.out, r"\[1\] failed RestartRequired culprit -1: .*cuEventQuery: CUDA_ERROR_ILLEGAL_ADDRESS \(700\)")

    def test_what_the_device_never_does_ends_at_the_operations_time(self):
        done = self.survivors("1:op=stall:4", "steps", 100, status="Aborted", culprit="[0-2]", count=3, env={"TRAINRUN_OP_TIMEOUT": "1"})
        self.assertRegex(done.out, "barrier as operation 4 in a group of ranks 0-2 did not end within 1.0 s")

    def elastic(self, faults, *words, env=None):
        return self.job("-np", 3, "--on-failure", "in-place", "--max-restarts", 5, "--grace", 5, *words, WORKER, "elastic", 200,
                        faults=faults, env=env)

    def test_survivors_of_a_death_make_new_communicators(self):
        done = self.assertEnds(self.elastic("1:op=die:21"), 0)
        self.assertEqual(done.out.count("generation 2 finished with 3"), 3, done)

    def test_a_process_whose_abort_hangs_is_replaced(self):
        done = self.assertEnds(self.elastic("1:op=die:21,0:abort=hang", env={"TRAINRUN_NCCL_ABORT_TIMEOUT": "1"}), 0)
        self.assertRegex(done.out, r"\[0\] failed RestartRequired: NCCL has not let go of a communicator")
        self.assertEqual(len(re.findall(r"generation \d finished with 3", done.out)), 3, done)


if __name__ == "__main__":
    main()
