#include "launcher/base/fault.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>

namespace trainrun {
namespace {

TEST_CASE("a named point fails or waits as configured, and others do nothing") {
  fault::configure("a=fail,b=fail:28,c=delay:20,c=fail:5,nonsense,=,d=");
  CHECK(fault::point("a") == EIO);
  CHECK(fault::point("b") == 28);
  const auto before = std::chrono::steady_clock::now();
  CHECK(fault::point("c") == 5);
  CHECK(std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(20));
  CHECK(fault::point("d") == std::nullopt);
  CHECK(fault::point("e") == std::nullopt);
  fault::configure("");
  CHECK(fault::point("a") == std::nullopt);
}

}  // namespace
}  // namespace trainrun
