// What devices run: see batch.h.
#include "comm/backends/nccl/kernels/batch.h"

using namespace trainrun::comm::nccl;

extern "C" __global__ void trainrun_convert(const __grid_constant__ Batch batch) {
  convert(batch, {blockIdx.x, threadIdx.x, blockDim.x});
}
