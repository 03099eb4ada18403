#include "launcher/output/recorded_error.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

using namespace trainrun::output;
using Lines = std::vector<std::string>;

namespace {

std::string of_torch(const std::string& message, const std::string& traceback) {
  return fmt::format(
      R"({{"message": {{"message": "{}", "extraInfo": {{"py_callstack": "{}", "timestamp": "1700000000"}}}}}})",
      message, traceback);
}

}  // namespace

TEST_SUITE("recorded error") {
  TEST_CASE("both forms are read, with the place in the user's own code") {
    const auto found = read_recorded_error(of_torch(
        "ValueError: bad batch",
        R"(Traceback (most recent call last):\n  File \"/usr/lib/python3/dist-packages/torch/record.py\", line 346, in wrapper\n    return f()\n  File \"/home/u/train.py\", line 12, in step\n    loss(x)\n  File \"/usr/lib/python3.11/json/x.py\", line 9, in loads\n    raise\nValueError: bad batch\n)"));
    REQUIRE(found.has_value());
    CHECK(found->what == Lines{"ValueError: bad batch"});
    CHECK(found->where == "/home/u/train.py:12, in step");
    CHECK(read_recorded_error(R"({"message": "it broke", "timestamp": 17})") == RecordedError{{"it broke"}});
  }

  TEST_CASE("without code of the user's the innermost frame is the place, without frames there is none") {
    CHECK(read_recorded_error(of_torch("E", R"(  File \"<string>\", line 1, in <module>\n)"))->where ==
          "<string>:1, in <module>");
    CHECK(read_recorded_error(of_torch("E", R"(  File \"x.py\", line 1\n)"))->where == "x.py:1");
    for (const char* none : {"", "nonsense", R"(File \"x)", R"(File \"x\", line y, in z)"})
      CHECK(read_recorded_error(of_torch("E", none))->where.empty());
  }

  TEST_CASE("a long message is cut") {
    const auto found =
        read_recorded_error(of_torch(R"(KeyError: 1\n\n  a\n)" + std::string(5000, 'b') + R"(\nc\nd)", ""));
    REQUIRE(found->what.size() == 3);
    CHECK(found->what[0] == "KeyError: 1");
    CHECK(found->what[1] == "  a");
    CHECK(found->what[2].size() == 300);
  }

  TEST_CASE("what is of neither form is nothing") {
    const auto deep = std::string(30'000, '[') + std::string(30'000, ']');
    for (const std::string& text :
         {std::string(), std::string("nonsense"), std::string("[]"), std::string("{}"),
          std::string(R"({"message": 7})"), std::string(R"({"message": ""})"),
          std::string(R"({"message": {"message": ["x"]}})"), std::string(R"({"message": {}})"),
          std::string(R"({"message": {"message": "x", "extraInfo": )"), std::string("\xff\xfe"), deep,
          R"({"message": )" + deep + "}"}) {
      CAPTURE(text);
      CHECK_FALSE(read_recorded_error(text).has_value());
    }
    CHECK(read_recorded_error(R"({"message": {"message": "x", "extraInfo": 7}})")->where.empty());
    CHECK(read_recorded_error(R"({"message": {"message": "x", "extraInfo": {"py_callstack": 7}}})")
              ->where.empty());
  }
}
