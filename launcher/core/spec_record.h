// JobSpec as a record, so that it is encoded as events are. A member that is added to one of these structs
// and forgotten here does not compile: each is taken apart as a whole. Pure.
#pragma once

#include "launcher/core/job_spec.h"
#include "launcher/core/record.h"

namespace trainrun {

constexpr bool is_known(MapBy it) { return it <= MapBy::ppr; }
constexpr bool is_known(RankBy it) { return it <= RankBy::host; }
constexpr bool is_known(HostPart it) { return it <= HostPart::core; }
constexpr bool is_known(BindTo it) { return it <= BindTo::automatic; }
constexpr bool is_known(Tag it) { return it <= Tag::host; }
constexpr bool is_known(StdinTo it) { return it <= StdinTo::none; }
constexpr bool is_known(Compat it) { return it <= Compat::horovod; }
constexpr bool is_known(TorchStore it) { return it <= TorchStore::trainrun; }
constexpr bool is_known(TransportKind it) { return it <= TransportKind::openssh; }
constexpr bool is_known(OnFailure it) { return it <= OnFailure::ignore; }
constexpr bool is_known(Scheduling it) { return it <= Scheduling::normal; }
constexpr bool is_known(DiscoveryKind it) { return it <= DiscoveryKind::slurm; }

namespace core {

template <class V>
void fields_of(HostSet& it, V& v) {
  auto& [hosts, revision] = it;
  v("hosts", hosts), v("revision", revision);
}
template <class V>
void fields_of(FoundProgram& it, V& v) {
  auto& [name, path, script] = it;
  v("name", name), v("path", path), v("script", script);
}
template <class V>
void fields_of(Program& it, V& v) {
  auto& [argv, np, directory, env, found, script] = it;
  v("argv", argv), v("np", np), v("directory", directory), v("env", env), v("found", found);
  v("script", script);
}
template <class V>
void fields_of(PreloadSpec& it, V& v) {
  auto& [automatic, modules] = it;
  v("automatic", automatic), v("modules", modules);
}
template <class V>
void fields_of(PerPart& it, V& v) {
  auto& [part, ranks, parts] = it;
  v("part", part), v("ranks", ranks), v("parts", parts);
}
template <class V>
void fields_of(CoreRange& it, V& v) {
  auto& [socket, first, last] = it;
  v("socket", socket), v("first", first), v("last", last);
}
template <class V>
void fields_of(RankPlace& it, V& v) {
  auto& [host, cores] = it;
  v("host", host), v("cores", cores);
}
template <class V>
void fields_of(Redirect& it, V& v) {
  auto& [local_rank, out, err] = it;
  v("local_rank", local_rank), v("out", out), v("err", err);
}
template <class V>
void fields_of(SshOptions& it, V& v) {
  auto& [port, identity, config_file, accept_new, agent_dir] = it;
  v("port", port), v("identity", identity), v("config_file", config_file), v("accept_new", accept_new);
  v("agent_dir", agent_dir);
}
template <class V>
void fields_of(PortRange& it, V& v) {
  auto& [first, last] = it;
  v("first", first), v("last", last);
}
template <class V>
void fields_of(DiscoverySpec& it, V& v) {
  auto& [kind, source, default_slots, default_slots_given, interval, limit] = it;
  v("kind", kind), v("source", source), v("default_slots", default_slots);
  v("default_slots_given", default_slots_given), v("interval", interval), v("limit", limit);
}
template <class V>
void fields_of(RestartLimit& it, V& v) {
  auto& [count, window] = it;
  v("count", count), v("window", window);
}
template <class V>
void fields_of(Elastic& it, V& v) {
  auto& [on_failure, min_np, max_np, spares, discovery, limit, timeout, cooldown_min, cooldown_max, settle,
         hang_timeout, leave_signal] = it;
  v("on_failure", on_failure), v("min_np", min_np), v("max_np", max_np), v("spares", spares);
  v("discovery", discovery), v("limit", limit), v("timeout", timeout), v("cooldown_min", cooldown_min);
  v("cooldown_max", cooldown_max), v("settle", settle), v("hang_timeout", hang_timeout);
  v("leave_signal", leave_signal);
}
template <class V>
void fields_of(JobSpec& it, V& v) {
  auto& [id, hosts, slots_from, programs, env, inherit_all, not_forwarded, map_by, rank_by, ppr, per_part,
         rank_file, oversubscribe, bind_to, report_bindings, cpus_per_rank, gpus_per_rank, compat,
         pmix_library, as_mpirun, as_mpi_launcher, torch_store, preload, role, run_id, virtual_local_rank,
         scheduling, transport, ssh, network_interface, master_port, ports, timeout, start_timeout, grace,
         host_timeout, tag, timestamp, output_directory, only_ranks, only_local_ranks, redirects, events,
         journal, elastic, pty, stdin_to, stdin_rank, quiet, start_timeout_given, verbose] = it;
  v("id", id), v("hosts", hosts), v("slots_from", slots_from), v("programs", programs), v("env", env);
  v("inherit_all", inherit_all), v("not_forwarded", not_forwarded), v("map_by", map_by),
      v("rank_by", rank_by), v("ppr", ppr);
  v("per_part", per_part), v("rank_file", rank_file);
  v("oversubscribe", oversubscribe), v("bind_to", bind_to), v("report_bindings", report_bindings);
  v("cpus_per_rank", cpus_per_rank), v("gpus_per_rank", gpus_per_rank), v("compat", compat);
  v("pmix_library", pmix_library), v("as_mpirun", as_mpirun), v("as_mpi_launcher", as_mpi_launcher),
      v("torch_store", torch_store), v("preload", preload);
  v("role", role), v("run_id", run_id), v("virtual_local_rank", virtual_local_rank),
      v("scheduling", scheduling);
  v("transport", transport), v("ssh", ssh);
  v("network_interface", network_interface), v("master_port", master_port), v("ports", ports);
  v("timeout", timeout), v("start_timeout", start_timeout), v("grace", grace);
  v("host_timeout", host_timeout), v("tag", tag), v("timestamp", timestamp);
  v("output_directory", output_directory), v("only_ranks", only_ranks);
  v("only_local_ranks", only_local_ranks), v("redirects", redirects), v("events", events);
  v("journal", journal), v("elastic", elastic), v("pty", pty), v("stdin_to", stdin_to);
  v("stdin_rank", stdin_rank), v("quiet", quiet), v("start_timeout_given", start_timeout_given);
  v("verbose", verbose);
}

}  // namespace core
}  // namespace trainrun
