// More than a hundred good lines: each value in every way it can be given means the same job.
#include <doctest/doctest.h>

#include "cli/options.h"
#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

TEST_CASE("a good value is accepted as the next word, after =, with one dash, and in the environment") {
  using enum Option;
  const std::pair<Option, std::vector<std::string>> rows[] = {
      {np, {"1", "16", "1000000"}},
      {host,
       {"a", "a:2,b:2", "[fd00::1]:8", "node[01-04,7]:2", "bob@gpu1:8", "ssh://bob@gpu1:2222", "10.0.0.1"}},
      {hostfile, {"hosts.txt", "/home/u/hosts.txt"}},
      {hosts_from, {"none"}},
      {slots_per_host, {"8"}},
      {ppn, {"4"}},
      {map_by, {"slot", "host", "node", "ppr:2:host", "ppr:2:node", "ppr:2:socket"}},
      {rank_by, {"slot", "host", "node"}},
      {bind_to, {"none", "core", "numa", "socket", "auto"}},
      {report_bindings, {"true", "no"}},
      {cpus_per_rank, {"4"}},
      {gpus_per_rank, {"1"}},
      {rdzv_id, {"7", "run-7.a_b"}},
      {compat, {"auto", "mpich", "openmpi", "none"}},
      {compat_cli, {"auto", "openmpi", "hydra", "none"}},
      {pmix_lib, {"/opt/pmix/lib/libpmix.so.2"}},
      {preload, {"auto", "torch", "torch,torch.distributed"}},
      {wdir, {"sub", "/tmp", "~/sub", "./sub/../sub"}},
      {resolve, {"once", "each"}},
      {env, {"default", "all", "none"}},
      {env_file, {"env.txt"}},
      {tag, {"none", "rank", "host"}},
      {output_filename, {"out", "/tmp/out"}},
      {events, {"events.jsonl", "/tmp/e", "fd:3", "./fd:x"}},
      {journal, {"j", "/tmp/j", "fd:3", "./fd:x"}},
      {only_rank, {"0", "0-1", "1,0"}},
      {stdin_to, {"0", "all", "none"}},
      {timeout, {"90", "90s", "1.5h", "1:30:00", "2d"}},
      {start_timeout, {"5", "250ms"}},
      {grace, {"0", "30s"}},
      {host_timeout, {"10", "1:30"}},
      {min_np, {"1", "2"}},
      {max_np, {"2", "64"}},
      {host_discovery_script, {"cat hosts.txt", "/usr/bin/env"}},
      {discover, {"script:cat x", "file:x", "dns:workers.example.org"}},
      {discovery_interval, {"1", "500ms"}},
      {on_failure, {"abort", "restart-world", "in-place", "auto", "ignore"}},
      {reset_limit, {"0", "3", "3/10m"}},
      {max_restarts, {"0", "3"}},
      {blacklist_cooldown_range, {"10 300", "10s,5m"}},
      {spares, {"0", "2"}},
      {elastic_timeout, {"600"}},
      {hang_timeout, {"15m"}},
      {settle, {"0", "2"}},
      {leave_signal, {"TERM", "SIGUSR1", "usr2"}},
      {nnodes, {"1"}},
      {transport, {"auto", "local", "ssh", "openssh"}},
      {ssh_port, {"22", "65535"}},
      {ssh_identity_file, {"~/.ssh/id", "k"}},
      {ssh_config, {"/dev/null"}},
      {agent_dir, {"/opt/agents", "~/agents"}},
      {network_interface, {"eth0", "ib0.8001", "br-lan"}},
      {master_port, {"29500"}},
      {port_range, {"20000-20100", "7"}},
      {verbose, {"2"}},
      {quiet, {"true", "yes", "0"}},
      {oversubscribe, {"on", "off"}},
  };
  int tried = 0;
  for (const auto& [option, values] : rows) {
    const auto& row = info(option);
    const std::string name(row.name);
    // numbers that two ranks satisfy, where the option itself does not say how many
    const std::vector<std::string> rest =
        option == np || option == ppn || option == map_by || option == nnodes
            ? std::vector<std::string>{"/bin/true"}
            : std::vector<std::string>{"--oversubscribe", "-np", "2", "/bin/true"};
    for (const auto& value : values) {
      CAPTURE(name);
      CAPTURE(value);
      std::vector<std::vector<std::string>> ways = {{name + "=" + value}, {name.substr(1) + "=" + value}};
      if (row.takes_value()) ways.push_back({name, value});
      ways.emplace_back();  // the environment
      for (auto words : ways) {
        World world;
        world.files["/home/u/env.txt"] = "A=1\n";
        if (words.empty()) world.environment.emplace_back(row.environment(), value);
        words.insert(words.end(), rest.begin(), rest.end());
        const auto request = world.read(words);
        if (!request) MESSAGE(request.error().message);
        CHECK(request.has_value());
        ++tried;
      }
    }
  }
  CHECK(tried > 200);
}
