#include "launcher/discovery/question.h"

#include <doctest/doctest.h>

namespace trainrun {
namespace {

using Names = std::vector<std::string>;

DiscoverySpec spec_of(DiscoveryKind kind, std::string source, int slots = 1, bool given = false) {
  return {.kind = kind, .source = std::move(source), .default_slots = slots, .default_slots_given = given};
}

Names names_and_slots(const Question& question, std::string_view output) {
  const auto listing = question.read(output);
  if (!listing) return {"error: " + listing.error().message};
  Names out;
  for (const auto& host : listing->hosts)
    out.push_back((host.user.empty() ? "" : host.user + "@") + host.name + ":" + std::to_string(host.slots));
  return out;
}

TEST_CASE("addresses are sorted and each there once, of one family alone") {
  CHECK(*read_addresses("10.0.0.2 STREAM workers\n10.0.0.2 DGRAM \n10.0.0.1 STREAM \n") ==
        Names{"10.0.0.1", "10.0.0.2"});
  CHECK(*read_addresses("fd00::2 STREAM w\n10.0.0.1 STREAM \nfd00::1 RAW\n") == Names{"10.0.0.1"});
  CHECK(*read_addresses("fd00::2 STREAM w\nfd00::1 RAW\n") == Names{"fd00::1", "fd00::2"});
  CHECK(read_addresses("")->empty());
  CHECK_FALSE(read_addresses("what?\n").has_value());
}

TEST_CASE("a DNS name gives its addresses, with the slots and user that stand beside it") {
  const auto plain = make_question(spec_of(DiscoveryKind::dns, "workers", 2), {}, {}, {});
  REQUIRE(plain);
  CHECK(plain->arguments == Names{"workers"});
  CHECK(names_and_slots(*plain, "10.0.0.2 STREAM\n10.0.0.1 STREAM\n") == Names{"10.0.0.1:2", "10.0.0.2:2"});
  CHECK(names_and_slots(*make_question(spec_of(DiscoveryKind::dns, "me@workers:8"), {}, {}, {}),
                        "fd00::1 STREAM\n") == Names{"me@fd00::1:8"});
  for (const char* bad : {"", "-x", "a b", "n[1-2]", "a:b"}) {
    CAPTURE(std::string(bad));
    CHECK_FALSE(make_question(spec_of(DiscoveryKind::dns, bad), {}, {}, {}).has_value());
  }
}

TEST_CASE("a script is named as people may see it, and run as it is") {
  const auto question =
      make_question(spec_of(DiscoveryKind::script, "./h --token s3"), {}, {}, "./h --token <redacted>");
  CHECK(question->asked == "the script './h --token <redacted>'");
  CHECK(question->command == "./h --token s3");
}

TEST_CASE("a file's name is never an option or a word of the shell") {
  const auto question = make_question(spec_of(DiscoveryKind::file, "-"), {}, {}, {});
  CHECK(question->arguments == Names{"./-"});
  CHECK(question->file == "./-");
  const auto odd = make_question(spec_of(DiscoveryKind::file, "/a b/$(x)"), {}, {}, {});
  CHECK(odd->arguments == Names{"/a b/$(x)"});
  CHECK(odd->command.find("$(x)") == std::string::npos);
}

TEST_CASE(
    "Slurm: the nodes that the job still has; the counts are the environment's, unless the user gave one") {
  const Names env{"SLURM_JOB_ID=42", "SLURM_JOB_ID_X=7", "SLURM_JOB_NODELIST=n[1-4]",
                  "SLURM_TASKS_PER_NODE=8(x4)"};
  const auto question = make_question(spec_of(DiscoveryKind::slurm, "", 2), env, {}, {});
  REQUIRE(question);
  CHECK(question->arguments == Names{"42"});
  CHECK(names_and_slots(*question, "n[1,3],m1\n") == Names{"n1:8", "n3:8", "m1:2"});
  CHECK(names_and_slots(*make_question(spec_of(DiscoveryKind::slurm, "", 2, true), env, {}, {}),
                        "n[1,3]\n") == Names{"n1:2", "n3:2"});
  CHECK_FALSE(make_question(spec_of(DiscoveryKind::slurm, ""), {}, {}, {}).has_value());
  CHECK_FALSE(make_question(spec_of(DiscoveryKind::slurm, ""), {"SLURM_JOB_ID=4;x"}, {}, {}).has_value());
}

TEST_CASE("names of this machine are one host in every kind") {
  const auto here = [](const Host& host) { return host.name.starts_with("here"); };
  CHECK(names_and_slots(*make_question(spec_of(DiscoveryKind::script, "x"), {}, here, {}),
                        "here1\nb\nhere2\n") == Names{"here1:2", "b:1"});
}

}  // namespace
}  // namespace trainrun
