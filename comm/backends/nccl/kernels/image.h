// The kernels that this library was built with.
#pragma once

#include <span>
#include <string_view>

extern "C" {
// From image.S.
extern const char trainrun_kernels_begin[];
extern const char trainrun_kernels_end[];
extern const char trainrun_kernels_architectures[];
}

namespace trainrun::comm::nccl {

// For cuModuleLoadData.
inline std::span<const char> kernels_image() { return {trainrun_kernels_begin, trainrun_kernels_end}; }

// Ascending, "75 80 90": machine code for each, and for the last also PTX, which the driver of a later device
// compiles. Empty: built without nvcc.
inline std::string_view kernels_architectures() { return trainrun_kernels_architectures; }

// What is wrong then, and what to try.
constexpr const char* built_without_kernels =
    "this library was built without CUDA kernels; try: build it where nvcc is, with -DTRAINRUN_CUDA=ON";

}  // namespace trainrun::comm::nccl
