#include "launcher/control/world_view.h"

#include <nlohmann/json.hpp>

#include "launcher/control/reply_fields.h"

namespace trainrun::control {
namespace {

using Json = nlohmann::ordered_json;
constexpr int schema = 1;

// What a clock of ours cannot have counted is no duration, and must not become an overflow.
std::optional<Duration> duration_of(const Json& json, const char* key) {
  constexpr double longest = 10.0 * 365 * 86400;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  if (!(value >= 0 && value <= longest)) return std::nullopt;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

Json json_of(const RankView& rank) {
  Json json{
      {"rank", rank.rank}, {"worker", rank.worker}, {"host", rank.host}, {"local_rank", rank.local_rank}};
  if (rank.pid > 0) json["pid"] = rank.pid;
  json["state"] = rank.state;
  if (rank.age) json["seconds"] = in_seconds(*rank.age);
  return json;
}

Json json_of(const HostView& host) {
  Json json{{"name", host.name},
            {"state", host.state},
            {"slots", host.slots},
            {"ranks", host.ranks},
            {"note", host.note}};
  if (host.cooldown) json["cooldown"] = in_seconds(*host.cooldown);
  return json;
}

RankView rank_of(const Json& json) {
  return {.rank = number_of<int>(json, "rank"),
          .worker = number_of<std::uint32_t>(json, "worker"),
          .host = text_of(json, "host"),
          .local_rank = number_of<int>(json, "local_rank"),
          .pid = number_of<std::int64_t>(json, "pid"),
          .state = text_of(json, "state"),
          .age = duration_of(json, "seconds")};
}

HostView host_of(const Json& json) {
  return {.name = text_of(json, "name"),
          .state = text_of(json, "state"),
          .slots = number_of<int>(json, "slots"),
          .ranks = number_of<int>(json, "ranks"),
          .note = text_of(json, "note"),
          .cooldown = duration_of(json, "cooldown")};
}

}  // namespace

std::string to_json(const WorldView& world) {
  Json ranks = Json::array(), newcomers = Json::array(), hosts = Json::array();
  for (const auto& rank : world.ranks) ranks.push_back(json_of(rank));
  for (const auto& rank : world.newcomers) newcomers.push_back(json_of(rank));
  for (const auto& host : world.hosts) hosts.push_back(json_of(host));
  Json json{{"ok", true},
            {"schema", schema},
            {"job_id", world.job_id},
            {"elastic", world.elastic},
            {"generation", world.generation},
            {"phase", world.phase},
            {"min_np", world.min_np},
            {"max_np", world.max_np},
            {"restarts", world.restarts},
            {"restarts_used", world.restarts_used},
            {"restart_limit", world.restart_limit},
            {"ranks", std::move(ranks)},
            {"newcomers", std::move(newcomers)}};
  if (world.newcomers_in) json["newcomers_in"] = in_seconds(*world.newcomers_in);
  json["hosts"] = std::move(hosts);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<WorldView> read_world(std::string_view reply) {
  const auto json = parse_reply(reply);
  if (!json) return tl::unexpected(json.error());
  if (number_of<int>(*json, "schema") != schema || !json->contains("ranks") || !json->contains("hosts"))
    return fail(Code::protocol, "the launcher describes its world in a way that this trainrun does not know",
                "use the trainrun that started the job, or --json");
  const auto elastic = json->find("elastic");  // an older launcher was asked of elastic jobs alone
  WorldView world{.elastic = elastic == json->end() || !elastic->is_boolean() || elastic->get<bool>(),
                  .generation = number_of<std::uint32_t>(*json, "generation"),
                  .phase = text_of(*json, "phase"),
                  .job_id = text_of(*json, "job_id"),
                  .min_np = number_of<int>(*json, "min_np"),
                  .max_np = number_of<int>(*json, "max_np"),
                  .restarts = number_of<int>(*json, "restarts"),
                  .restarts_used = number_of<int>(*json, "restarts_used"),
                  .restart_limit = number_of<int>(*json, "restart_limit"),
                  .ranks = {},
                  .newcomers = {},
                  .newcomers_in = duration_of(*json, "newcomers_in"),
                  .hosts = {}};
  const auto read_ranks = [&json](const char* key, std::vector<RankView>& into) {
    const auto found = json->find(key);
    for (const auto& rank : found == json->end() ? Json::array() : *found)
      if (rank.is_object()) into.push_back(rank_of(rank));
  };
  read_ranks("ranks", world.ranks);
  read_ranks("newcomers", world.newcomers);
  for (const auto& host : json->at("hosts")) {
    if (host.is_object()) world.hosts.push_back(host_of(host));
  }
  return world;
}

}  // namespace trainrun::control
