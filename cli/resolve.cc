#include "cli/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/elastic.h"
#include "cli/forward.h"
#include "cli/host_choice.h"
#include "cli/mapping.h"
#include "cli/part_hosts.h"
#include "cli/program.h"
#include "cli/program_search.h"
#include "cli/torch_words.h"
#include "cli/value.h"
#include "cli/world_notes.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/core/preload.h"
#include "launcher/core/script.h"

namespace trainrun::cli {
namespace {

const Setting* last_of(const ArgvPart& part, Option option) {
  const Setting* found = nullptr;
  for (const auto& setting : part.settings)
    if (setting.option == option) found = &setting;
  return found;
}

// A part's own setting wins, but a flag or TRAINRUN_* wins over what a file says about a part.
const Setting* stronger(const Setting* own, const Setting* common) {
  const auto strength = [](const Setting& setting) {
    return setting.origin.starts_with('-') ? 2 : setting.origin.starts_with("TRAINRUN_") ? 1 : 0;
  };
  if (own == nullptr || common == nullptr) return own == nullptr ? common : own;
  return strength(*common) > strength(*own) ? common : own;
}

class Resolver {
 public:
  Resolver(const Settings& settings, const std::vector<ArgvPart>& parts, bool needs_program,
           const Inputs& inputs)
      : settings_(settings), parts_(parts), needs_program_(needs_program), inputs_(inputs) {}

  Result<Resolved> run() {
    out_.job.id = inputs_.job_id;
    options();
    Result<void> ok = sinks_differ();
    if (ok) ok = elastic();
    if (ok) ok = hosts();
    if (ok && !choice_.this_host_alone) ok = key_is_there(settings_, out_.job.ssh.identity, inputs_);
    if (ok) ok = programs();
    if (ok) ok = counts();
    if (ok) ok = seat_on_own_hosts(settings_, parts_, inputs_, out_.job);
    if (ok) ok = deal_rounds(settings_, out_.job);
    if (ok) ok = forward(settings_, parts_, choice_.this_host_alone, inputs_, out_.job, out_.notes);
    if (ok) ok = ranks_named();
    if (ok) ok = look_here();
    for (auto& note : core::started_plainly(out_.job)) out_.notes.push_back(std::move(note));
    if (ok && !discovers()) ok = check_room(settings_, out_.job);
    if (!ok) return tl::unexpected(ok.error());
    if (!discovers()) {  // else nobody knows the hosts yet
      const auto placed = first_world(out_.job);
      if (!placed) return tl::unexpected(placed.error());
      note_first_world(out_.job, *placed, out_.notes);
    }
    return std::move(out_);
  }

 private:
  Result<void> sinks_differ() const {
    if (out_.job.events.empty() || out_.job.events != out_.job.journal) return {};
    return fail(
        Code::usage,
        fmt::format("--events and --journal both name {}", quoted(settings_.text(Option::events, ""))),
        "each needs a file of its own");
  }

  // Everything that is one value to one member.
  void options() {
    JobSpec& job = out_.job;
    const auto duration = [&](Option option, Duration otherwise) {
      const Setting* setting = settings_.get(option);
      return setting == nullptr ? otherwise : parse_duration(setting->value).value_or(otherwise);
    };
    const auto path = [&](Option option) {
      const Setting* setting = settings_.get(option);
      return setting == nullptr ? std::string() : absolute_path(setting->value, inputs_);
    };
    const auto sink = [&](Option option) {
      const auto target = settings_.text(option, "");
      return parse_descriptor(target) ? target : path(option);
    };
    job.oversubscribe = settings_.flag(Option::oversubscribe);
    constexpr std::pair<std::string_view, BindTo> binds[] = {
        {"none", BindTo::none}, {"core", BindTo::core},     {"l3cache", BindTo::l3cache},
        {"numa", BindTo::numa}, {"socket", BindTo::socket}, {"auto", BindTo::automatic}};
    job.bind_to = choice(Option::bind_to, binds);
    job.report_bindings = settings_.flag(Option::report_bindings);
    job.cpus_per_rank = settings_.number(Option::cpus_per_rank, 0);
    job.gpus_per_rank = settings_.number(Option::gpus_per_rank, 0);
    constexpr std::pair<std::string_view, Compat> compats[] = {{"auto", Compat::automatic},
                                                               {"mpich", Compat::mpich},
                                                               {"openmpi", Compat::open_mpi},
                                                               {"horovod", Compat::horovod},
                                                               {"none", Compat::none}};
    job.compat = choice(Option::compat, compats);
    job.pmix_library = path(Option::pmix_lib);
    constexpr std::pair<std::string_view, TransportKind> transports[] = {{"auto", TransportKind::automatic},
                                                                         {"local", TransportKind::local},
                                                                         {"ssh", TransportKind::ssh},
                                                                         {"openssh", TransportKind::openssh}};
    job.transport = choice(Option::transport, transports);
    job.ssh.port = static_cast<std::uint16_t>(settings_.number(Option::ssh_port, 0));
    job.ssh.identity = path(Option::ssh_identity_file);
    job.ssh.config_file = path(Option::ssh_config);
    job.ssh.accept_new = settings_.flag(Option::ssh_accept_new);
    job.ssh.agent_dir = settings_.text(Option::agent_dir, "");
    job.network_interface = settings_.text(Option::network_interface, "");
    job.master_port = static_cast<std::uint16_t>(settings_.number(Option::master_port, 0));
    if (const Setting* ports = settings_.get(Option::port_range))
      job.ports = parse_port_range(ports->value).value_or(PortRange{});
    if (settings_.has(Option::timeout)) job.timeout = duration(Option::timeout, Duration::zero());
    job.start_timeout = duration(Option::start_timeout, job.start_timeout);
    job.start_timeout_given = settings_.has(Option::start_timeout);
    job.grace = duration(Option::grace, job.grace);
    job.host_timeout = duration(Option::host_timeout, job.host_timeout);
    constexpr std::pair<std::string_view, Tag> tags[] = {
        {"", Tag::automatic}, {"none", Tag::none}, {"rank", Tag::rank}, {"host", Tag::host}};
    job.tag = choice(Option::tag, tags);
    job.timestamp = settings_.flag(Option::timestamp);
    if (settings_.has(Option::pty)) job.pty = settings_.flag(Option::pty);
    job.output_directory = path(Option::output_filename);
    job.events = sink(Option::events);
    job.journal = sink(Option::journal);
    if (const Setting* ranks = settings_.get(Option::only_rank)) {
      job.only_ranks = parse_ranks(ranks->value).value_or(std::vector<int>{});
    }
    read_torch_settings(settings_, inputs_, out_);
    const auto wish = parse_stdin(settings_.text(Option::stdin_to, "0")).value_or(StdinWish{});
    job.stdin_to = wish.to;
    job.stdin_rank = wish.rank;
    job.quiet = settings_.flag(Option::quiet);
    for (const auto& setting : settings_.all(Option::verbose)) {
      job.verbose += setting.value == "true"
                         ? 1
                         : static_cast<int>(parse_unsigned<std::uint32_t>(setting.value).value_or(0));
    }
  }

  template <class E, std::size_t n>
  E choice(Option option, const std::pair<std::string_view, E> (&rows)[n]) const {
    const std::string text = settings_.text(option, rows[0].first);
    for (const auto& [word, value] : rows) {
      if (word == text) return value;
    }
    return rows[0].second;  // not reached: the setting was checked
  }

  Result<void> elastic() {
    auto read = read_elastic(settings_, inputs_);
    if (!read) return tl::unexpected(read.error());
    out_.job.elastic = std::move(*read);
    return {};
  }

  [[nodiscard]] bool discovers() const { return out_.job.elastic.discovery.kind != DiscoveryKind::none; }

  Result<void> hosts() {
    if (discovers()) {
      choice_.origin = "the discovery";
      choice_.this_host_alone = false;  // it may name any host, so nothing is taken for granted
    } else {
      auto chosen = choose_hosts(settings_, inputs_);
      if (!chosen) return tl::unexpected(chosen.error());
      choice_ = std::move(*chosen);
    }
    // Those of Slurm were always taken in silence, and scripts read what their jobs print.
    if (!choice_.batch_system.empty() && (choice_.batch_system != "Slurm" || out_.job.verbose > 0)) {
      std::vector<std::string> names;
      for (const auto& host : choice_.hosts) names.push_back(host.name);
      out_.notes.push_back(fmt::format("hosts of the {} job ({}): {}", choice_.batch_system, choice_.origin,
                                       list_names(names)));
    }
    JobSpec& job = out_.job;
    if (auto ok = read_mapping(settings_, inputs_, choice_, job, out_.notes); !ok) return ok;
    out_.hosts_origin = choice_.origin;
    out_.this_host_alone = choice_.this_host_alone;
    if (job.transport == TransportKind::local) {
      for (const auto& host : choice_.hosts) {
        if (inputs_.is_this_machine(host)) continue;
        return fail(Code::usage,
                    fmt::format("{} local: {} is not this host", settings_.get(Option::transport)->origin,
                                quoted(host.name)),
                    "--transport auto runs ranks of this host locally and of others by ssh");
      }
    }
    job.hosts = HostSet{choice_.hosts, 1};
    job.slots_from = choice_.slots_from;
    return {};
  }

  Result<void> programs() {
    for (const auto& part : parts_) {
      Program program;
      const Setting* wdir = stronger(last_of(part, Option::wdir), settings_.get(Option::wdir));
      program.directory = wdir == nullptr ? inputs_.directory : absolute_path(wdir->value, inputs_);
      std::vector<std::string> details;
      auto words = program_words(part, program.directory, choice_.this_host_alone, inputs_, details);
      if (!words) return tl::unexpected(words.error());
      for (auto& line : details)
        if (out_.job.verbose > 0 && std::find(out_.notes.begin(), out_.notes.end(), line) == out_.notes.end())
          out_.notes.push_back(std::move(line));
      if (words->empty() && needs_program_) {
        return fail(Code::usage, "no program was named",
                    "write trainrun [flags] program [arguments], or see trainrun --help");
      }
      program.argv = std::move(*words);
      program.script = core::script_of(program.argv);
      out_.job.programs.push_back(std::move(program));
    }
    return {};
  }

  // An np for the whole job and one for a program of the file: which one is meant? Programs of the command
  // line overrule the file, and a flag or variable overrules the np of a single program.
  [[nodiscard]] Result<void> one_answer(const Setting* common) const {
    if (common == nullptr) return {};
    const bool in_file = !common->origin.starts_with('-') && !common->origin.starts_with("TRAINRUN_");
    for (const auto& part : parts_) {
      const Setting* own = last_of(part, Option::np);
      if (own == nullptr || own->origin.starts_with('-') || (parts_.size() == 1 && !in_file)) continue;
      if (in_file) {
        return fail(Code::config,
                    fmt::format("{}: np = {} for the whole job, and np = {} for a program at {}",
                                common->origin, common->value, own->value, own->origin),
                    "drop the first: each [[program]] has its own np");
      }
      return fail(Code::usage, fmt::format("{}: the file names {} programs, each with its own np",
                                           common->origin, parts_.size()));
    }
    return {};
  }

  // How many ranks: asked for, else all slots, else what this host has.
  Result<void> counts() {
    JobSpec& job = out_.job;
    std::int64_t asked = 0;
    const Setting* common = settings_.get(Option::np);
    if (auto ok = one_answer(common); !ok) return ok;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Setting* np = last_of(parts_[i], Option::np);
      if (np == nullptr && parts_.size() > 1) {
        const auto& argv = job.programs[i].argv;  // empty where no program is needed, as for --print-config
        return fail(
            Code::usage,
            fmt::format("part {} ({}) has no -np", i + 1, argv.empty() ? "no program" : quoted(argv.front())),
            "with several programs each says its own: -np 1 ./server : -np 7 ./client");
      }
      if (parts_.size() == 1) np = stronger(np, common);
      if (np == nullptr) break;
      job.programs[i].np = static_cast<int>(parse_unsigned<std::uint32_t>(np->value).value_or(0));
      asked += job.programs[i].np;
      out_.np_origin = np->origin;
    }
    if (asked > 1'000'000) return fail(Code::usage, fmt::format("{} ranks are more than a million", asked));
    if (auto ok = sizes(static_cast<int>(asked)); !ok) return ok;
    if (job.hosts.hosts.empty() && !discovers()) {
      const int slots = std::max(job.world_size(), 1) + job.elastic.spares;
      job.hosts.hosts.push_back(Host{.name = inputs_.hostname, .slots = slots, .slots_given = true});
    }
    return {};
  }

  // How many ranks, and between which bounds.
  Result<void> sizes(int asked) {
    JobSpec& job = out_.job;
    const SizeFacts facts{.elastic = job.elastic.enabled(),
                          .discovers = discovers(),
                          .hosts_named = !job.hosts.hosts.empty(),
                          .hosts = job.hosts.hosts.size(),
                          .room = room_of(job),
                          .ppr = job.ppr,
                          .programs = parts_.size(),
                          .np = asked,
                          .np_origin = asked == 0 ? "" : out_.np_origin};
    auto sizes = choose_sizes(settings_, facts);
    if (!sizes) return tl::unexpected(sizes.error());
    out_.notes.insert(out_.notes.end(), sizes->notes.begin(), sizes->notes.end());
    if (asked == 0) {
      out_.np_origin = sizes->np_origin;
      job.programs.front().np = sizes->np != 0 ? sizes->np : all_slots();
    }
    if (!job.elastic.enabled()) return {};
    out_.elastic_origin = elastic_origin(settings_);
    job.elastic.min_np = sizes->min != 0 ? sizes->min : job.world_size();
    job.elastic.max_np = sizes->max != 0 ? sizes->max : job.world_size();
    out_.min_np_origin = sizes->min != 0 ? sizes->min_origin : out_.np_origin;
    out_.max_np_origin = sizes->max != 0 ? sizes->max_origin : out_.np_origin;
    return {};
  }

  int all_slots() {
    const JobSpec& job = out_.job;
    if (!job.hosts.hosts.empty()) {
      out_.np_origin = job.ppr > 0 ? fmt::format("{} a host", job.ppr) : "all slots of the hosts";
      std::int64_t sum = 0;
      for (const auto& host : job.hosts.hosts) sum += job.ppr > 0 ? job.ppr : host.slots;
      sum = std::min<std::int64_t>(sum, 1'000'000);
      if (job.elastic.spares > 0 && sum > job.elastic.spares) {
        sum -= job.elastic.spares;
        out_.np_origin += " but the spares";
        out_.notes.push_back(fmt::format("no -np: {}, all slots of the hosts but {}", counted(sum, "rank"),
                                         counted(job.elastic.spares, "spare")));
      }
      return static_cast<int>(sum);
    }
    if (job.ppr > 0) {
      out_.np_origin = fmt::format("{} a host", job.ppr);
      return job.ppr;
    }
    const LocalFacts facts = inputs_.local_facts();
    const bool by_gpu = facts.gpus > 0;
    const std::uint32_t count = std::max<std::uint32_t>(by_gpu ? facts.gpus : facts.cores, 1);
    out_.np_origin = by_gpu ? "one a GPU" : "one a core";
    out_.notes.push_back(fmt::format("no -np and no hosts: {} on this host, one a {}", counted(count, "rank"),
                                     by_gpu ? "GPU" : "physical core that may be used"));
    return static_cast<int>(count);
  }

  Result<void> ranks_named() const {
    const int size = std::max(out_.job.world_size(), out_.job.elastic.max_np);  // it may grow so far
    const auto check = [&](Option option, int rank) -> Result<void> {
      if (rank < size) return {};
      return fail(Code::usage,
                  fmt::format("{}: there is no {}rank {}; the job has {}",
                              settings_.has(option) ? settings_.get(option)->origin : "--stdin",
                              option == Option::local_ranks_filter ? "local " : "", rank,
                              size == 1 ? "rank 0 only" : fmt::format("ranks 0 to {}", size - 1)));
    };
    if (!out_.job.only_ranks.empty()) {
      if (auto ok = check(Option::only_rank, out_.job.only_ranks.back()); !ok) return ok;
    }
    if (!out_.job.only_local_ranks.empty()) {  // a local rank is no larger than the rank
      if (auto ok = check(Option::local_ranks_filter, out_.job.only_local_ranks.back()); !ok) return ok;
    }
    return check(Option::stdin_to, out_.job.stdin_to == StdinTo::rank ? out_.job.stdin_rank : 0);
  }

  // What this host would have to run can be looked at before anything starts.
  Result<void> look_here() const {
    if (!choice_.this_host_alone || !needs_program_) return {};
    for (const auto& program : out_.job.programs) {
      if (!inputs_.is_directory(program.directory)) {
        return fail(Code::config,
                    fmt::format("the working directory {} {}", quoted(program.directory),
                                inputs_.is_file(program.directory) ? "is no directory" : "does not exist"),
                    "--wdir DIR chooses another one");
      }
      if (program.argv.empty()) continue;
      const std::string path = path_of_workers(out_.job, program);
      const auto& name = program.argv.front();
      if (path.empty() && name.find('/') == std::string::npos &&
          !inputs_.is_executable(program.directory + "/" + name)) {
        const bool taken = !variable(inputs_.environment, "PATH").empty();
        return fail(
            Code::not_found, fmt::format("program {} not found in PATH", quoted(name)),
            fmt::format("{}: write the program with its path, or add -x PATH{}",
                        taken ? "--env none leaves no PATH" : "PATH is not set", taken ? "" : "=..."));
      }
      if (auto ok = check_program(program, path, inputs_); !ok) return ok;
    }
    return {};
  }

  const Settings& settings_;
  const std::vector<ArgvPart>& parts_;
  const bool needs_program_;
  const Inputs& inputs_;
  HostChoice choice_;
  Resolved out_;
};

}  // namespace

Result<Resolved> resolve(const Settings& settings, const std::vector<ArgvPart>& parts, bool needs_program,
                         const Inputs& inputs) {
  return Resolver(settings, parts, needs_program, inputs).run();
}

}  // namespace trainrun::cli
