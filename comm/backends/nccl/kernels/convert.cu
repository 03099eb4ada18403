// What devices run: see batch.h.
#include "comm/backends/nccl/kernels/batch.h"

using namespace trainrun::comm::nccl;

extern "C" __global__ void trainrun_convert(const Batch batch) {
  convert(batch, {blockIdx.y, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x});
}
