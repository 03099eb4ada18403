#include "launcher/core/innermost_frame.h"

#include <doctest/doctest.h>

using namespace trainrun;
using core::innermost_frame;

TEST_SUITE("innermost frame") {
  TEST_CASE("of gdb's words the main thread's first frame with a name") {
    const auto frame = innermost_frame(
        "gdb on process 7:\nThread 1 (Thread 0x7f (LWP 7) \"a\"):\n#0 ??\n#1 __GI_clock_nanosleep from "
        "/lib/libc.so.6\n"
        "#2 main at a.c:3\nThread 2 (Thread 0x7e (LWP 8) \"a\"):\n#0 MPI_Send at b.c:1\n");
    CHECK(frame.seen);
    CHECK(frame.name == "clock_nanosleep");
    CHECK(frame.mpi.empty());
  }

  TEST_CASE("of a program of MPI the function that it has called, whatever that does inside") {
    const auto frame = innermost_frame(
        "gdb on process 7:\nThread 1 (Thread 0x7f (LWP 7) \"a\"):\n#0 opal_progress from /lib/libopal.so\n"
        "#1 PMPI_Recv from /lib/libmpi.so.40\n#2 PMPI_File_open from /lib/libmpi.so.40\n#3 main at a.c:3\n");
    CHECK(frame.mpi == "MPI_File_open");
    CHECK(frame.name == "opal_progress");
    CHECK(innermost_frame("#0 MPI_progress_internal\n").mpi.empty());
  }

  TEST_CASE("of py-spy's words the line of Python") {
    CHECK(innermost_frame(
              "py-spy on process 7:\nProcess 7: python3 a.py\nPython v3.11.2 (/usr/bin/python3.11)\n"
              "Thread 7 (idle): \"MainThread\"\n    wait (threading.py:320)\n    <module> (a.py:5)\n")
              .name == "wait (threading.py:320)");
  }

  TEST_CASE("of a thread that waits for another who called the lock, or its library") {
    const std::string waits =
        "#0 __futex_abstimed_wait_common64 from /lib/libc.so.6\n#1 ?? from /lib/libc.so.6\n#2 "
        "___pthread_cond_wait from "
        "/lib/libc.so.6\n";
    CHECK(innermost_frame(waits + "#2 std::condition_variable::wait from /lib/libstdc++.so.6\n"
                                  "#3 ?? from /opt/torch/lib/libtorch_cpu.so\n#4 main at a.c:3\n")
              .name == "libtorch_cpu.so");
    CHECK(innermost_frame(waits + "#2 PyThread_acquire_lock_timed\n#3 main at a.c:3\n").name ==
          "PyThread_acquire_lock_timed");
    CHECK(innermost_frame(waits).name == "__futex_abstimed_wait_common64");
  }

  TEST_CASE("without a frame of the program nothing") {
    for (const char* text : {"", "gdb on process 7:\nptrace: Operation not permitted.\n",
                             "kernel, thread 7:\n[<0>] hrtimer_nanosleep+0xb3/0x140\n"}) {
      CHECK_FALSE(innermost_frame(text).seen);
      CHECK(innermost_frame(text).name.empty());
    }
  }
}
