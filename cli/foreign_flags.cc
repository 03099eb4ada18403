#include "cli/foreign_flags.h"

namespace trainrun::cli {

namespace {

struct Foreign {
  std::string_view name, advice;
};
constexpr Foreign foreign[] = {
    // torchrun
    {"node-rank", "one trainrun starts all hosts: name them with -H or --hostfile"},
    {"rdzv-endpoint", "not needed: trainrun does the rendezvous; leave it out"},
    {"rdzv-backend", "not needed: trainrun does the rendezvous; leave it out"},
    {"rdzv-id", "not needed: trainrun does the rendezvous; leave it out"},
    {"rdzv-conf", "not needed: trainrun does the rendezvous; --start-timeout says how long hosts have"},
    {"master-addr", "trainrun finds it; --network-interface chooses the network"},
    {"standalone", "not needed: without hosts a job is on this host alone"},
    {"no-python", "not needed: a program is run as it is, and only a *.py by python3; leave it out"},
    {"log-dir", "write --output-filename DIR"},
    // Open MPI
    {"allow-run-as-root", "not needed: leave it out"},
    {"mca", "Open MPI's parameters are given as -x OMPI_MCA_name=value"},
    {"am", "there are no files of Open MPI's parameters: give each as -x OMPI_MCA_name=value"},
    {"tcp", "not needed: leave it out; --network-interface chooses the network"},
    {"app", "write the programs on the line, with ':' between them, or as [[program]] of a --config file"},
    {"tag-output", "write --tag rank"},
    {"timestamp-output", "write --timestamp"},
    {"report-bindings", "write --dry-run: it prints the rule of binding; each rank can see its own CPUs"},
    {"display-map", "write --dry-run: it prints hosts, ranks and placement"},
    {"display-allocation", "write --dry-run: it prints hosts, ranks and placement"},
    {"bynode", "write --map-by host"},
    {"byslot", "write --map-by slot"},
    {"npersocket", "there is none: ranks are counted by host, with --ppn N; --bind-to socket binds them"},
    {"rankfile", "there is none: the order of hosts in -H or --hostfile is the order of ranks"},
    {"rf", "there is none: the order of hosts in -H or --hostfile is the order of ranks"},
    {"nooversubscribe", "not needed: more ranks than slots are an error without --oversubscribe"},
    // Hydra, srun, horovodrun
    {"genv", "write -x NAME=VALUE"},
    {"genvall", "write --env all"},
    {"genvlist", "write -x NAME for each of the names"},
    {"prepend-rank", "write --tag rank"},
    {"label", "write --tag rank"},
    {"-l", "write --tag rank"},
    {"iface", "write --network-interface NAME"},
    {"launcher", "write --transport ssh, openssh or local; hosts of Slurm are reached by ssh too"},
    {"-N", "write --ppn N"},
    {"-c", "write -np N, or --cpus-per-rank N"},
    {"ntasks", "write -np N"},
    {"mpi", "there is none: ranks meet by MASTER_ADDR and MASTER_PORT, not by PMI; leave it out"},
    {"-D", "write --wdir DIR"},
    {"check-build", "trainrun is one file without parts to choose; --check-hosts looks at the hosts"},
};

}  // namespace

std::string_view advice_for_foreign_flag(std::string_view flag) {
  for (const auto& row : foreign) {
    if (row.name == flag) return row.advice;
  }
  return {};
}

}  // namespace trainrun::cli
