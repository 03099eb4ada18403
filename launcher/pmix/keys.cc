#include "launcher/pmix/keys.h"

#include <cstring>

namespace trainrun::pmix {

abi::Value& Keys::add(const char* key, abi::Type type) {
  auto& item = items_.emplace_back();
  std::memset(&item, 0, sizeof item);
  std::strncpy(item.key, key, abi::longest_key);
  item.value.type = type;
  return item.value;
}

void Keys::text(const char* key, std::string value) {
  texts_.push_back(std::move(value));
  add(key, abi::type_string).data.string = texts_.back().data();
}
void Keys::flag(const char* key, bool value) { add(key, abi::type_bool).data.flag = value; }
void Keys::u16(const char* key, std::uint16_t value) { add(key, abi::type_u16).data.u16 = value; }
void Keys::u32(const char* key, std::uint32_t value) { add(key, abi::type_u32).data.u32 = value; }
void Keys::rank(const char* key, std::uint32_t value) { add(key, abi::type_rank).data.rank = value; }

void Keys::proc(const char* key, abi::Proc& value) { add(key, abi::type_proc).data.proc = &value; }

void Keys::regex(const char* key, char* value, const Library& library) {
  auto& item = add(key, abi::type_string);
  item.data.string = value;
  // It may have zeros in it, and only the library knows how long it is.
  if (library.load_value != nullptr) library.load_value(&item, value, abi::type_regex);
}

Keys& Keys::list(const char* key) {
  add(key, abi::type_array);
  return *lists_.emplace_back(List{items_.size() - 1, std::make_unique<Keys>(), {}}).keys;
}

void Keys::close() {
  for (auto& list : lists_) {
    list.keys->close();
    list.array = {abi::type_info, list.keys->size(), list.keys->items()};
    items_[list.at].value.data.array = &list.array;
  }
}

namespace {

std::string list_of(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (const auto number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

std::vector<std::vector<std::uint32_t>> ranks_of_hosts(const wire::World& world) {
  std::vector<std::vector<std::uint32_t>> ranks(world.hosts.size());
  for (std::uint32_t rank = 0; rank < world.host_of_rank.size(); ++rank)
    ranks[world.host_of_rank[rank]].push_back(rank);
  return ranks;
}

void fill_maps(Keys& keys, const wire::World& world, const Library& library) {
  std::string names, ranks;
  const auto of_hosts = ranks_of_hosts(world);
  for (std::size_t host = 0; host < world.hosts.size(); ++host) {
    names += (host == 0 ? "" : ",") + world.hosts[host];
    ranks += (host == 0 ? "" : ";") + list_of(of_hosts[host]);
  }
  char* regex = nullptr;
  if (library.generate_regex(names.c_str(), &regex) == abi::success) keys.regex("pmix.nmap", regex, library);
  if (library.generate_ppn(ranks.c_str(), &regex) == abi::success) keys.regex("pmix.pmap", regex, library);
}

void fill_hosts(Keys& keys, const wire::World& world) {
  const auto of_hosts = ranks_of_hosts(world);
  for (std::uint32_t host = 0; host < world.hosts.size(); ++host) {
    auto& node = keys.list("pmix.node.arr");
    const auto count = static_cast<std::uint32_t>(of_hosts[host].size());
    node.text("pmix.hname", world.hosts[host]);
    node.u32("pmix.nodeid", host);
    node.u32("pmix.node.size", count);
    node.u32("pmix.local.size", count);
    if (count > 0) node.rank("pmix.lldr", of_hosts[host].front());
    node.text("pmix.lpeers", list_of(of_hosts[host]));
    if (host == world.here) node.flag("pmix.ndosub", world.oversubscribed);
  }
}

struct PartOfWorld {
  std::uint32_t size = 0, first = 0;
};
std::vector<PartOfWorld> parts_of(const wire::World& world) {
  std::vector<PartOfWorld> parts(world.programs.size());
  for (std::uint32_t rank = 0; rank < world.program_of_rank.size(); ++rank) {
    auto& part = parts[world.program_of_rank[rank]];
    if (part.size++ == 0) part.first = rank;
  }
  return parts;
}

void fill_programs(Keys& keys, const wire::World& world) {
  const auto parts = parts_of(world);
  std::string sizes, firsts;
  for (std::uint32_t number = 0; number < parts.size(); ++number) {
    auto& app = keys.list("pmix.app.arr");
    app.u32("pmix.appnum", number);
    app.u32("pmix.app.size", parts[number].size);
    app.rank("pmix.aldr", parts[number].first);
    app.text("pmix.wdir", world.programs[number].directory);
    std::string words;
    for (const auto& word : world.programs[number].argv) words += (words.empty() ? "" : " ") + word;
    app.text("pmix.app.argv", std::move(words));
    sizes += (number == 0 ? "" : " ") + std::to_string(parts[number].size);
    firsts += (number == 0 ? "" : " ") + std::to_string(parts[number].first);
  }
  if (parts.size() > 1) {
    keys.text("OMPI_APP_SIZES", std::move(sizes));
    keys.text("OMPI_FIRST_RANKS", std::move(firsts));
  }
}

void fill_binding(Keys& keys, const std::vector<std::uint32_t>& cpus, const Library& library) {
  const auto text = "hwloc:" + list_of(cpus);
  abi::CpuSet set{};
  char* locality = nullptr;
  if (library.parse_cpuset == nullptr || library.locality_string == nullptr ||
      library.parse_cpuset(text.c_str(), &set) != abi::success ||
      library.locality_string(&set, &locality) != abi::success || locality == nullptr)
    return;
  keys.text("pmix.cpuset", text);
  keys.text("pmix.locstr", locality);
}

void fill_ranks(Keys& keys, const wire::pmix::Register& order, const Library& library) {
  const auto& world = order.world;
  std::vector<std::uint32_t> on_host(world.hosts.size()), of_program(world.programs.size());
  for (std::uint32_t rank = 0; rank < world.host_of_rank.size(); ++rank) {
    const auto host = world.host_of_rank[rank], program = world.program_of_rank[rank];
    const auto local = on_host[host]++;
    auto& proc = keys.list("pmix.pdata");
    proc.rank("pmix.rank", rank);
    proc.rank("pmix.grank", rank);
    proc.u32("pmix.appnum", program);
    proc.rank("pmix.apprank", of_program[program]++);
    proc.u16("pmix.lrank", static_cast<std::uint16_t>(local));
    proc.u16("pmix.nrank", static_cast<std::uint16_t>(local));
    proc.u32("pmix.nodeid", host);
    proc.text("pmix.hname", world.hosts[host]);
    proc.u32("pmix.reinc", world.restarts);
    if (host != world.here) continue;
    proc.text("pmix.pdir", order.directory);
    if (local < world.cpus.size() && !world.cpus[local].empty())
      fill_binding(proc, world.cpus[local], library);
  }
}

}  // namespace

std::vector<std::uint32_t> local_ranks(const wire::World& world) { return ranks_of_hosts(world)[world.here]; }

void fill_world(Keys& keys, const wire::pmix::Register& order, const Library& library) {
  const auto& world = order.world;
  const auto local = local_ranks(world);
  const auto size = static_cast<std::uint32_t>(world.host_of_rank.size());
  fill_maps(keys, world, library);
  keys.u32("pmix.job.size", size);
  keys.u32("pmix.univ.size", size);
  keys.u32("pmix.max.size", size);
  keys.u32("pmix.num.nodes", static_cast<std::uint32_t>(world.hosts.size()));
  keys.u32("pmix.job.napps", static_cast<std::uint32_t>(world.programs.size()));
  keys.text("pmix.jobid", order.name_space);
  keys.u32("pmix.local.size", static_cast<std::uint32_t>(local.size()));
  keys.text("pmix.lpeers", list_of(local));
  keys.text("pmix.tmpdir", order.directory);
  keys.text("pmix.nsdir", order.directory);
  keys.text("pmix.mapby", "slot");
  keys.text("pmix.rankby", "slot");
  keys.text("pmix.bindto", world.cpus.empty() ? "none" : "core");
  keys.flag("pmix.fqdn", true);
  if (!world.mapping.empty()) keys.text("pmix.anlmap", world.mapping);
  fill_hosts(keys, world);
  fill_programs(keys, world);
  fill_ranks(keys, order, library);
  keys.close();
}

}  // namespace trainrun::pmix
