#include "launcher/output/last_words.h"

#include <doctest/doctest.h>

#include "launcher/base/strings.h"

using namespace trainrun;
using output::LastWords;
using Lines = std::vector<std::string>;

namespace {

Lines after(std::string_view text) {
  LastWords words;
  for (const auto line : split(text, '\n')) words.add(line);
  return words.lines();
}

const std::string traceback =
    "loading\n"
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 9, in <module>\n"
    "    main()\n"
    "    ~~~~^^\n"
    "  [Previous line repeated 996 more times]\n"
    "ValueError: loss is NaN\n";

}  // namespace

TEST_SUITE("last words") {
  TEST_CASE("of a traceback the exception, without frames") {
    CHECK(after(traceback) == Lines{"ValueError: loss is NaN"});
    CHECK(after("\x1b[31mTraceback (most recent call last):\x1b[0m\n  File x\n\x1b[1;35mKeyError\x1b[0m: "
                "'a'\n") == Lines{"KeyError: 'a'"});
  }

  TEST_CASE("with the further lines of its message and its notes") {
    CHECK(after(traceback + "second line of it\na note\n") ==
          Lines{"ValueError: loss is NaN", "second line of it", "a note"});
    std::string long_one = traceback;
    for (int i = 0; i < 15; ++i) long_one += "line " + std::to_string(i) + "\n";
    CHECK(after(long_one) ==
          Lines{"ValueError: loss is NaN", "line 10", "line 11", "line 12", "line 13", "line 14"});
  }

  TEST_CASE("of chained exceptions the last") {
    for (const auto* link : {"During handling of the above exception, another exception occurred:",
                             "The above exception was the direct cause of the following exception:"})
      CHECK(after(traceback + "\n" + link +
                  "\n\nTraceback (most recent call last):\n  File \"b.py\"\nRuntimeError: cannot train\n") ==
            Lines{"RuntimeError: cannot train"});
  }

  TEST_CASE("of a group of exceptions the group's and theirs, without frames and rules") {
    CHECK(after("  + Exception Group Traceback (most recent call last):\n"
                "  |   File \"train.py\", line 9, in <module>\n"
                "  |     raise ExceptionGroup(\"unhandled\", found)\n"
                "  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)\n"
                "  +-+---------------- 1 ----------------\n"
                "    | Traceback (most recent call last):\n"
                "    |   File \"train.py\", line 3, in f\n"
                "    | ValueError: bad batch 0\n"
                "    +---------------- 2 ----------------\n"
                "    | Traceback (most recent call last):\n"
                "    |   File \"train.py\", line 3, in f\n"
                "    | ValueError: bad batch 1\n"
                "    +------------------------------------\n") ==
          Lines{"ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)",
                "ValueError: bad batch 0", "ValueError: bad batch 1"});
    CHECK(after("  + Exception Group Traceback (most recent call last):\n"
                "  | ExceptionGroup: survived (1 sub-exception)\n"
                "  +-+---------------- 1 ----------------\n"
                "    | KeyError: 'a'\n"
                "    +------------------------------------\n" +
                traceback) == Lines{"ValueError: loss is NaN"});
  }

  TEST_CASE("with the prefix of torch, and without its noise, Lightning's and the interpreter's") {
    CHECK(
        after("[rank3]: Traceback (most recent call last):\n[rank3]:   File \"a.py\", line 1\n"
              "[rank3]: torch.distributed.DistBackendError: NCCL error\n[rank3]: ncclSystemError: socket\n"
              "[rank3]:[W1122 14:03:22.118 ProcessGroupNCCL.cpp:1250] Warning: destroy_process_group()\n") ==
        Lines{"torch.distributed.DistBackendError: NCCL error", "ncclSystemError: socket"});
    CHECK(after(traceback +
                "[W1122 14:03:22.118 x.cpp:1] x\nE1122 14:03:22.118000 12 torch/api.py:874] failed\n"
                "[rank: 1] Child process with PID 7 terminated with code 1. Forcefully terminating all\n"
                "/usr/lib/python3/resource_tracker.py:224: UserWarning: resource_tracker: There appear\n"
                "wandb: View run at\n"
                "Exception ignored in: <function Pool.__del__ at 0x7f>\n"
                "Traceback (most recent call last):\n  File \"pool.py\"\nTypeError: 'NoneType'\n") ==
          Lines{"ValueError: loss is NaN"});
  }

  TEST_CASE("an exception that was survived is not the cause") {
    std::string text = traceback;
    for (int i = 0; i < 30; ++i) text += "step " + std::to_string(i) + "\n";
    const auto words = after(text);
    CHECK(words.size() == 10);
    CHECK(words.back() == "step 29");
    CHECK(
        after("Exception ignored in: x\nTraceback (most recent call last):\n  File a\nTypeError: b\nkilled\n")
            .back() == "killed");
  }

  TEST_CASE("a tab is blanks") {
    CHECK(
        after("Traceback (most recent call last):\n  File x\nRuntimeError: in loading\n\tsize mismatch\n") ==
        Lines{"RuntimeError: in loading", "    size mismatch"});
  }

  TEST_CASE("of a program that died in native code what happened, also if much follows, and no frames") {
    CHECK(after("about to crash\n[vm:17:0:17] Caught signal 11 (Segmentation fault: address not mapped)\n"
                "==== backtrace (tid:     17) ====\n"
                " 0  /lib/libucs.so.0(ucs_handle_error+0x2dc) [0x7f0a]\n"
                " 1  ./bad(main+0x21) [0x55]\n=================================\n") ==
          Lines{"about to crash", "[vm:17:0:17] Caught signal 11 (Segmentation fault: address not mapped)"});
    std::string abort = "starting\nFatal error in internal_Barrier: Other MPI error, error stack:\n";
    for (int i = 0; i < 12; ++i) abort += "frame " + std::to_string(i) + "....: failed\n";
    const auto words = after(abort);
    CHECK(words.size() == 10);
    CHECK(words.front().starts_with("Fatal error in internal_Barrier"));
    CHECK(words.back() == "frame 11....: failed");
  }

  TEST_CASE("a traceback that broke off has its last lines") {
    CHECK(after("Traceback (most recent call last):\n  File a\n    main()\n").back() == "    main()");
  }
}
