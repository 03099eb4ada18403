#include "launcher/agent/inspection.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "launcher/agent/addressees.h"
#include "launcher/agent/process_stat.h"
#include "launcher/agent/process_tree.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

constexpr std::size_t most_orders = 8, most_tools = 4, most_threads = 256;
constexpr std::size_t kernel_stack_limit = 15u << 10;  // with what a tool may say 64 KiB in all
constexpr std::uint32_t longest_sample_ms = 60'000;

std::string read_small(const std::string& path) {
  return std::string(trim(read_file(path, 1u << 16).value_or(std::string{})));
}

std::uint64_t io_of(pid_t pid) {
  const auto text = read_small(fmt::format("/proc/{}/io", pid));
  std::uint64_t bytes = 0;
  for (const auto line : split(text, '\n')) {
    if (line.starts_with("rchar: ") || line.starts_with("wchar: "))
      bytes += parse_unsigned<std::uint64_t>(line.substr(7)).value_or(0);
  }
  return bytes;
}

std::uint64_t cpu_of(const ProcessTree& tree, pid_t leader) {
  std::uint64_t ticks = 0;
  const auto add = [&ticks](pid_t pid) {
    if (const auto stat = process_stat(pid)) ticks += stat->cpu_ticks;
  };
  add(leader);
  for (const auto pid : tree.descendants(leader)) add(pid);
  return ticks;
}

// Only root may read these. Threads that wait in the same place are told once.
std::string kernel_stacks(pid_t pid) {
  std::map<std::string, std::vector<pid_t>> threads_by_stack;
  auto threads = threads_of(pid);
  if (threads.size() > most_threads) threads.resize(most_threads);
  for (const auto thread : threads) {
    auto stack = read_small(fmt::format("/proc/{}/task/{}/stack", pid, thread));
    if (!stack.empty()) threads_by_stack[std::move(stack)].push_back(thread);
  }
  std::string text;
  for (const auto& [stack, ids] : threads_by_stack) {
    text += fmt::format("kernel, thread {}", ids.front());
    if (ids.size() > 1) text += fmt::format(" and {} more", ids.size() - 1);
    text += ":\n" + stack + "\n";
    if (text.size() > kernel_stack_limit) break;
  }
  text.resize(std::min(text.size(), kernel_stack_limit));
  return text;
}

// A shell that waits for what it started has nothing to tell: the program is what is looked at, and no filter
// behind it.
pid_t program_of(const ProcessTree& tree, pid_t leader) {
  for (const auto pid : addressees(tree, leader, SIGTERM))
    if (!is_shell(pid)) return pid;
  return leader;
}

}  // namespace

struct Inspector::Subject {
  WorkerId worker;
  pid_t pid = -1;
  std::uint64_t ticks = 0, io_bytes = 0;  // before the sample
  wire::Inspected answer;
  pid_t program = -1;  // whose stack a tool is asked for
  std::unique_ptr<StackTool> tool;
  bool answered = false;
};

Inspector::Inspector(io::Loop& loop, io::FrameStream& link, const Supervisor& supervisor)
    : loop_(loop), link_(link), supervisor_(supervisor), sample_(loop) {}
Inspector::~Inspector() = default;

void Inspector::setup(const std::string& search_path) {
  search_path_ = search_path.empty() ? "/usr/local/bin:/usr/bin:/bin" : search_path;
}

void Inspector::begin(const wire::Inspect& order) {
  if (orders_.size() >= most_orders) return link_.send(wire::InspectionDone{order.sequence});
  orders_.push_back(order);
  if (orders_.size() == 1) take_next();
}

void Inspector::take_next() {
  const ProcessTree tree;
  for (const auto& leader : supervisor_.live_leaders()) {
    auto& subject = *subjects_.emplace_back(std::make_unique<Subject>());
    subject.worker = leader.worker;
    subject.pid = leader.pid;
    subject.ticks = cpu_of(tree, leader.pid);
    subject.io_bytes = io_of(leader.pid);
  }
  const auto sample = std::min(orders_.front().sample_ms, longest_sample_ms);
  sample_.arm(io::Loop::now() + milliseconds(sample), [this] { sampled(); });
}

void Inspector::sampled() {
  const ProcessTree tree;
  const auto ticks_per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  for (const auto& subject : subjects_) {
    auto& answer = subject->answer;
    const auto stat = process_stat(subject->pid);
    subject->answered = !stat || !supervisor_.lives(subject->worker);
    if (subject->answered) continue;
    // What a child used is lost from the sum when it ends and nobody waits for it.
    const auto less = [](std::uint64_t now, std::uint64_t before) { return now > before ? now - before : 0; };
    answer.sequence = orders_.front().sequence;
    answer.worker = subject->worker;
    subject->program = program_of(tree, subject->pid);
    const auto of_program = process_stat(subject->program);
    answer.state = std::string(1, stat->stopped() || !of_program ? stat->state : of_program->state);
    answer.cpu_ms = less(cpu_of(tree, subject->pid), subject->ticks) * 1000 / ticks_per_second;
    answer.io_bytes = less(io_of(subject->pid), subject->io_bytes);
    answer.waits_in = read_small(fmt::format("/proc/{}/wchan", subject->program));
    if (answer.waits_in == "0") answer.waits_in.clear();
    answer.stack = kernel_stacks(subject->program);
  }
  start_tools();
}

void Inspector::start_tools() {
  std::size_t running = 0, open = 0;
  for (const auto& subject : subjects_) running += subject->tool ? 1 : 0;
  for (const auto& subject : subjects_) {
    if (!subject->answered && !subject->tool && running < most_tools) {
      subject->tool =
          StackTool::start(loop_, search_path_, subject->program, [this, it = subject.get()](auto text) {
            answer(*it, text);
            start_tools();
          });
      if (subject->tool) ++running;
      if (!subject->tool) answer(*subject, {});
    }
    open += subject->answered ? 0 : 1;
  }
  if (open > 0) return;
  link_.send(wire::InspectionDone{orders_.front().sequence});
  subjects_.clear();
  orders_.pop_front();
  if (!orders_.empty()) take_next();
}

void Inspector::answer(Subject& subject, const std::string& tool_output) {
  subject.answered = true;
  // The program's own frames first: whoever sees no more than some lines learns where it stands.
  subject.answer.stack.insert(0, tool_output);
  link_.send(subject.answer);
  subject.tool.reset();
}

bool Inspector::take(pid_t child) {
  for (const auto& subject : subjects_) {
    if (!subject->tool || subject->tool->pid() != child) continue;
    subject->tool->reap();  // which may answer, and with that end this list
    return true;
  }
  return false;
}

bool Inspector::is_tool(pid_t child) const {
  const auto all = tools();
  return std::find(all.begin(), all.end(), child) != all.end();
}

std::vector<pid_t> Inspector::tools() const {
  std::vector<pid_t> all;
  for (const auto& subject : subjects_)
    if (subject->tool) all.push_back(subject->tool->pid());
  return all;
}

void Inspector::drop() {
  sample_.disarm();
  subjects_.clear();
  orders_.clear();
}

}  // namespace trainrun::agent
