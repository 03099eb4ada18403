#include "cli/mpi_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/letters.h"
#include "cli/mpi_parameters.h"
#include "cli/program.h"
#include "cli/remote_shell.h"
#include "cli/value.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::cli {

namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_count(std::string_view text) {
  const auto count = parse_unsigned<std::uint32_t>(text);
  return count && *count > 0;
}

class Reader {
 public:
  Reader(const MpiFlag& row, const std::string& spelled, const std::string& value, Ways ways,
         const std::vector<EnvVar>& environment)
      : row_(row), spelled_(spelled), value_(value), ways_(ways), environment_(environment) {}

  Result<Meant> read() {
    if (auto ok = read_it(); !ok) return tl::unexpected(ok.error());
    return std::move(out_);
  }

 private:
  Result<void> read_it() {
    switch (row_.how) {
      case How::ranks:
        return value_ == "0" && ways_ == Ways::open_mpi ? Result<void>() : put(Option::np, value_);
      case How::bind_to:
        return bind_to();
      case How::map_by:
        return map_by();
      case How::rank_by:
        return rank_by(lower(value_.substr(0, value_.find(':'))));
      case How::ppr:
        return per(value_);
      case How::per_socket:
        return per(value_ + ":socket");
      case How::parameter:
        return parameter();
      case How::variable:
      case How::all_variable:
        put(Option::export_name, value_);
        out_.for_all = row_.how == How::all_variable;
        return {};
      case How::variables:
      case How::all_variables:
        keep_path_alone();
        for (const auto name : split(value_, ',')) put(Option::export_name, std::string(trim(name)));
        out_.for_all = row_.how == How::all_variables;
        return {};
      case How::no_variables:
        keep_path_alone();
        return {};
      case How::prefix:
        out_.prefix = value_;
        return {};
      case How::cpus:
        put(Option::cpus_per_rank, value_);
        put(Option::bind_to, "core");
        return {};
      case How::directory:
        put(Option::output_filename, value_.substr(0, value_.find(':')));
        return {};
      case How::starter:
        if (value_ == "ssh") return {};
        if (value_ == "fork") return put(Option::transport, "local");
        return refuse("hosts are reached by ssh: write --transport ssh, openssh or local");
      case How::batch_system:
        if (is_one_of(value_, {"slurm", "pbs", "lsf", "sge"})) return put(Option::hosts_from, value_);
        if (value_ == "user") return put(Option::hosts_from, "none");
        return refuse("the hosts of slurm, pbs, lsf and sge are known: name those of others with -f FILE");
      case How::gpus:
        if (is_one_of(value_, {"auto", "AUTO"})) return {};
        return put(Option::gpus_per_rank, value_);
      case How::fault_tolerance:
        if (is_one_of(lower(value_), {"no", "none", "false", "0"})) return {};
        if (!is_one_of(lower(value_), {"ulfm", "mpi", "yes", "true", "1"}))
          return refuse("write --with-ft ulfm");
        return put(Option::on_failure, "ignore");
      case How::label:
        return label();
      case How::output:
        return output();
      case How::display:
        return display();
      case How::runtime:
        return runtime();
      case How::show_hosts:
        out_.show_hosts = true;
        return {};
      case How::show_ranks:
        out_.show_ranks = true;
        return {};
      case How::time_limit:
        return value_ == "0" ? Result<void>() : put(Option::timeout, value_);
      case How::granted:
      case How::programs:
      case How::none:
        break;
    }
    return {};
  }

  Result<void> bind_to() {
    auto words = split(value_, ':');
    const auto what = lower(words.front());
    words.erase(words.begin());
    if (ways_ == Ways::hydra && is_one_of(what, {"user", "rr", "cpuset"}))
      return refuse("ranks are bound to none, core, numa or socket; write taskset before the program");
    std::string ours = what;
    if (is_one_of(what, {"hwthread", "l1cache", "l2cache", "l1", "l2", "l1dcache"})) {
      ours = "core";
    } else if (what == "l3") {
      ours = "l3cache";
    } else if (what == "package") {
      ours = "socket";
    } else if (is_one_of(what, {"board", "machine"})) {
      ours = "none";
    } else if (what == "cpu-list") {
      return refuse("write taskset before the program, or --bind-to core and --cpus-per-rank N");
    }
    for (const auto word : words) {
      const auto qualifier = lower(word);
      if (is_count(qualifier) && ours == "core" && ways_ == Ways::hydra) {
        put(Option::cpus_per_rank, qualifier);
      } else if (is_one_of(qualifier, {"overload-allowed", "overload"})) {
        if (ours == "core") ours = "auto";  // to nothing where ranks share cores, which it allows
      } else if (!is_one_of(qualifier, {"if-supported", "no-overload", "ordered"})) {
        return refuse(fmt::format("{} is no qualifier that is known here: leave it out", quoted(word)));
      }
    }
    if (ours != "auto" && ours != what && !is_one_of(what, {"package", "l3"})) {
      note(ours == "none" ? "a whole host: ranks are not bound"
                          : "ranks are bound to cores, with all hardware threads of them");
    }
    return put(Option::bind_to, ours);
  }

  Result<void> map_by() {
    std::string what = lower(value_);
    std::vector<std::string> qualifiers;
    auto colon = what.find(':');
    if (what.starts_with("ppr:")) {
      colon = what.find(':', 4);
      if (colon != std::string::npos) colon = what.find(':', colon + 1);
    }
    if (colon != std::string::npos) {
      for (auto& c : what) c = c == ',' ? ':' : c;
      for (const auto word : split(std::string_view(what).substr(colon + 1), ':'))
        qualifiers.emplace_back(word);
      what.resize(colon);
    }
    if (what.starts_with("ppr:")) {
      if (auto ok = per(what.substr(4)); !ok) return ok;
    } else if (what == "rankfile") {  // the path keeps its case
      constexpr std::string_view key = "file=";
      const auto at = lower(value_).find(key);
      if (at == std::string::npos || at + key.size() == value_.size())
        return refuse("write rankfile:file=FILE, or -rankfile FILE");
      put(Option::rankfile, value_.substr(at + key.size(), value_.find(':', at) - at - key.size()));
      std::erase_if(qualifiers, [&](const std::string& word) { return word.starts_with(key); });
    } else if (is_one_of(what, {"node", "host"})) {
      put(Option::map_by, "host");
    } else if (is_one_of(what, {"slot", "hwthread", "core", "socket", "package", "numa", "board", "l1cache",
                                "l2cache", "l3cache", "l1", "l2", "l3"})) {
      put(Option::map_by, "slot");
      // Open MPI binds to what it maps by.
      const auto bound = what == "hwthread"                       ? "core"
                         : is_one_of(what, {"socket", "package"}) ? "socket"
                         : is_one_of(what, {"l3cache", "l3"})     ? "l3cache"
                         : is_one_of(what, {"core", "numa"})      ? what
                                                                  : std::string{};
      if (ways_ == Ways::open_mpi && !bound.empty())
        out_.defaults.push_back({Option::bind_to, bound, spelled_});
    } else if (!what.empty()) {
      return refuse(
          "write slot, node, ppr:N:node or ppr:N:socket; the order of hosts in -H or the host file is that "
          "of ranks");
    }
    for (const auto& word : qualifiers) {
      if (word.starts_with("pe=")) {
        if (!is_count(word.substr(3))) return refuse("PE=N is how many cores each rank has");
        put(Option::cpus_per_rank, word.substr(3));
        out_.defaults = {{Option::bind_to, "core", spelled_}};
      } else if (word == "oversubscribe") {
        put(Option::oversubscribe, "true");
      } else if (word == "nooversubscribe") {
        put(Option::oversubscribe, "false");
      } else if (!is_one_of(word, {"span", "overload-allowed", "if-supported", "inherit", "noinherit",
                                   "corecpus"}) &&
                 !(ways_ == Ways::hydra && is_count(word))) {
        return refuse(fmt::format("{} is no qualifier that is known here: leave it out", quoted(word)));
      }
    }
    return {};
  }

  Result<void> rank_by(const std::string& what) {
    if (is_one_of(what, {"node", "host"})) return put(Option::rank_by, "host");
    // Parts of a host are an order within it.
    if (is_one_of(what, {"slot", "hwthread", "core", "socket", "package", "numa", "board", "l1cache",
                         "l2cache", "l3cache", "fill"}))
      return put(Option::rank_by, "slot");
    return refuse("write slot, for ranks that follow each other on a host, or node, for one of each in turn");
  }

  Result<void> per(const std::string& count_and_place) {
    const auto way = parse_map_by("ppr:" + lower(count_and_place));
    if (!way || way->by != MapBy::ppr)
      return refuse("write N and node, socket, numa, l3cache or core, as in ppr:2:socket");
    constexpr std::string_view names[] = {"host", "socket", "numa", "l3cache", "core"};
    return put(Option::map_by,
               fmt::format("ppr:{}:{}", way->count, names[static_cast<std::size_t>(way->part)]));
  }

  Result<void> parameter() {
    // Of what Open MPI's own launcher would do.
    constexpr std::string_view launchers[] = {"plm_", "ras_",  "rmaps_", "oob_",   "routed_",  "odls_",
                                              "ess_", "orte_", "prte_",  "filem_", "grpcomm_", "schizo_"};
    const auto name = value_.substr(0, value_.find('='));
    if (const auto* row = row_of_parameter(name); row != nullptr && row_.value == "OMPI_MCA_") {
      auto meant =
          meant_as_parameter(*row, fmt::format("{} {}", spelled_, name),
                             value_.substr(std::min(name.size() + 1, value_.size())), ways_, environment_);
      if (!meant) return tl::unexpected(meant.error());
      out_ = std::move(*meant);
      out_.yields = true;
      return {};
    }
    if (row_.value == "OMPI_MCA_" && is_about_remote_shell(name)) {
      out_ = meant_of_ssh(name, value_.substr(std::min(name.size() + 1, value_.size())),
                          fmt::format("{} {}", spelled_, name));
      out_.yields = true;
      return {};
    }
    if (name == "mca_base_env_list")
      return environment_list(value_.substr(std::min(name.size() + 1, value_.size())));
    if (row_.value == "OMPI_MCA_" &&
        std::any_of(std::begin(launchers), std::end(launchers),
                    [&](std::string_view prefix) { return name.starts_with(prefix); })) {
      out_.notes.push_back(fmt::format("{} {} has no effect: it is a parameter of mpirun itself", spelled_,
                                       printable(name.substr(0, 60))));
      return {};
    }
    out_.for_all = true;
    return put(Option::export_name, std::string(row_.value) + value_);
  }

  // -x of programs that have no command line of their own: "NAME=VALUE;NAME". Of mpirun alone: its ranks do
  // not read it.
  Result<void> environment_list(std::string_view list) {
    out_.for_all = true;
    for (const auto item : split(list, ';'))
      if (!trim(item).empty()) put(Option::export_name, std::string(trim(item)));
    return {};
  }

  // What runs under Hydra still has the PATH of its host. The weakest layer: -genv PATH goes before it.
  void keep_path_alone() {
    put(Option::env, "none");
    if (!variable(environment_, "PATH").empty())
      out_.defaults.push_back({Option::export_name, "PATH", spelled_});
  }

  // Whatever a pattern has around the rank or the host, what it is for is to tell whose a line is.
  Result<void> label() {
    const bool host = value_.find("%h") != std::string::npos;
    if (!host && value_.find("%r") == std::string::npos) return refuse("write --tag rank or --tag host");
    if (value_ != "[%r] ") note(host ? "lines begin as with --tag host" : "lines begin as with --tag rank");
    return put(Option::tag, host ? "host" : "rank");
  }

  // Words between commas, each with what is said of it behind ':'.
  template <class Work>
  Result<void> each_word(const Work& work) {
    for (const auto item : split(value_, ',')) {
      const auto word = trim(item.substr(0, item.find(':')));
      const auto equals = std::min(word.find('='), word.size());
      const auto value = word.substr(std::min(equals + 1, word.size()));
      if (auto ok = work(lower(word.substr(0, equals)), std::string(value)); !ok) return ok;
    }
    return {};
  }

  Result<void> output() {
    return each_word([this](const std::string& name, const std::string& value) -> Result<void> {
      if (is_one_of(name, {"tag", "tag-detailed", "tag-fullname", "rank"})) return put(Option::tag, "rank");
      if (name == "timestamp") return put(Option::timestamp, "true");
      if (name == "dir" && !value.empty()) return put(Option::output_filename, value);
      if (is_one_of(name, {"merge", "merge-stderr-to-stdout"})) return refuse("write 2>&1 behind the line");
      if (is_one_of(name, {"raw", ""})) return {};
      return refuse("write tag, timestamp or dir=DIR: DIR/latest/rank.N/stdout and stderr");
    });
  }

  Result<void> display() {
    return each_word([this](const std::string& name, const std::string&) -> Result<void> {
      if (is_one_of(name, {"map", "map-devel"})) {
        out_.show_ranks = true;
      } else if (is_one_of(name, {"allocation", "alloc"})) {
        out_.show_hosts = true;
      } else if (is_one_of(name, {"bind", "bindings"})) {
        return put(Option::report_bindings, "true");
      } else {
        return refuse("write map, allocation or bind; lscpu or lstopo for the program shows the rest");
      }
      return {};
    });
  }

  Result<void> runtime() {
    return each_word([this](const std::string& name, const std::string& value) -> Result<void> {
      const bool off = is_one_of(lower(value), {"0", "false", "no"});
      if (is_one_of(name, {"recoverable", "continuous"}))
        return off ? Result<void>() : put(Option::on_failure, "ignore");
      if (name == "donotlaunch") return off ? Result<void>() : put(Option::dry_run, "true");
      if (name == "max-restarts") return put(Option::max_restarts, value);
      if (name == "timeout") return put(Option::timeout, value);
      if (is_one_of(name, {"stop-on-exec", "stop-in-init", "stop-in-app", "exec-agent"}))
        return refuse(fmt::format("{} is not supported: leave it out", name));
      out_.notes.push_back(fmt::format("{} {} has no effect", spelled_, printable(name.substr(0, 40))));
      return {};
    });
  }

  Result<void> put(Option option, std::string value) {
    out_.settings.push_back({option, std::move(value), spelled_});
    return {};
  }

  void note(std::string_view text) {
    out_.notes.push_back(fmt::format("{} {}: {}", spelled_, printable(value_.substr(0, 60)), text));
  }

  [[nodiscard]] Result<void> refuse(std::string_view advice) const {
    return fail(Code::usage, fmt::format("{} {} is not supported", spelled_, quoted(value_, 60)),
                std::string(advice));
  }

  const MpiFlag& row_;
  const std::string& spelled_;
  const std::string& value_;
  const Ways ways_;
  const std::vector<EnvVar>& environment_;
  Meant out_;
};

}  // namespace

Result<Meant> meant_by(const MpiFlag& row, const std::string& spelled, const std::string& value, Ways ways,
                       const std::vector<EnvVar>& environment) {
  return Reader(row, spelled, value, ways, environment).read();
}

}  // namespace trainrun::cli
