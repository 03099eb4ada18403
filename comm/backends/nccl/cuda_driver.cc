#include "comm/backends/nccl/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <mutex>

namespace trainrun::comm::nccl {
namespace {

// "" once all is there.
std::string load(CudaDriver& cuda) {
  const char* const named = std::getenv("TRAINRUN_CUDA_LIB");
  const std::string file = named != nullptr && *named != '\0' ? named : "libcuda.so.1";
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return fmt::format("there is no CUDA driver: {}", why == nullptr ? file : why);
  }
  cuda.path = file;
  std::string missing;
  const auto take = [&](const char* name, auto& into) {
    into = reinterpret_cast<std::decay_t<decltype(into)>>(::dlsym(handle, name));
    if (into == nullptr && missing.empty()) missing = fmt::format("{} has no {}", file, name);
  };
  Cuda (*init)(unsigned) = nullptr;
  Cuda (*get_version)(int*) = nullptr;
  take("cuInit", init);
  take("cuDriverGetVersion", get_version);
  take("cuGetErrorName", cuda.get_error_name);
  take("cuDeviceGetCount", cuda.device_count);
  take("cuDeviceGet", cuda.device_get);
  take("cuDeviceGetName", cuda.device_name);
  take("cuDevicePrimaryCtxRetain", cuda.retain_context);
  take("cuDevicePrimaryCtxRelease_v2", cuda.release_context);
  take("cuCtxSetCurrent", cuda.set_context);
  take("cuMemAlloc_v2", cuda.allocate);
  take("cuMemFree_v2", cuda.release);
  take("cuEventCreate", cuda.event_create);
  take("cuEventRecord", cuda.event_record);
  take("cuEventQuery", cuda.event_query);
  take("cuEventDestroy_v2", cuda.event_destroy);
  take("cuStreamWaitEvent", cuda.stream_wait_event);
  take("cuModuleLoadData", cuda.module_load);
  take("cuModuleUnload", cuda.module_unload);
  take("cuModuleGetFunction", cuda.module_function);
  take("cuLaunchKernel", cuda.launch);
  if (!missing.empty()) return missing;
  cuda.exchange_capture_mode = reinterpret_cast<decltype(cuda.exchange_capture_mode)>(
      ::dlsym(handle, "cuThreadExchangeStreamCaptureMode"));
  if (const auto begun = init(0); begun != Cuda::success)
    return fmt::format("the CUDA driver ({}) does not start: {}", file, cuda.name(begun));
  get_version(&cuda.version);
  return {};
}

}  // namespace

std::string CudaDriver::name(Cuda error) const {
  const char* text = nullptr;
  if (get_error_name(error, &text) != Cuda::success || text == nullptr) text = "an unknown error";
  return fmt::format("{} ({})", text, static_cast<int>(error));
}

tl::expected<const CudaDriver*, std::string> cuda_driver() {
  static std::mutex mutex;
  static CudaDriver* found = nullptr;
  const std::lock_guard lock(mutex);
  if (found != nullptr) return found;
  CudaDriver cuda{};
  if (auto why = load(cuda); !why.empty()) return tl::unexpected(std::move(why));
  return found = new CudaDriver(std::move(cuda));
}

tl::expected<std::vector<std::string>, std::string> device_names(const CudaDriver& cuda) {
  int count = 0;
  if (const auto asked = cuda.device_count(&count); asked != Cuda::success)
    return tl::unexpected("cuDeviceGetCount: " + cuda.name(asked));
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    int device = 0;
    std::array<char, 128> name{};
    if (cuda.device_get(&device, i) == Cuda::success)
      cuda.device_name(name.data(), static_cast<int>(name.size()) - 1, device);
    names.emplace_back(name.data());
  }
  return names;
}

}  // namespace trainrun::comm::nccl
