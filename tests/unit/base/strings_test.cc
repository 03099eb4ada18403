#include "launcher/base/strings.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include "launcher/base/fd.h"

namespace trainrun {
namespace {

using Parts = std::vector<std::string_view>;

TEST_CASE("a text is split at every separator, and an empty text is one empty part") {
  CHECK(split("a,b,,c", ',') == Parts{"a", "b", "", "c"});
  CHECK(split("", ',') == Parts{""});
  CHECK(split(",", ',') == Parts{"", ""});
  CHECK(split("abc", ',') == Parts{"abc"});
}

TEST_CASE("trimming takes blanks, tabs and line ends from both ends only") {
  CHECK(trim(" \t\r\na b\n ") == "a b");
  CHECK(trim("   ").empty());
  CHECK(trim("").empty());
  CHECK(trim("a") == "a");
}

TEST_CASE("an unsigned number is digits alone and fits its type") {
  CHECK(parse_unsigned<std::uint16_t>("65535") == 65535);
  CHECK(parse_unsigned<std::uint64_t>("18446744073709551615") == UINT64_MAX);
  CHECK(parse_unsigned<std::uint16_t>("007") == 7);
  for (const auto* text :
       {"", "65536", "-1", "+1", " 1", "1 ", "1x", "0x1", "1.0", "99999999999999999999999"}) {
    CHECK_MESSAGE(!parse_unsigned<std::uint16_t>(text), text);
  }
}

TEST_CASE("quoted text is one printable line") {
  CHECK(quoted("plain text") == "'plain text'");
  CHECK(quoted("a'b\n\x1b[2J\x7f") == "\"a'b\\x0a\\x1b[2J\\x7f\"");
  CHECK(quoted("echo \"it's\"") == "'echo \"it\\x27s\"'");
  CHECK(counted(1, "rank") == "1 rank");
  CHECK(counted(0, "rank") == "0 ranks");
  CHECK(counted(1, "process") == "1 process");
  CHECK(counted(2, "process") == "2 processes");
  CHECK(quoted("say \"no\"") == "'say \"no\"'");
  CHECK(quoted(std::string_view("a\0b", 3)) == "'a\\x00b'");
  CHECK(quoted("abcdef", 3) == "'abc...'");
  CHECK(quoted("abc", 3) == "'abc'");
  CHECK(quoted("a\xc2\x9b"
               "b\x9b"
               "c\xc3\xa9") == "'a\\xc2\\x9bb\\x9bc\xc3\xa9'");  // C1; no UTF-8; e acute
  CHECK(quoted("ab\xe2\x82\xac", 4) == "'ab...'");               // half a euro sign is none
}

TEST_CASE("a shell-quoted word comes out of a shell as it went in") {
  for (const std::string word : {"", "plain", "a b", "it's", "'", "''", "$(reboot)", "`x`", "a\nb", "\\",
                                 "\"", "*", "~", "-n", "#", "a=b", "\xff"}) {
    CAPTURE(word);
    auto pipe = make_pipe();
    REQUIRE(pipe.has_value());
    const auto script = "printf %s. " + shell_quote(word);
    const auto pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      ::dup2(pipe->second.get(), STDOUT_FILENO);
      ::execl("/bin/sh", "sh", "-c", script.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    pipe->second.reset();
    std::string out(64, '\0');
    std::size_t size = 0;
    for (ssize_t got = 1; got > 0 && size < out.size(); size += static_cast<std::size_t>(got)) {
      got = ::read(pipe->first.get(), out.data() + size, out.size() - size);
      REQUIRE(got >= 0);
    }
    out.resize(size);
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
    CHECK(out == word + ".");
  }
}

TEST_CASE("the nearest word is suggested only when it is near") {
  const std::vector<std::string> words = {"--timeout", "--tag", "--host"};
  CHECK(nearest("--timout", words) == "--timeout");
  CHECK(nearest("--hots", words) == "--host");
  CHECK(nearest("--completely-else", words) == std::nullopt);
  CHECK(nearest("wrold", {"world"}) == "world");
  CHECK(nearest("iface", {"grace"}) == std::nullopt);
  CHECK(nearest("mpi", {"np"}) == std::nullopt);
  CHECK(nearest("rf", {"np", "rg"}) == std::nullopt);
  CHECK(nearest("--tag", {}) == std::nullopt);
  CHECK(nearest(std::string(1000, 'x'), words) == std::nullopt);
}

TEST_CASE("names are listed as people list them") {
  CHECK(list_names({}).empty());
  CHECK(list_names({"a"}) == "a");
  CHECK(list_names({"a", "b"}) == "a and b");
  CHECK(list_names({"a", "b", "c"}) == "a, b and c");
  CHECK(list_names({"a", "b", "c", "d"}, 2) == "a, b and 2 more");
}

TEST_CASE("patterns match as in a shell's case") {
  const std::pair<const char*, const char*> matching[] = {
      {"", ""},       {"*", ""},      {"*", "abc"}, {"a*", "a"},      {"a*c", "abbc"},
      {"*b*", "abc"}, {"a?c", "abc"}, {"**", "x"},  {"*a*b", "xaab"}, {"A*_*", "A_B_"}};
  for (const auto& [pattern, text] : matching)
    CHECK_MESSAGE(matches_glob(pattern, text), pattern << " " << text);
  const std::pair<const char*, const char*> different[] = {
      {"", "a"}, {"a", ""}, {"?", ""}, {"a?", "a"}, {"a*c", "ab"}, {"a", "A"}, {"a*", "ba"}, {"*a", "ab"}};
  for (const auto& [pattern, text] : different)
    CHECK_MESSAGE(!matches_glob(pattern, text), pattern << " " << text);
}

TEST_CASE("a pattern of many stars takes no time to fail") {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  CHECK_FALSE(matches_glob(pattern + "b", std::string(2000, 'a')));
}

TEST_CASE("bytes are written in hex") { CHECK(hex(std::string_view("\x00\x0f\xff", 3)) == "000fff"); }

}  // namespace
}  // namespace trainrun
