// The part of CUDA's driver interface that NCCL groups need, loaded at run time from the driver itself
// (libcuda.so.1, or TRAINRUN_CUDA_LIB). No runtime library: its version would have to be the program's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace trainrun::comm::nccl {

// CUresult. Any number may come.
enum class Cuda : int { success = 0, not_ready = 600 };
constexpr unsigned without_timing = 2;  // CU_EVENT_DISABLE_TIMING

struct CudaDriver {
  Cuda (*get_error_name)(Cuda, const char**);
  Cuda (*device_count)(int*);
  Cuda (*device_get)(int*, int ordinal);
  Cuda (*device_name)(char*, int, int device);
  Cuda (*retain_context)(void**, int device);
  Cuda (*release_context)(int device);
  Cuda (*set_context)(void*);
  Cuda (*allocate)(std::uint64_t*, std::size_t);
  Cuda (*release)(std::uint64_t);
  Cuda (*event_create)(void**, unsigned flags);
  Cuda (*event_record)(void*, void* stream);
  Cuda (*event_query)(void*);
  Cuda (*event_destroy)(void*);
  Cuda (*stream_wait_event)(void* stream, void* event, unsigned flags);
  Cuda (*module_load)(void**, const void* image);
  Cuda (*module_unload)(void*);
  Cuda (*module_function)(void**, void* module, const char* name);
  // The grid's three measures, those of a block, bytes of shared memory.
  Cuda (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                 void* stream, void** parameters, void** extra);

  // CUstreamCaptureMode of this thread. Null in drivers before 10.1.
  Cuda (*exchange_capture_mode)(int*) = nullptr;

  int version = 0;   // 13000
  std::string path;  // of the library

  // "CUDA_ERROR_NO_DEVICE (100)".
  [[nodiscard]] std::string name(Cuda error) const;
};

// Loaded and initialised once, in the first process that asks; the error is for people.
tl::expected<const CudaDriver*, std::string> cuda_driver();

// The names of the devices that this process can use.
tl::expected<std::vector<std::string>, std::string> device_names(const CudaDriver& cuda);

}  // namespace trainrun::comm::nccl
