// Letters between two ranks of one process: that they come whole, in turns, and also from who has left.
#include "comm/backends/gloo/gloo_letters.h"

#include <doctest/doctest.h>

#include <cstring>
#include <future>
#include <optional>
#include <string>

#include "comm/backends/gloo/gloo_mesh.h"
#include "tests/unit/comm/no_sigpipe.h"

using namespace trainrun::comm;

namespace {

constexpr std::size_t room = 64;

struct End {
  explicit End(int rank) : mesh(rank, 2) { mesh.listen("127.0.0.1"); }
  ~End() { mesh.close(); }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  void write(const std::string& text) {
    text.copy(sheet.data() + GlooLetters::head, text.size());
    letters->send(text.size());
  }
  std::string read(std::size_t bytes) { return std::string(letters->await(), bytes); }

  GlooMesh mesh;
  std::array<char, GlooLetters::head + room + GlooLetters::tail> sheet{};
  std::optional<GlooLetters> letters{}, others{};
};

struct Pair {
  Pair() {
    for (auto* const end : {&first, &second}) {
      end->letters.emplace(end->mesh, 1, end->sheet, room, 0);
      end->others.emplace(end->mesh, 1, end->sheet, room, 1);
    }
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    auto connected = std::async(std::launch::async, [&] { second.mesh.connect({first.mesh.blob}, late); });
    first.mesh.connect({second.mesh.blob}, late);
    connected.get();
  }
  trainrun::NoSigpipe ignored;  // until they are gone
  End first{0}, second{1};
};

}  // namespace

TEST_CASE("letters come in turns, also while the other has not read the one before") {
  Pair pair;
  pair.first.write("one");
  pair.second.write("eins");
  CHECK(pair.second.read(3) == "one");
  pair.second.write("zwei");  // the first has not read "eins"
  CHECK(pair.first.read(4) == "eins");
  pair.first.write("two");
  CHECK(pair.first.read(4) == "zwei");
  CHECK(pair.second.read(3) == "two");
}

TEST_CASE("what stands on the sheet behind a letter stays") {
  Pair pair;
  auto* const text = pair.first.sheet.data() + GlooLetters::head;
  std::memcpy(text, "sent, and kept", 14);
  pair.first.letters->send(4);
  pair.second.write("yes");
  CHECK(pair.first.read(3) == "yes");
  CHECK(std::string(text, 14) == "sent, and kept");
  CHECK(pair.second.read(4) == "sent");
}

TEST_CASE("a letter counts that came before its sender left, and no other") {
  Pair pair;
  pair.first.write("goodbye");
  pair.second.write("farewell");
  CHECK(pair.second.read(7) == "goodbye");
  pair.second.mesh.close();
  // Until the first knows that the connection has ended, after the letter.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  bool broken = false;
  while (!broken && std::chrono::steady_clock::now() < limit) try {
      pair.first.others->send(0);
    } catch (const std::exception&) {
      broken = true;
    }
  REQUIRE(broken);
  CHECK(pair.first.read(8) == "farewell");
  CHECK_THROWS(pair.first.write("again"));
  CHECK_THROWS(pair.first.letters->await());
}
