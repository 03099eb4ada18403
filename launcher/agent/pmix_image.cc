#include "launcher/agent/pmix_image.h"

#include <sys/mman.h>

#include <cerrno>

extern "C" {
extern const char trainrun_pmix_image_begin[];
extern const char trainrun_pmix_image_end[];
}

namespace trainrun::agent {
namespace {
constexpr unsigned executable = 0x10;  // MFD_EXEC, which kernels before 6.3 refuse, and those after it want
}

std::string_view pmix_image() {
  return {trainrun_pmix_image_begin,
          static_cast<std::size_t>(trainrun_pmix_image_end - trainrun_pmix_image_begin)};
}

Fd pmix_image_file() {
  Fd file(::memfd_create("trainrun-pmix", MFD_CLOEXEC | executable));
  if (!file && errno == EINVAL) file = Fd(::memfd_create("trainrun-pmix", MFD_CLOEXEC));
  if (file && !write_all(file.get(), pmix_image())) file.reset();
  return file;
}

}  // namespace trainrun::agent
