#include "launcher/agent/pmi_world.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>

namespace trainrun::agent {
namespace {

// Ranks of one world on some hosts, and a launcher between them that carries every exchange at once.
struct Table {
  explicit Table(std::uint32_t hosts, std::uint32_t ranks_each, std::string mapping = "(vector,(0,1,1))") {
    for (std::uint32_t host = 0; host < hosts; ++host) {
      auto world = std::make_unique<PmiWorld>("0123456789abcdef", Generation{1});
      for (std::uint32_t local = 0; local < ranks_each; ++local) {
        const auto rank = host * ranks_each + local;
        world->add(id(rank), {Rank{rank}, hosts * ranks_each, ranks_each, rank % 2, mapping});
      }
      worlds.push_back(std::move(world));
    }
    each = ranks_each;
  }
  static WorkerId id(std::uint32_t rank) { return {rank + 1}; }
  PmiWorld& of(std::uint32_t rank) { return *worlds[rank / each]; }

  void take(std::size_t host, PmiWorld::Effects effects) {
    for (auto& effect : effects) {
      if (auto* reply = std::get_if<PmiWorld::Reply>(&effect)) {
        heard[reply->worker.value - 1] += reply->bytes;
      } else if (auto* hang_up = std::get_if<PmiWorld::HangUp>(&effect)) {
        heard[hang_up->worker.value - 1] += "<hung up>";
      } else if (auto* abort = std::get_if<PmiWorld::Abort>(&effect)) {
        aborts[abort->worker.value - 1] = abort->code;
      } else if (auto* tell = std::get_if<PmiWorld::Tell>(&effect)) {
        told.push_back(tell->text);
      } else {
        gathers.emplace_back(host, std::get<wire::Gather>(effect));
      }
    }
  }
  // What the rank hears when it says this.
  std::string say(std::uint32_t rank, const std::string& text) {
    heard[rank].clear();
    take(rank / each, of(rank).received(id(rank), text));
    return heard[rank];
  }
  void carry() {
    wire::Gathered all{Generation{1}, {}, gathers.front().second.sequence, {}, true};
    for (const auto& [host, part] : gathers) all.parts.push_back(part.bytes);
    gathers.clear();
    for (std::size_t host = 0; host < worlds.size(); ++host) take(host, worlds[host]->gathered(all));
  }

  std::vector<std::unique_ptr<PmiWorld>> worlds;
  std::uint32_t each = 1;
  std::map<std::uint32_t, std::string> heard;
  std::map<std::uint32_t, int> aborts;
  std::vector<std::string> told;
  std::vector<std::pair<std::size_t, wire::Gather>> gathers;
};

const std::string init = "cmd=init pmi_version=1 pmi_subversion=1\n";
const std::string name = "kvsname=0123456789abcdef.g1";

std::string put(const std::string& key, const std::string& value) {
  return "cmd=put " + name + " key=" + key + " value=" + value + "\n";
}
std::string get(const std::string& key) { return "cmd=get " + name + " key=" + key + "\n"; }

TEST_CASE("what a client asks first, and how it is answered") {
  Table table(2, 2, "(vector,(0,2,2))");
  CHECK(table.say(3, init) == "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  CHECK(table.say(3, "cmd=get_maxes\n") == "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=800\n");
  CHECK(table.say(3, "cmd=get_appnum\n") == "cmd=appnum rc=0 appnum=1\n");
  CHECK(table.say(3, "cmd=get_my_kvsname\n") == "cmd=my_kvsname rc=0 " + name + "\n");
  CHECK(table.say(3, "cmd=get_universe_size\n") == "cmd=universe_size rc=0 size=4\n");
  CHECK(table.say(3, get("PMI_process_mapping")) ==
        "cmd=get_result rc=0 msg=success value=(vector,(0,2,2))\n");
  CHECK(table.of(3).in_mpi(Table::id(3)));
  CHECK(table.say(3, "cmd=finalize\n") == "cmd=finalize_ack rc=0\n");
  CHECK_FALSE(table.of(3).in_mpi(Table::id(3)));
  CHECK_FALSE(table.of(3).in_mpi(Table::id(2)));  // it never asked
}

TEST_CASE("a line in pieces, lines together, words in any order and words that nobody knows") {
  Table table(1, 1);
  CHECK(table.say(0, "cmd=in").empty());
  CHECK(table.say(0, "it pmi_subversion=1 new=thing pmi_version=1").empty());
  CHECK(table.say(0, "\ncmd=get_appnum\ncmd=get_") ==
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=appnum rc=0 appnum=0\n");
  CHECK(table.say(0, "universe_size\n") == "cmd=universe_size rc=0 size=1\n");
}

TEST_CASE("what is put before a barrier is seen behind it, on one host without any message") {
  Table table(1, 2);
  CHECK(table.say(0, put("-a-0", "x=1+2")) == "cmd=put_result rc=0 msg=success\n");
  CHECK(table.say(1, get("-b")) == "cmd=get_result rc=-1 msg=key_-b_not_found value=unknown\n");
  CHECK(table.say(0, "cmd=barrier_in\n").empty());
  CHECK(table.say(1, "cmd=barrier_in\n") == "cmd=barrier_out rc=0\n");
  CHECK(table.heard[0] == "cmd=barrier_out rc=0\n");
  CHECK(table.gathers.empty());
  CHECK(table.say(1, get("-a-0")) == "cmd=get_result rc=0 msg=success value=x=1+2\n");
}

TEST_CASE("a barrier of several hosts is one message a host, each way") {
  Table table(2, 2);
  for (const std::uint32_t round : {1u, 2u, 3u}) {
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      table.say(rank, put("k" + std::to_string(rank), "v" + std::to_string(round)));
      CHECK(table.say(rank, "cmd=barrier_in\n").empty());
    }
    REQUIRE(table.gathers.size() == 2);
    CHECK(table.gathers.front().second.sequence == round);
    CHECK(table.gathers.front().second.group.empty());
    table.carry();
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      CHECK(table.heard[rank] == "cmd=barrier_out rc=0\n");
      for (std::uint32_t of = 0; of < 4; ++of)
        CHECK(table.say(rank, get("k" + std::to_string(of))) ==
              "cmd=get_result rc=0 msg=success value=v" + std::to_string(round) + "\n");
    }
  }
}

TEST_CASE("an answer that is late, double or crossed changes nothing") {
  Table table(2, 1);
  auto& world = *table.worlds[0];
  CHECK(world.gathered({Generation{1}, {}, 1, {}, true}).empty());  // nobody asked
  table.say(0, "cmd=barrier_in\n");
  CHECK(world.gathered({Generation{1}, {}, 2, {}, true}).empty());
  CHECK(world.gathered({Generation{1}, {Rank{0}}, 1, {}, true}).empty());
  table.take(0, world.gathered({Generation{1}, {}, 1, {}, false}));
  CHECK(table.heard[0].empty());  // more of it will come
  table.take(0, world.gathered({Generation{1}, {}, 1, {}, true}));
  CHECK(table.heard[0] == "cmd=barrier_out rc=0\n");
  CHECK(world.gathered({Generation{1}, {}, 1, {}, true}).empty());
}

TEST_CASE("when the world fails, who waits and who comes later hears it at once, and is hung up on") {
  Table table(2, 2);
  table.say(0, init);
  table.say(0, "cmd=barrier_in\n");
  table.take(0, table.worlds[0]->failed("rank 3 on gpu2 was killed by SIGKILL"));
  const std::string error = "cmd=barrier_out rc=-1 msg=rank_3_on_gpu2_was_killed_by_SIGKILL\n<hung up>";
  CHECK(table.heard[0] == error);
  CHECK(table.say(1, "cmd=barrier_in\n") == error);
  CHECK(table.worlds[0]->failed("again").empty());
  CHECK(table.say(0, "cmd=get_maxes\n").empty());
}

TEST_CASE("a rank that ended without the barrier is named to the launcher, once, and never counted") {
  Table table(2, 3);
  table.say(0, "cmd=barrier_in\n");
  table.take(0, table.worlds[0]->left(Table::id(1)));
  REQUIRE(table.gathers.size() == 1);
  CHECK(table.gathers[0].second.missing == std::vector<Rank>{Rank{1}});
  table.say(2, "cmd=barrier_in\n");
  table.take(0, table.worlds[0]->left(Table::id(2)));
  CHECK(table.gathers.size() == 1);
}

TEST_CASE("a rank that had ended before the others came is named when they come") {
  Table table(1, 2);
  CHECK(table.worlds[0]->left(Table::id(1)).empty());
  CHECK(table.say(0, "cmd=barrier_in\n").empty());
  REQUIRE(table.gathers.size() == 1);
  CHECK(table.gathers[0].second.missing == std::vector<Rank>{Rank{1}});
}

TEST_CASE("MPI_Abort carries its code") {
  Table table(1, 1);
  for (const auto& [words, code] : std::map<std::string, int>{{"exitcode=7", 7},
                                                              {"exitcode=-1", -1},
                                                              {"exitcode=1007 message=a b c", 1007},
                                                              {"exitcode=what", 1},
                                                              {"error_msg=x", 1}}) {
    CHECK(table.say(0, "cmd=abort " + words + "\n").empty());
    CHECK(table.aborts[0] == code);
  }
}

TEST_CASE("spawning, publishing, PMI-2 and what nobody knows are refused in words") {
  Table table(1, 2);
  const std::string block = "mcmd=spawn\nnprocs=2\nexecname=./a b=c\ntotspawns=2\nspawnssofar=";
  CHECK(table.say(0, block + "1\nargcnt=1\narg1=cmd=finalize\nendcmd\n").empty());
  CHECK(table.say(0, block + "2\nendcmd\n") ==
        "cmd=spawn_result rc=-1 msg=trainrun_does_not_offer_MPI_Comm_spawn\n");
  CHECK(table.say(0, "mcmd=spawn\nnprocs=1\nendcmd\n").starts_with("cmd=spawn_result rc=-1 "));
  CHECK(table.say(0, "cmd=publish_name service=s port=p\n").starts_with("cmd=publish_result rc=-1 msg="));
  CHECK(table.say(0, "cmd=unpublish_name service=s\n").starts_with("cmd=unpublish_result rc=-1 msg="));
  CHECK(table.say(0, "cmd=lookup_name service=s\n").starts_with("cmd=lookup_result rc=-1 msg="));
  CHECK(table.say(0, "cmd=dance\n") == "cmd=dance_result rc=-1 msg=trainrun_does_not_offer_PMI's_'dance'\n");
  CHECK(table.say(1, "cmd=init pmi_version=2 pmi_subversion=0\n") ==
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
  CHECK_FALSE(table.worlds[0]->in_mpi(Table::id(1)));
  REQUIRE(table.told.size() == 6);
  CHECK(table.told[0] ==
        "rank 0 asked for MPI_Comm_spawn, which trainrun does not offer (try: start all "
        "programs in one world, as in -np 1 ./parent : -np 4 ./child)");
  CHECK(table.told[5] ==
        "rank 1 speaks PMI-2, and trainrun offers PMI-1: set MPIR_CVAR_PMI_VERSION=1, or use an MPI library "
        "that has PMI-1");
  table.say(1, "mcmd=spawn\nendcmd\n");
  CHECK(table.told.size() == 6);  // said once, whoever does it again
}

TEST_CASE("keys that are ours, of another space, or endless are refused; an empty value is none") {
  Table table(1, 1);
  CHECK(table.say(0, put("PMI_process_mapping", "x")) == "cmd=put_result rc=-1 msg=bad_key\n");
  CHECK(table.say(0, put(std::string(300, 'k'), "x")) == "cmd=put_result rc=-1 msg=bad_key\n");
  CHECK(table.say(0, "cmd=put kvsname=other key=k value=v\n") ==
        "cmd=put_result rc=-1 msg=no_such_kvsname\n");
  table.say(0, put("k", "v"));
  CHECK(table.say(0, "cmd=get kvsname=other key=k\n").starts_with("cmd=get_result rc=-1 "));
  table.say(0, put("e", ""));
  CHECK(table.say(0, get("e")).starts_with("cmd=get_result rc=-1 "));
  CHECK(table.say(0, put("k", std::string(800, 'v'))).starts_with("cmd=put_result rc=0"));
}

TEST_CASE("a mapping that is too long to tell is not found") {
  Table table(1, 1, "");
  CHECK(table.say(0, get("PMI_process_mapping"))
            .starts_with("cmd=get_result rc=-1 msg=key_PMI_process_mapping_not"));
}

TEST_CASE("puts before one barrier are bounded, and the next barrier gives room again") {
  Table table(1, 1);
  const auto large = put("k", std::string(60000, 'v'));
  int taken = 0;
  while (taken < 200 && table.say(0, large).starts_with("cmd=put_result rc=0")) ++taken;
  CHECK(taken >= 60);
  CHECK(taken < 80);
  REQUIRE(table.told.size() == 1);
  CHECK(table.told[0].starts_with("the ranks here put more than 4 MiB"));
  table.say(0, "cmd=barrier_in\n");
  CHECK(table.say(0, large).starts_with("cmd=put_result rc=0"));
}

TEST_CASE("a key that is put again takes the room of the old one") {
  Table table(1, 1);
  table.say(0, init);
  const auto large = put("key", std::string(60000, 'v'));
  for (std::size_t bytes = 0; bytes < PmiWorld::most_held + 2 * large.size(); bytes += large.size()) {
    REQUIRE(table.say(0, large).starts_with("cmd=put_result rc=0"));
    table.say(0, "cmd=barrier_in\n");
  }
  CHECK(table.told.empty());
}

TEST_CASE("what is no PMI gets no answer") {
  for (const std::string bytes : {"hello\n", "\n", "key=value cmd=init\n", "cmd=\n"}) {
    Table table(1, 1);
    CHECK(table.say(0, bytes) == "<hung up>");
    CHECK(table.say(0, init).empty());
  }
  Table table(1, 1);
  CHECK(table.say(0, std::string(pmi1::longest_line, 'x')).empty());
  CHECK(table.say(0, "x") == "<hung up>");
  CHECK(table.told.size() == 1);
}

TEST_CASE("a rank that is a script runs one MPI program after the other") {
  Table table(1, 1);
  table.say(0, init);
  table.say(0, "cmd=finalize\n");
  table.say(0, init);
  CHECK(table.worlds[0]->in_mpi(Table::id(0)));
}

TEST_CASE("ask: the agent of a rank tells what is in the key space") {
  Table table(1, 1);
  table.say(0, put("k", "v"));
  CHECK(table.worlds[0]->answer({Generation{1}, 4, Rank{0}, "k"}).bytes == "v");
  CHECK_FALSE(table.worlds[0]->answer({Generation{1}, 4, Rank{0}, "x"}).found);
}

TEST_CASE("a part of a barrier that cannot be read fails it") {
  Table table(2, 1);
  table.say(0, "cmd=barrier_in\n");
  table.take(0, table.worlds[0]->gathered({Generation{1}, {}, 1, {"\x05nonsense"}, true}));
  CHECK(table.heard[0].starts_with("cmd=barrier_out rc=-1 "));
}

}  // namespace
}  // namespace trainrun::agent
