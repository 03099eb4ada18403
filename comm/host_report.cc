#include "comm/host_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "comm/backends/nccl/cuda_driver.h"
#include "comm/backends/nccl/kernels/image.h"
#include "comm/backends/nccl/library.h"
#include "comm/backends/shm/segment.h"
#include "comm/backends/shm/usable_cores.h"
#include "comm/kernels.h"
#include "launcher/base/strings.h"

namespace trainrun::comm {
namespace {

using Json = nlohmann::ordered_json;

constexpr Segment::Bytes segment_bytes{std::size_t{1} << 20, std::size_t{1} << 20};

const char* name_of(Simd simd) {
  switch (simd) {
    case Simd::avx512:
      return "avx512";
    case Simd::avx2:
      return "avx2";
    case Simd::plain:
      break;
  }
  return "plain";
}

std::string two_numbers(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// As a world would: the first kind that works.
Json shared_memory() {
  std::string why;
  for (const auto kind : {Segment::Kind::anonymous, Segment::Kind::file}) {
    const auto made = Segment::create(kind, segment_bytes, "/dev/shm");
    const auto mapped = made ? Segment::map(made->place(), segment_bytes) : tl::unexpected(made.error());
    if (mapped) return {{"usable", true}, {"kind", kind == Segment::Kind::file ? "/dev/shm" : "memfd"}};
    why += (why.empty() ? "" : "; ") + mapped.error().message;
  }
  return {{"usable", false}, {"why", why}};
}

Json nccl_library() {
  const auto found = nccl::library();
  if (!found) return {{"usable", false}, {"why", found.error()}};
  return {{"usable", true},
          {"version", nccl::version_text((*found)->version)},
          {"origin", (*found)->origin},
          {"path", (*found)->path}};
}

Json cuda_driver() {
  const auto cuda = nccl::cuda_driver();
  if (!cuda) return {{"usable", false}, {"why", cuda.error()}};
  const auto devices = nccl::device_names(**cuda);
  if (!devices) return {{"usable", false}, {"why", devices.error()}};
  return {{"usable", !devices->empty()},
          {"version", two_numbers((*cuda)->version)},
          {"path", (*cuda)->path},
          {"devices", *devices},
          {"why", devices->empty() ? "the driver has no device" : ""}};
}

Json cuda_kernels() {
  const auto architectures = nccl::kernels_architectures();
  if (architectures.empty()) return {{"built", false}, {"why", nccl::built_without_kernels}};
  Json machine = Json::array();
  std::string newest;
  std::istringstream words{std::string(architectures)};
  while (words >> newest) machine.push_back("sm_" + newest);
  return {{"built", true}, {"machine_code", machine}, {"ptx", "compute_" + newest}};
}

std::string line(std::string_view title, const std::string& text) {
  return fmt::format("{:<15}{}\n", title, text);
}

std::string words(const Json& all) {
  const auto text = [](const Json& of, const char* key) { return of.at(key).get<std::string>(); };
  const auto& shm = all.at("shared_memory");
  const auto& nccl = all.at("nccl");
  const auto& cuda = all.at("cuda");
  std::vector<std::string> backends;
  for (const auto& one : all.at("backends")) backends.push_back(one.get<std::string>());
  auto out = line("library", text(all, "version"));
  out += line("backends", list_names(backends));
  out += line("processor",
              fmt::format("{}, kernels for {}", counted(all.at("cores").get<std::int64_t>(), "usable core"),
                          text(all, "kernels")));
  out += line("shared memory", shm.at("usable") ? text(shm, "kind") : "none: " + text(shm, "why"));
  out += line("NCCL", nccl.at("usable") ? fmt::format("{}, {}: {}", text(nccl, "version"),
                                                      text(nccl, "origin"), text(nccl, "path"))
                                        : "none: " + text(nccl, "why"));
  const auto devices = cuda.value("devices", std::vector<std::string>());
  out += line("CUDA", cuda.at("usable")
                          ? fmt::format("driver for {}, {}: {}", text(cuda, "version"),
                                        counted(static_cast<std::int64_t>(devices.size()), "device"),
                                        list_names(devices))
                          : "none: " + text(cuda, "why"));
  const auto& kernels = all.at("cuda_kernels");
  if (!kernels.at("built")) return out + line("CUDA kernels", "none: " + text(kernels, "why"));
  const auto machine = kernels.at("machine_code").get<std::vector<std::string>>();
  return out + line("CUDA kernels", fmt::format("for {}, later ones by PTX of {}",
                                                list_names(machine, machine.size()), text(kernels, "ptx")));
}

}  // namespace

std::string host_report(bool json) {
  Json all;
  all["version"] = TRAINRUN_VERSION;
  all["backends"] = {"shm", "hier", "gloo", "nccl", "local"};
  all["cores"] = usable_cores(own_cores());
  all["kernels"] = name_of(best_simd());
  all["shared_memory"] = shared_memory();
  all["nccl"] = nccl_library();
  all["cuda"] = cuda_driver();
  all["cuda_kernels"] = cuda_kernels();
  if (!json) return words(all);
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace trainrun::comm
