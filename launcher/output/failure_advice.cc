#include "launcher/output/failure_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "launcher/base/exit_code.h"
#include "launcher/base/strings.h"
#include "launcher/wire/evidence.h"

namespace trainrun::output {
namespace {

std::string hint_when_not_started(SpawnStage stage, int error) {
  if (stage == SpawnStage::pmix)
    return "see above what is wrong with libpmix there: install the package libpmix2, or name a library with "
           "--pmix-lib";
  if (stage == SpawnStage::exec && error == ENOENT)
    return "missing there: the program, the interpreter in the first line of a script, or the loader that a "
           "binary asks for (see `file` and `ldd`)";
  if (stage == SpawnStage::exec && error == ENOEXEC)
    return "it is neither a script nor a program for this kind of machine: see what `file` says of it there";
  if (error == EMFILE)
    return "raise the hard limit on open files there (ulimit -Hn): a rank needs five, its agent twenty more";
  if (stage == SpawnStage::fork && error == EAGAIN)
    return "check `ulimit -u` and pids.max of the control group there: the limit on processes is reached";
  if (stage == SpawnStage::fork && error == ENOMEM) return "see with `free` how much memory is left there";
  return {};
}

// A program that ran another tells in its own exit code by which signal that was killed: a shell as 128 and
// the signal, Python's sys.exit(subprocess.run(...).returncode) as 256 less it, where only what no program
// sends itself is taken for that.
int signal_in(const ExitStatus& status) {
  const int of_shell = status.number - exit_code_of_signal(0), of_python = 256 - status.number;
  if (of_shell > 0 && of_shell <= SIGSYS) return of_shell;
  return of_python == SIGKILL || of_python == SIGSEGV || of_python == SIGBUS ? of_python : 0;
}

std::string describe_exit(const ExitStatus& status) {
  const int signal = signal_in(status);
  if (signal == 0) return status.describe();
  return fmt::format("{} (as if something in it was killed by {})", status.describe(), signal_name(signal));
}

constexpr std::string_view against_memory =
    "use fewer or smaller data-loader workers, a smaller batch, fewer ranks a host, or a larger memory limit";

// The Python that ran the job's program; empty: another program, or one of several.
std::string python_of(const JobSpec& job) {
  if (job.programs.size() != 1) return {};
  const auto is_python = [](std::string_view path) {
    return path.substr(path.rfind('/') + 1).starts_with("python");
  };
  const auto& program = job.programs.front();
  for (const auto& found : program.found)
    if (is_python(found.path)) return found.path;
  return !program.argv.empty() && is_python(program.argv.front()) ? program.argv.front() : std::string{};
}

Advice advise_exception(const JobSpec& job, const ExitStatus& status, const std::string& host, Rank rank,
                        const std::vector<std::string>& words) {
  const bool has_stdin =
      job.stdin_to == StdinTo::all ||
      (job.stdin_to == StdinTo::rank && rank.value == static_cast<std::uint32_t>(job.stdin_rank));
  if (!has_stdin && (any_line_has(words, "EOFError") || any_line_has(words, "BdbQuit")))
    return {status.describe(),
            fmt::format("this rank has no stdin: --stdin {} gives it to this one, --stdin all to "
                        "each",
                        rank.value)};
  const auto python = python_of(job);
  if (python.empty() || !any_line_has(words, "ModuleNotFoundError: ")) return {status.describe(), ""};
  const auto which = python.starts_with('/') ? python : fmt::format("the {} in PATH there", python);
  return {status.describe(),
          fmt::format("it was run by {}: install the module for that one on {}, name the Python that has it "
                      "before the script, or set PYTHONPATH here (it is forwarded)",
                      which, host)};
}

// MPICH over UCX refuses this by itself, and asks no launcher.
constexpr std::string_view words_of_spawn = "in internal_Comm_spawn",
                           against_spawn =
                               "trainrun does not offer MPI_Comm_spawn: start all ranks at once, as in -np 1 "
                               "./parent : -np 4 ./child";

// A program on MPICH finds PMI closed when another one in its rank has finalized, under Hydra too.
constexpr std::string_view against_closed_pipe =
    "it wrote to a pipe or socket whose other end was closed. A program of MPICH that a rank runs after "
    "another one (`a && b`) ends so, too: start it by a trainrun of its own";

// Our comm's words of it: "rank 0 called barrier as operation 5, rank 1 called ...".
bool ranks_disagree(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const auto& line) {
    const auto first = line.find(" called ");
    return first != std::string::npos && line.find(" as operation ", first) != std::string::npos &&
           line.find(" called ", first + 1) != std::string::npos;
  });
}

constexpr std::string_view against_disagreement =
    "let all ranks call the same operations in the same order, with the same counts and types: see what "
    "leads "
    "these two different ways";

// A port that was given, or that the program chose: two ranks of a host that both take themselves for rank 0.
std::string against_taken_port(const JobSpec& job, const std::string& host) {
  if (job.master_port != 0)
    return fmt::format("a port was taken: leave --master-port out, so that a free one is reserved on {}",
                       host);
  return "a port was taken: a PyTorch script leaves RANK, WORLD_SIZE and MASTER_PORT as they are set; other "
         "servers need a port for each rank, such as 8000 + LOCAL_RANK";
}

// Where more of a rank's words may be found, if there may be any.
std::string where_to_look(const JobSpec& job, const ExitStatus& status, Rank rank) {
  const bool never_ran = status.number == 126 || status.number == 127;
  if (never_ran || job.programs.size() != 1 || job.world_size() == 1) return {};
  if (!job.output_directory.empty())
    return fmt::format("see {}/latest/rank.{}", job.output_directory, rank.value);
  return job.only_ranks.empty() ? fmt::format("to see this rank alone: --only-rank {}", rank.value) : "";
}

// A Horovod that was built without MPI crashes then.
bool asks_horovod_for_mpi(const JobSpec& job) {
  const auto asks = [](const std::vector<EnvVar>& env) {
    return std::any_of(env.begin(), env.end(), [](const EnvVar& one) {
      return one.first == "HOROVOD_CONTROLLER" && one.second == "mpi";
    });
  };
  return asks(job.env) || std::any_of(job.programs.begin(), job.programs.end(),
                                      [&](const Program& it) { return asks(it.env); });
}

}  // namespace

bool any_line_has(const std::vector<std::string>& lines, std::string_view text) {
  return std::any_of(lines.begin(), lines.end(),
                     [text](const auto& line) { return line.find(text) != std::string::npos; });
}

Advice advise(const JobSpec& job, const core::Failure& cause, const std::string& host,
              const std::vector<std::string>& words, bool raised) {
  const auto& status = cause.status;
  switch (status.kind) {
    case ExitStatus::Kind::killed:
      if (!cause.out_of_memory.empty()) {
        return {cause.out_of_memory.starts_with(wire::kernel_named_it)
                    ? "was killed by the kernel: out of memory"
                    : status.describe() + ", perhaps by the kernel: out of memory",
                std::string(against_memory)};
      }
      if (status.number == SIGABRT && any_line_has(words, "terminate called without an active exception")) {
        return {
            status.describe() + ": threads still ran when the program ended",
            "a PyTorch script calls torch.distributed.destroy_process_group() before it ends; C++ joins its "
            "threads"};
      }
      if (status.number == SIGABRT && ranks_disagree(words))
        return {status.describe(), std::string(against_disagreement)};
      if (status.number == SIGKILL)
        return {
            status.describe() + ", not sent by trainrun",
            fmt::format("see who sent it: the kernel's OOM killer (`dmesg` on {}), a limit on CPU time or "
                        "memory (ulimit -t, a batch system's), the program itself or an administrator",
                        host)};
      if (status.number == SIGPIPE) return {status.describe(), std::string(against_closed_pipe)};
      if (status.number == SIGSEGV || status.number == SIGBUS || status.number == SIGABRT ||
          status.number == SIGFPE || status.number == SIGILL) {
        if (asks_horovod_for_mpi(job))
          return {status.describe(),
                  "see with horovodrun --check-build whether this Horovod was built with MPI; "
                  "without --mpi ranks meet over Gloo"};
        const bool silent_python = !python_of(job).empty() && !any_line_has(words, "Fatal Python error");
        return {status.describe(),
                silent_python ? "-x PYTHONFAULTHANDLER=1, and Python prints where it was"
                : status.core_dumped
                    ? ""
                    : "allow core dumps with `ulimit -c unlimited`, or run the rank under a debugger"};
      }
      return {status.describe(), ""};
    case ExitStatus::Kind::not_started:
      return {status.describe(), hint_when_not_started(status.stage, status.number)};
    case ExitStatus::Kind::exited:
      if (!cause.out_of_memory.empty())
        return {describe_exit(status) + ", perhaps by the kernel: out of memory",
                std::string(against_memory)};
      if (status.number == 127 && any_line_has(words, "error while loading shared libraries")) {
        return {"could not load a shared library (exit code 127)",
                "set LD_LIBRARY_PATH here (it is forwarded), or install the library there"};
      }
      if (any_line_has(words, "CUDA out of memory") || any_line_has(words, "CUDA error: out of memory")) {
        return {status.describe() + ": the GPU is out of memory",
                "use a smaller batch, or see with nvidia-smi who else uses the GPU"};
      }
      if (any_line_has(words, words_of_spawn)) return {status.describe(), std::string(against_spawn)};
      if (any_line_has(words, "ddress already in use") || any_line_has(words, "EADDRINUSE"))
        return {status.describe(), against_taken_port(job, host)};
      if (ranks_disagree(words)) return {status.describe(), std::string(against_disagreement)};
      if (signal_in(status) == SIGPIPE) return {describe_exit(status), std::string(against_closed_pipe)};
      if (raised && signal_in(status) == 0) return advise_exception(job, status, host, cause.rank, words);
      return {describe_exit(status), where_to_look(job, status, cause.rank), true};
    case ExitStatus::Kind::lost:
      return {status.describe(), ""};
    case ExitStatus::Kind::aborted:
      return {status.describe(), any_line_has(words, words_of_spawn) ? std::string(against_spawn) : ""};
    case ExitStatus::Kind::deserted:
      if (status.reason == core::without_hvd_init)
        return {status.describe(), "let every rank call hvd.init, or start as many as do (-np)"};
      return {status.describe(),
              "let every rank call MPI_Init and MPI_Finalize; for programs that use MPI each by itself: "
              "--compat none"};
  }
  return {};
}

}  // namespace trainrun::output
