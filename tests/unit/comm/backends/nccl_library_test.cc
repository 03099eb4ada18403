#include "comm/backends/nccl/library.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <type_traits>

#include "comm/backends/nccl/kit.h"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#endif

using namespace trainrun::comm;
using namespace trainrun::comm::nccl;

#ifdef NCCL_MAJOR
TEST_CASE("our words of NCCL's interface are those of its header") {
  CHECK(sizeof(UniqueId) == sizeof(ncclUniqueId));
  CHECK(static_cast<int>(Answer::remote_error) == ncclRemoteError);
  CHECK(static_cast<int>(Answer::in_progress) == ncclInProgress);
  CHECK(static_cast<int>(Type::bf16) == ncclBfloat16);
  CHECK(static_cast<int>(Type::f64) == ncclFloat64);
  CHECK(static_cast<int>(Type::i64) == ncclInt64);
  CHECK(static_cast<int>(Reduce::avg) == ncclAvg);
  CHECK(static_cast<int>(Reduce::min) == ncclMin);
  CHECK(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  CHECK(Config().magic == theirs.magic);
}
#endif

TEST_CASE("versions in words") {
  CHECK(version_text(22809) == "2.28.9");
  CHECK(version_text(21400) == "2.14.0");
  CHECK(version_text(2708) == "2.7.8");
}

TEST_CASE("what a rank tells of its NCCL is read again as it was") {
  for (const auto& kit : {Kit{22809, "/lib/libnccl.so.2"}, Kit{0, "no such file\nat all"}, Kit{1, ""}})
    CHECK(decode(encode(kit)) == kit);
  for (const char* const bad : {"", "22809", "x\ny", "-1\n", "999999999999\n/lib", "\n"})
    CHECK_FALSE(decode(bad));
}

TEST_CASE("ranks with one version fit together; else all are named") {
  const Kit one{22809, "/a/libnccl.so.2"}, other{22703, "/b/libnccl.so.2"}, none{0, "no such file"};
  CHECK_FALSE(misfit({{0, "a", one}, {1, "b", {22809, "/elsewhere"}}}));
  const auto mixed = misfit({{0, "a", one}, {1, "a", one}, {2, "b", other}, {5, "c", one}});
  REQUIRE(mixed);
  CHECK(mixed->status == TRC_MISMATCH);
  CHECK(mixed->message ==
        "the ranks have different versions of NCCL: 2.27.3 on rank 2 (b: /b/libnccl.so.2), 2.28.9 on ranks "
        "0-1,5 "
        "(a: /a/libnccl.so.2)");
  const auto without = misfit({{0, "a", one}, {1, "b", none}, {2, "b", other}, {3, "c", none}});
  REQUIRE(without);
  CHECK(without->status == TRC_UNSUPPORTED);
  CHECK(without->message == "NCCL cannot be used by ranks 1,3 (b: no such file)");
}

TEST_CASE("the wheel of a Python installation is found below its prefix, whatever its name") {
  std::string folder = "/tmp/nccl_[test]*XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const auto lib = folder + "/lib/python3.11/site-packages/nvidia/nccl/lib";
  std::filesystem::create_directories(lib);
  CHECK(wheels_below({folder, "/nowhere"}).empty());
  std::ofstream(lib + "/libnccl.so.2") << "x";
  CHECK(wheels_below({"/nowhere", folder}) == std::vector<std::string>{lib + "/libnccl.so.2"});
  std::filesystem::remove_all(folder);
}
