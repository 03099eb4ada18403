#include "cli/mpi_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "cli/allocation.h"
#include "cli/program.h"
#include "cli/remote_shell.h"
#include "cli/value.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::cli {

namespace {

struct Same {
  std::string_view name, flag;
};

// Of Open MPI 4 and of 5, where PRRTE starts its programs.
constexpr Same parameters[] = {
    {"orte_default_hostfile", "--hostfile"},
    {"prte_default_hostfile", "--hostfile"},
    {"rmaps", "--map-by"},
    {"rmaps_base_mapping_policy", "--map-by"},
    {"rmaps_default_mapping_policy", "--map-by"},
    {"rmaps_base_ranking_policy", "--rank-by"},
    {"rmaps_default_ranking_policy", "--rank-by"},
    {"rmaps_ppr_pattern", "--ppr"},
    {"rmaps_base_pernode", "--pernode"},
    {"rmaps_base_n_pernode", "--ppn"},
    {"rmaps_base_oversubscribe", "--oversubscribe"},
    {"rmaps_base_no_oversubscribe", "--nooversubscribe"},
    {"rmaps_base_cpus_per_rank", "--cpus-per-proc"},
    {"rmaps_base_no_schedule_local", "--nolocal"},
    {"rmaps_base_display_map", "--display-map"},
    {"rmaps_rank_file_path", "--rankfile"},
    {"orte_rankfile", "--rankfile"},
    {"ras_base_display_alloc", "--display-allocation"},
    {"hwloc_base_binding_policy", "--bind-to"},
    {"hwloc_default_binding_policy", "--bind-to"},
    {"hwloc_base_report_bindings", "--report-bindings"},
    {"orte_report_bindings", "--report-bindings"},
    {"orte_tag_output", "--tag-output"},
    {"orte_timestamp_output", "--timestamp-output"},
    {"orte_output_filename", "--output-filename"},
    {"orte_enable_recovery", "--enable-recovery"},
    {"orte_max_restarts", "--max-restarts"},
};

// Of MPICH and Intel MPI. Not HYDRA_RMK: a batch system is found without it.
constexpr Same of_hydra[] = {
    {"HYDRA_HOST_FILE", "--hostfile"},       {"I_MPI_HYDRA_HOST_FILE", "--hostfile"},
    {"HYDRA_LAUNCHER", "--launcher"},        {"HYDRA_BOOTSTRAP", "--launcher"},
    {"I_MPI_HYDRA_BOOTSTRAP", "--launcher"}, {"HYDRA_IFACE", "--iface"},
    {"I_MPI_HYDRA_IFACE", "--iface"},        {"HYDRA_BINDING", "--bind-to"},
    {"HYDRA_MAPPING", "--map-by"},           {"HYDRA_DEBUG", "--verbose"},
    {"I_MPI_HYDRA_DEBUG", "--verbose"},      {"I_MPI_PERHOST", "--ppn"},
};
constexpr Same of_both[] = {{"MPIEXEC_TIMEOUT", "--timeout"}};

const MpiFlag* row_of_flag(std::string_view flag) {
  const auto rows = mpi_flags();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const MpiFlag& one) {
    return std::find(one.names.begin(), one.names.end(), flag) != one.names.end();
  });
  return row == rows.end() ? nullptr : &*row;
}

const MpiFlag* row_in(std::span<const Same> table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Same& one) { return one.name == name; });
  return found == table.end() ? nullptr : row_of_flag(found->flag);
}

// "btl" of OMPI_MCA_btl; empty: it is none of Open MPI's.
std::string_view parameter_of(std::string_view variable) {
  for (const std::string_view prefix : {"OMPI_MCA_", "PRTE_MCA_"})
    if (variable.starts_with(prefix)) return variable.substr(prefix.size());
  return {};
}

const MpiFlag* row_of_variable(std::string_view name, Ways ways) {
  if (const auto* row = row_in(of_both, name)) return row;
  if (ways == Ways::hydra) return row_in(of_hydra, name);
  return row_of_parameter(parameter_of(name));
}

struct Told {
  std::string_view by;  // where it stands, for messages; empty: the variable itself
  EnvVar variable;
};

// Of the user's own file, then of the environment, which goes before it. Sites' files are those of the hosts.
std::vector<Told> all_told(Ways ways, const Inputs& inputs) {
  constexpr std::string_view file = "~/.openmpi/mca-params.conf";
  std::vector<Told> all;
  const auto home = variable(inputs.environment, "HOME");
  if (ways == Ways::open_mpi && !home.empty()) {
    const auto text = inputs.read_file(home + std::string(file.substr(1)));
    for (const auto line : split(text ? std::string_view(*text) : std::string_view(), '\n')) {
      const auto equals = std::min(line.find('='), line.size());
      const auto name = "OMPI_MCA_" + std::string(trim(line.substr(0, equals)));
      if (equals == line.size() || trim(line).starts_with('#') || !variable(inputs.environment, name).empty())
        continue;
      all.push_back({file, {name, std::string(trim(line.substr(equals + 1)))}});
    }
  }
  for (const auto& one : inputs.environment) all.push_back({{}, one});
  return all;
}

// The hosts of an allocation go before Open MPI's default host file.
bool counts_here(const MpiFlag& row, Ways ways, const Inputs& inputs) {
  if (ways == Ways::hydra || row.option != Option::hostfile) return true;
  const auto allocation = read_allocation("", inputs, inputs.is_this_machine);
  return allocation && allocation->hosts.empty();
}

}  // namespace

const MpiFlag* row_of_parameter(std::string_view name) { return row_in(parameters, name); }

Result<Meant> meant_as_parameter(const MpiFlag& row, const std::string& spelled, const std::string& value,
                                 Ways ways, const std::vector<EnvVar>& environment) {
  if (row.takes == Takes::nothing) {
    const auto on = parse_bool(value);
    if (!on)
      return fail(Code::usage, fmt::format("{}: {} is neither yes nor no", spelled, quoted(value, 60)));
    if (!*on) return Meant{};
  }
  Meant out;
  if (row.fate == Fate::reads) {
    auto meant = meant_by(row, spelled, value, ways, environment);
    if (!meant) return meant;
    out = std::move(*meant);
  } else {
    out.settings.push_back({row.option, row.value.empty() ? value : std::string(row.value), spelled});
  }
  for (const auto& setting : out.settings) {
    if (auto ok = check_setting(setting); !ok) return tl::unexpected(ok.error());
  }
  return out;
}

Meant meant_of_ssh(std::string_view parameter, const std::string& value, const std::string& spelled) {
  Meant out;
  out.names_agent = is_remote_shell(parameter);
  if (auto settings = read_remote_shell(parameter, value, spelled))
    out.settings = std::move(*settings);
  else
    out.not_by_ssh = std::move(settings.error());
  return out;
}

Meant read_mpi_environment(Ways ways, const Inputs& inputs, bool names_agent) {
  Meant out;
  for (const auto& [by, told] : all_told(ways, inputs)) {
    const auto& [name, value] = told;
    if (value.empty()) continue;
    const auto parameter = parameter_of(name);
    const auto spelled = by.empty() ? name : fmt::format("{}: {}", by, printable(parameter));
    if (ways == Ways::open_mpi && parameter == "mca_base_env_list") {
      for (const auto item : split(value, ';'))
        if (!trim(item).empty())
          out.settings.push_back({Option::export_name, std::string(trim(item)), spelled});
      continue;
    }
    if (ways == Ways::open_mpi && is_about_remote_shell(parameter)) {
      if (names_agent && is_remote_shell(parameter)) continue;
      auto meant = meant_of_ssh(parameter, value, spelled);
      std::move(meant.settings.begin(), meant.settings.end(), std::back_inserter(out.settings));
      if (!out.not_by_ssh) out.not_by_ssh = std::move(meant.not_by_ssh);
      continue;
    }
    const auto* row = row_of_variable(name, ways);
    if (row == nullptr || !counts_here(*row, ways, inputs)) continue;
    auto meant = meant_as_parameter(*row, spelled, value, ways, inputs.environment);
    if (!meant) {
      const auto& hint = meant.error().hint;
      out.notes.push_back(fmt::format("{}={} has no effect here{}{}", spelled, printable(value.substr(0, 60)),
                                      hint.empty() ? "" : ": ", hint));
      continue;
    }
    std::move(meant->settings.begin(), meant->settings.end(), std::back_inserter(out.settings));
    std::move(meant->notes.begin(), meant->notes.end(), std::back_inserter(out.notes));
    out.show_hosts |= meant->show_hosts;
    out.show_ranks |= meant->show_ranks;
  }
  return out;
}

}  // namespace trainrun::cli
