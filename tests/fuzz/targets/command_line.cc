// The whole command line with its environment and its files. Paragraphs, divided by empty lines: the words,
// one a line; variables NAME=VALUE; and what stands in whatever file is named.
#include <fmt/format.h>

#include "cli/config.h"
#include "launcher/base/exit_code.h"
#include "launcher/base/strings.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

namespace {

std::string_view paragraph(std::string_view& rest) {
  const auto end = rest.find("\n\n");
  const auto part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
  return part;
}

cli::Inputs inputs_of(std::string_view text) {
  cli::Inputs in;
  for (const auto word : split(paragraph(text), '\n')) in.argv.emplace_back(word);
  for (const auto line : split(paragraph(text), '\n')) {
    const auto equals = line.find('=');
    if (equals != std::string_view::npos && equals > 0)
      in.environment.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  in.directory = "/home/u";
  in.job_id = "0123456789abcdef";
  in.read_file = [content = std::string(text)](const std::string&) -> Result<std::string> { return content; };
  in.local_facts = [] { return cli::LocalFacts{.cores = 4, .gpus = 0}; };
  in.is_this_machine = [ours = hosts::ThisMachine({.host_name = "here"})](const Host& host) {
    return ours.is(host);
  };
  in.first_line = [line = std::string(text.substr(0, text.find('\n')))](const std::string& path) {
    return path.size() % 2 == 0 ? line : std::string();
  };
  in.is_executable = in.is_file =
      in.is_directory = [](const std::string& path) { return path.size() % 4 != 0; };
  return in;
}

void check_job(const JobSpec& job) {
  auto hosts = job.hosts.hosts;
  for (auto& host : hosts) {  // this machine has as many as there are ranks and spares
    FUZZ_CHECK(host.slots >= 1);
    host.slots = 1;
  }
  check_hosts(hosts);
  for (const auto& program : job.programs) {
    FUZZ_CHECK(program.np >= 0);
    FUZZ_CHECK(program.directory.starts_with('/'));
  }
  for (std::size_t i = 1; i < job.env.size(); ++i) FUZZ_CHECK(job.env[i - 1].first < job.env[i].first);
  if (!job.elastic.enabled()) return;
  FUZZ_CHECK(job.elastic.min_np >= 0 && job.elastic.min_np <= std::max(job.elastic.max_np, job.world_size()));
  FUZZ_CHECK(job.elastic.cooldown_min <= job.elastic.cooldown_max);
}

// --print-config is TOML that gives the same settings again.
void check_printed(const cli::Request& request, cli::Inputs in) {
  in.argv = {"--config", "again.toml", "--print-config"};
  in.environment.clear();
  in.read_file = [&request](const std::string& path) -> Result<std::string> {
    if (path.ends_with("again.toml")) return request.text;
    return std::string("gpu1\n");
  };
  const auto again = cli::read_request(in);
  const bool unreadable = !again && again.error().message.find("again.toml") != std::string::npos;
  if (unreadable) show("printed", request.text), show("error", again.error().message);
  FUZZ_CHECK(!unreadable);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto in = inputs_of(text_of(data, size));
  const auto request = cli::read_request(in);
  if (!request) {
    check_error(request.error());
    const auto code = request.error().code;
    FUZZ_CHECK(code == Code::usage || code == Code::config || code == Code::not_found ||
               code == Code::not_executable);
    return 0;
  }
  accepted();
  for (const auto& note : request->notes) FUZZ_CHECK(!note.empty() && !has_control(note));
  const bool runs = request->action == cli::Action::run || request->action == cli::Action::dry_run ||
                    request->action == cli::Action::check_hosts;
  if (runs) check_job(request->job);
  if (request->action == cli::Action::run) {
    for (const auto& program : request->job.programs) FUZZ_CHECK(!program.argv.empty());
  }
  if (request->action == cli::Action::print_config) check_printed(*request, std::move(in));
  return 0;
}
