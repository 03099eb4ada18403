// What an agent and its helper say to each other: the helper is the process that has libpmix in it
// (launcher/pmix), and its agent's child. Frames as on a Link, with numbers of their own; statuses are
// libpmix's (pmix/abi.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "launcher/wire/messages.h"

namespace trainrun::wire::pmix {

#define TRAINRUN_MESSAGE(number)               \
  static constexpr std::uint8_t type = number; \
  template <class V>                           \
  void fields([[maybe_unused]] V& v)

// ---- agent to helper

// The first message: load one of these, the first that can be loaded, and become a server. Answered by
// Opened.
struct Open {
  std::vector<std::string> libraries;
  std::string job_id, host_name;
  HostIndex host;
  std::string directory;  // private, for what libpmix keeps in files
  TRAINRUN_MESSAGE(1) {
    v("libraries", libraries), v("job_id", job_id), v("host_name", host_name), v("host", host);
    v("directory", directory);
  }
};

// A namespace of a generation begins, and the one before is forgotten. Answered by Registered.
struct Register {
  std::string name_space, directory;
  World world;
  TRAINRUN_MESSAGE(2) { v("name_space", name_space), v("directory", directory), v("world", world); }
};

// What FenceAsked or ModexAsked asked for.
struct Reply {
  std::uint32_t number = 0;
  std::int32_t status = 0;
  std::vector<std::string> parts;  // of a fence: of every host that takes part
  TRAINRUN_MESSAGE(3) { v("number", number), v("status", status), v("parts", parts); }
};

// What has this rank of ours put? Answered by Modex, once the rank has committed it.
struct AskModex {
  std::uint32_t number = 0;
  Rank rank;
  TRAINRUN_MESSAGE(4) { v("number", number), v("rank", rank); }
};

// A rank of the world, of whatever host, has died, and the others go on: they are told, as MPI's ULFM wants
// it.
struct RankDied {
  Rank rank;
  TRAINRUN_MESSAGE(5) { v("rank", rank); }
};

// ---- helper to agent

struct Opened {
  std::string library;  // that was loaded; empty: none
  std::string version;  // as it calls itself; or why there is none
  TRAINRUN_MESSAGE(20) { v("library", library), v("version", version); }
};

struct Registered {
  Generation generation;
  std::string error;  // empty: it worked
  EnvPairs env;       // of every rank of the namespace here, but for PMIX_RANK
  TRAINRUN_MESSAGE(21) { v("generation", generation), v("error", error), v("env", env); }
};

enum class Stage : std::uint8_t { connected = 1, finalized };
constexpr bool is_known(Stage stage) { return stage == Stage::connected || stage == Stage::finalized; }

struct Reached {  // PMIx_Init, PMIx_Finalize
  Generation generation;
  Rank rank;
  Stage stage = Stage::connected;
  TRAINRUN_MESSAGE(22) { v("generation", generation), v("rank", rank), v("stage", stage); }
};

struct AbortAsked {
  Generation generation;
  Rank rank;
  std::int32_t code = 0;
  std::string words;
  TRAINRUN_MESSAGE(23) { v("generation", generation), v("rank", rank), v("code", code), v("words", words); }
};

// All ranks of this host that take part are there.
struct FenceAsked {
  Generation generation;
  std::uint32_t number = 0;
  std::vector<Rank> group;  // ascending; empty: the whole world
  std::string bytes;
  TRAINRUN_MESSAGE(24) {
    v("generation", generation), v("number", number), v("group", group), v("bytes", bytes);
  }
};

struct ModexAsked {
  Generation generation;
  std::uint32_t number = 0;
  Rank rank;  // of another host
  TRAINRUN_MESSAGE(25) { v("generation", generation), v("number", number), v("rank", rank); }
};

struct Modex {
  std::uint32_t number = 0;
  std::int32_t status = 0;
  std::string bytes;
  TRAINRUN_MESSAGE(26) { v("number", number), v("status", status), v("bytes", bytes); }
};

// What a rank wants to be shown by its launcher.
struct Logged {
  Generation generation;
  Rank rank;
  Output stream = Output::err;
  std::string text;
  TRAINRUN_MESSAGE(27) { v("generation", generation), v("rank", rank), v("stream", stream), v("text", text); }
};

enum class Service : std::uint8_t { publish = 1, lookup, unpublish, spawn };
constexpr bool is_known(Service service) { return service >= Service::publish && service <= Service::spawn; }

// A rank asked for what nobody offers here.
struct Refused {
  Generation generation;
  Rank rank;
  Service service = Service::publish;
  TRAINRUN_MESSAGE(28) { v("generation", generation), v("rank", rank), v("service", service); }
};

#undef TRAINRUN_MESSAGE

constexpr std::size_t longest_text = 64u << 10;  // of what a rank says in one Logged or AbortAsked

}  // namespace trainrun::wire::pmix
