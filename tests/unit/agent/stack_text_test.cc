#include "launcher/agent/stack_text.h"

#include <doctest/doctest.h>

using namespace trainrun::agent;

TEST_SUITE("stack text") {
  TEST_CASE("gdb's chatter is dropped, and frames keep their names and places") {
    CHECK(frames_of_gdb("[New LWP 660]\n[Thread debugging using libthread_db enabled]\n"
                        "0x00007f in __GI_ppoll (fds=0x55, nfds=2) at ../sysdeps/ppoll.c:42\n"
                        "42\t../sysdeps/ppoll.c: No such file or directory.\n\n"
                        "Thread 1 (Thread 0x7f (LWP 658) \"hello\"):\n"
                        "#0  0x00007f0a in __GI_ppoll (fds=0x55, nfds=2) at ../sysdeps/ppoll.c:42\n"
                        "#1  0x00007f0b in MPI_Barrier () from /usr/lib/libmpich.so.12\n"
                        "#2  main (argc=1, argv=0x7f) at hello.c:7\n"
                        "[Inferior 1 (process 658) detached]\n") ==
          "Thread 1 (Thread 0x7f (LWP 658) \"hello\"):\n"
          "#0 __GI_ppoll at ../sysdeps/ppoll.c:42\n"
          "#1 MPI_Barrier from /usr/lib/libmpich.so.12\n"
          "#2 main at hello.c:7\n");
  }
  TEST_CASE("where there is no frame, what it said is the reason") {
    const auto refused = "ptrace: Operation not permitted.\nNo stack.\n";
    CHECK(frames_of_gdb(refused) == refused);
    CHECK(frames_of_gdb("") == "");
  }
  TEST_CASE("of frames without a name that follow each other the first is told") {
    CHECK(frames_of_gdb("#0  0x1 in recv () from libc.so.6\n#1  0x2 in ?? ()\n#2  0x3 in ?? ()\n"
                        "#3  0x4 in Py_RunMain ()\n#4  0x5 in ?? ()\n") ==
          "#0 recv from libc.so.6\n#1 ??\n#3 Py_RunMain\n#4 ??\n");
  }
  TEST_CASE("py-spy's main thread comes first") {
    CHECK(frames_of_py_spy("Process 7: python3 t.py\n\nThread 9 (idle): \"loader\"\n    get (queue.py:1)\n"
                           "Thread 7 (active): \"MainThread\"\n    step (t.py:12)\n") ==
          "Process 7: python3 t.py\nThread 7 (active): \"MainThread\"\n    step (t.py:12)\n"
          "Thread 9 (idle): \"loader\"\n    get (queue.py:1)\n");
  }
  TEST_CASE("a frame cut off in the middle is kept as it is") {
    CHECK(frames_of_gdb("#0  0x00007f") == "#0 0x00007f\n");
    CHECK(frames_of_gdb("#") == "# \n");
    CHECK(frames_of_gdb("#0  f (a=") == "#0 f\n");
  }
}
