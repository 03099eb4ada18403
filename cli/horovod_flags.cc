#include "cli/horovod_flags.h"

namespace trainrun::cli {

namespace {

constexpr auto none = Takes::nothing;
constexpr auto one = Takes::a_value;

using Names = std::vector<std::string_view>;

HorovodFlag works(Names names, Takes takes, Option option, std::string_view value = {}) {
  return {.names = std::move(names), .takes = takes, .fate = Fate::works, .option = option, .value = value};
}
HorovodFlag sets(Names names, std::string_view variable, Knob knob, std::string_view yaml = {}) {
  return {.names = std::move(names),
          .takes = one,
          .fate = Fate::reads,
          .how = HorovodHow::variable,
          .variable = variable,
          .knob = knob,
          .yaml = yaml};
}
HorovodFlag switches(Names names, std::string_view variable, std::string_view value) {
  return {.names = std::move(names),
          .takes = none,
          .fate = Fate::reads,
          .value = value,
          .how = HorovodHow::variable,
          .variable = variable};
}
HorovodFlag reads(Names names, Takes takes, HorovodHow how) {
  return {.names = std::move(names), .takes = takes, .fate = Fate::reads, .how = how};
}
HorovodFlag needless(Names names, Takes takes, std::string_view why) {
  return {.names = std::move(names), .takes = takes, .fate = Fate::needless, .why = why};
}
HorovodFlag refused(Names names, Takes takes, std::string_view why) {
  return {.names = std::move(names), .takes = takes, .fate = Fate::refused, .why = why};
}

}  // namespace

std::span<const HorovodFlag> horovod_flags() {
  using enum Option;
  static const HorovodFlag all[] = {
      // How many, where
      works({"--num-proc", "-np"}, one, np),
      works({"--hosts", "-H"}, one, host),
      works({"--hostfile", "-hostfile"}, one, hostfile),
      works({"--ssh-port", "-p"}, one, ssh_port),
      works({"--ssh-identity-file", "-i"}, one, ssh_identity_file),
      reads({"--network-interfaces", "--network-interface"}, one, HorovodHow::networks),
      works({"--start-timeout"}, one, start_timeout),
      needless({"--disable-cache"}, none, "nothing about hosts is kept between jobs"),
      // Elastic jobs
      works({"--min-num-proc", "--min-np"}, one, min_np),
      works({"--max-num-proc", "--max-np"}, one, max_np),
      works({"--slots-per-host"}, one, slots_per_host),
      works({"--host-discovery-script"}, one, host_discovery_script),
      works({"--elastic-timeout"}, one, elastic_timeout),
      works({"--reset-limit"}, one, reset_limit),
      works({"--blacklist-cooldown-range"}, Takes::two_values, blacklist_cooldown_range),
      // Output
      works({"--output-filename"}, one, output_filename),
      works({"--prefix-output-with-timestamp", "-prefix-timestamp"}, none, timestamp, "true"),
      works({"--verbose"}, none, verbose, "true"),
      works({"--version", "-v"}, none, version, "true"),
      reads({"--check-build", "-cb"}, none, HorovodHow::check_build),
      reads({"--config-file"}, one, HorovodHow::config_file),
      // Settings of Horovod's, which are variables
      sets({"--fusion-threshold-mb"}, "HOROVOD_FUSION_THRESHOLD", Knob::megabytes,
           "params.fusion_threshold_mb"),
      sets({"--cycle-time-ms"}, "HOROVOD_CYCLE_TIME", Knob::real, "params.cycle_time_ms"),
      sets({"--cache-capacity"}, "HOROVOD_CACHE_CAPACITY", Knob::count, "params.cache_capacity"),
      switches({"--hierarchical-allreduce"}, "HOROVOD_HIERARCHICAL_ALLREDUCE", "1"),
      switches({"--no-hierarchical-allreduce"}, "HOROVOD_HIERARCHICAL_ALLREDUCE", "0"),
      switches({"--hierarchical-allgather"}, "HOROVOD_HIERARCHICAL_ALLGATHER", "1"),
      switches({"--no-hierarchical-allgather"}, "HOROVOD_HIERARCHICAL_ALLGATHER", "0"),
      switches({"--torus-allreduce"}, "HOROVOD_TORUS_ALLREDUCE", "1"),
      switches({"--no-torus-allreduce"}, "HOROVOD_TORUS_ALLREDUCE", "0"),
      switches({"--autotune"}, "HOROVOD_AUTOTUNE", "1"),
      switches({"--no-autotune"}, "HOROVOD_AUTOTUNE", "0"),
      sets({"--autotune-log-file"}, "HOROVOD_AUTOTUNE_LOG", Knob::text, "autotune.log_file"),
      sets({"--autotune-warmup-samples"}, "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", Knob::count,
           "autotune.warmup_samples"),
      sets({"--autotune-steps-per-sample"}, "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", Knob::count,
           "autotune.steps_per_sample"),
      sets({"--autotune-bayes-opt-max-samples"}, "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", Knob::count,
           "autotune.bayes_opt_max_samples"),
      sets({"--autotune-gaussian-process-noise"}, "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", Knob::share,
           "autotune.gaussian_process_noise"),
      sets({"--timeline-filename"}, "HOROVOD_TIMELINE", Knob::text, "timeline.filename"),
      switches({"--timeline-mark-cycles"}, "HOROVOD_TIMELINE_MARK_CYCLES", "1"),
      switches({"--no-timeline-mark-cycles"}, "HOROVOD_TIMELINE_MARK_CYCLES", "0"),
      switches({"--no-stall-check"}, "HOROVOD_STALL_CHECK_DISABLE", "1"),
      switches({"--stall-check"}, "HOROVOD_STALL_CHECK_DISABLE", "0"),
      sets({"--stall-check-warning-time-seconds"}, "HOROVOD_STALL_CHECK_TIME_SECONDS", Knob::count,
           "stall_check.warning_time_seconds"),
      sets({"--stall-check-shutdown-time-seconds"}, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", Knob::count,
           "stall_check.shutdown_time_seconds"),
      switches({"--mpi-threads-disable"}, "HOROVOD_MPI_THREADS_DISABLE", "1"),
      switches({"--no-mpi-threads-disable"}, "HOROVOD_MPI_THREADS_DISABLE", "0"),
      switches({"--tcp"}, "NCCL_IB_DISABLE", "1"),
      sets({"--num-nccl-streams"}, "HOROVOD_NUM_NCCL_STREAMS", Knob::count,
           "library_options.num_nccl_streams"),
      sets({"--thread-affinity"}, "HOROVOD_THREAD_AFFINITY", Knob::count, "library_options.thread_affinity"),
      sets({"--gloo-timeout-seconds"}, "HOROVOD_GLOO_TIMEOUT_SECONDS", Knob::count,
           "library_options.gloo_timeout_seconds"),
      sets({"--log-level"}, "HOROVOD_LOG_LEVEL", Knob::level, "logging.level"),
      switches({"--log-with-timestamp", "--no-log-hide-timestamp"}, "HOROVOD_LOG_HIDE_TIME", "0"),
      switches({"--log-without-timestamp", "--log-hide-timestamp"}, "HOROVOD_LOG_HIDE_TIME", "1"),
      // By which ranks meet
      works({"--gloo"}, none, compat, "horovod"),
      reads({"--mpi"}, none, HorovodHow::mpi),
      refused({"--jsrun"}, none, "hosts are reached by ssh; --hosts-from lsf takes those of the allocation"),
      needless({"--mpi-args"}, one,
               "there is no mpirun below; its parameters are given as -x OMPI_MCA_name=value"),
      needless({"--binding-args"}, one, "they are mpirun's; --bind-to binds ranks"),
  };
  return all;
}

}  // namespace trainrun::cli
