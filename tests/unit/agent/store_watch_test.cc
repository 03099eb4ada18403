#include "launcher/agent/store_watch.h"

#include <doctest/doctest.h>

using namespace trainrun;

TEST_CASE("of the kernel's table the sockets count that lead to the port, or listen on it") {
  const char* table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      // listens on 29500 (733C)
      "   0: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 101 1 0\n"
      // connected to 10.0.0.1:29500
      "   1: 0200000A:9C40 0100000A:733C 01 00000000:00000000 00:00000000 00000000  1000        0 102 1 0\n"
      // the listener's end of such a connection
      "   2: 0100000A:733C 0200000A:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 103 1 0\n"
      // still connecting, and of another port
      "   3: 0200000A:9C41 0100000A:733C 02 00000000:00000000 00:00000000 00000000  1000        0 104 1 0\n"
      "   4: 0200000A:9C42 0100000A:733D 01 00000000:00000000 00:00000000 00000000  1000        0 105 1 0\n"
      // closed by its process
      "   5: 0200000A:9C43 0100000A:733C 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0\n"
      "   6: torn 0100000A:733C 01\n";
  CHECK(agent::sockets_to(table, 29500) == std::set<std::uint64_t>{101, 102});
  CHECK(agent::sockets_to("", 29500).empty());
}

TEST_CASE("ranks are looked at until they have met, and not for ever") {
  using agent::looks_again;
  CHECK(looks_again(1, false, false));
  CHECK(looks_again(1, false, true));
  CHECK_FALSE(looks_again(1, true, true));
  CHECK(looks_again(11, false, false));
  CHECK_FALSE(looks_again(12, false, false));  // they have no PyTorch
  CHECK(looks_again(69, false, true));
  CHECK_FALSE(looks_again(70, false, true));
}
