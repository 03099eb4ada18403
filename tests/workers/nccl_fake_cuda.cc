// CUDA's driver, as far as comm asks it: memory of the device is the host's, events look at what NCCL's fake
// has done.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "comm/backends/nccl/kernels/batch.h"
#include "nccl_fake.h"

using namespace nccl_fake;

namespace {
namespace nccl = trainrun::comm::nccl;

constexpr int success = 0, out_of_memory = 2, invalid_device = 101, no_device = 100, no_binary = 209,
              not_found = 500, illegal_address = 700, not_ready = 600, launch_failed = 719;
std::atomic<long> launches = 0;
struct Event {
  void* stream = nullptr;
  std::uint64_t number = 0;
};
bool broken() { return fault("cuda") == "broken"; }
}  // namespace

FAKE int cuInit(unsigned) { return fault("cuda") == "none" ? no_device : success; }
FAKE int cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
FAKE int cuGetErrorName(int error, const char** name) {
  *name = error == no_device         ? "CUDA_ERROR_NO_DEVICE"
          : error == illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == invalid_device  ? "CUDA_ERROR_INVALID_DEVICE"
          : error == out_of_memory   ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == no_binary       ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
          : error == launch_failed   ? "CUDA_ERROR_LAUNCH_FAILED"
                                     : "CUDA_ERROR_UNKNOWN";
  return success;
}
FAKE int cuDeviceGetCount(int* count) {
  *count = 2;
  return success;
}
FAKE int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < 2 ? success : invalid_device;
}
FAKE int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<std::size_t>(size), "no device, a fake (%d)", device);
  return success;
}
FAKE int cuDevicePrimaryCtxRetain(void** context, int) {
  static int one;
  *context = &one;
  return success;
}
FAKE int cuDevicePrimaryCtxRelease_v2(int) { return success; }
FAKE int cuCtxSetCurrent(void*) { return success; }
FAKE int cuMemAlloc_v2(std::uint64_t* pointer, std::size_t bytes) {
  if (bytes > 4096 && fault("memory") == "little") return out_of_memory;
  *pointer = reinterpret_cast<std::uintptr_t>(std::calloc(1, bytes));
  return success;
}
FAKE int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return success;
}
FAKE int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return success;
}
FAKE int cuMemFree_v2(std::uint64_t pointer) {
  std::free(reinterpret_cast<void*>(pointer));
  return success;
}
// How much was enqueued on which stream when it is recorded.
FAKE int cuEventCreate(void** event, unsigned) {
  *event = new Event();
  return success;
}
FAKE int cuEventRecord(void* event, void* stream) {
  *static_cast<Event*>(event) = {stream, enqueued_on(stream)};
  return success;
}
FAKE int cuEventQuery(void* event) {
  if (broken()) return illegal_address;
  const auto& recorded = *static_cast<Event*>(event);
  return done_on(recorded.stream) >= recorded.number ? success : not_ready;
}
FAKE int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return success;
}
FAKE int cuStreamWaitEvent(void*, void* event, unsigned) {
  const auto& recorded = *static_cast<Event*>(event);
  wait_until_done(recorded.stream, recorded.number);
  return success;
}
// Whatever was compiled: the kernel that it must have is run here, as the host's code, by one thread for all
// of the grid.
FAKE int cuModuleLoadData(void** module, const void* image) {
  *module = const_cast<void*>(image);
  return fault("kernels") == "none" ? no_binary : success;
}
FAKE int cuModuleUnload(void*) { return success; }
FAKE int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = module;
  return std::string_view(name) == "trainrun_convert" ? success : not_found;
}
FAKE int cuLaunchKernel(void*, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                        unsigned, void* stream, void** parameters, void**) {
  if (number_in(fault("launch"), "fail") == ++launches) return launch_failed;
  launch_on(stream, [=, batch = *static_cast<const nccl::Batch*>(parameters[0])] {
    for (unsigned block = 0; block < blocks; ++block)
      for (unsigned thread = 0; thread < threads; ++thread) nccl::convert(batch, {block, thread, threads});
  });
  return success;
}
