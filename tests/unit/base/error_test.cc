#include "launcher/base/error.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <set>

#include "launcher/base/exit_code.h"

namespace trainrun {
namespace {

constexpr Code all_codes[] = {Code::usage,          Code::config,    Code::unreachable, Code::host_key,
                              Code::auth,           Code::bootstrap, Code::protocol,    Code::not_found,
                              Code::not_executable, Code::lost,      Code::timeout,     Code::refused,
                              Code::try_again,      Code::internal};

TEST_CASE("a failure carries its code, message and hint") {
  const Result<int> result = fail(Code::auth, "no key was accepted", "try -i");
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error() == Error{Code::auth, "no key was accepted", "try -i"});
}

TEST_CASE("each code has a name of its own") {
  std::set<std::string> names;
  for (const auto code : all_codes) names.insert(to_string(code));
  CHECK(names.size() == std::size(all_codes));
  CHECK(to_string(Code::host_key) == "host_key");
}

TEST_CASE("each code leads to one exit code of the documented list") {
  for (const auto code : all_codes) {
    const auto number = static_cast<int>(exit_code_of(code));
    CHECK(std::set{2, 69, 70, 75, 124, 126, 127}.contains(number));
  }
  CHECK(exit_code_of(Code::config) == ExitCode::usage);
  CHECK(exit_code_of(Code::lost) == ExitCode::unreachable);
  CHECK(exit_code_of(Code::timeout) == ExitCode::timeout);
}

TEST_CASE("an errno has the system's words") { CHECK(errno_text(ENOENT) == "No such file or directory"); }

}  // namespace
}  // namespace trainrun
