"""What the fusion of lists costs on a device, beside what a program does by torch alone. One rank, so that NCCL has nothing to
send: bytes that kernels read and write by the second, a list of ResNet-50's gradients, and what a call costs the processor."""
import os
import statistics
import time

import torch
import torch.distributed as dist

import trainrun
import trainrun.nccl

RESNET50 = [(64, 3, 7, 7), (64,), (64,)] + [
    shape for width, blocks, came in ((64, 3, 64), (128, 4, 256), (256, 6, 512), (512, 3, 1024)) for block in range(blocks)
    for shape in [(width, came if block == 0 else 4 * width, 1, 1), (width,), (width,), (width, width, 3, 3), (width,), (width,),
                  (4 * width, width, 1, 1), (4 * width,), (4 * width,)] + ([(4 * width, came, 1, 1), (4 * width,), (4 * width,)] if block == 0 else [])
] + [(1000, 2048), (1000,)]


def on_device(once, rounds=20):
    """Milliseconds on the stream, the median."""
    for _ in range(3):
        once()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        once()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def of_call(once, rounds=300):
    """Microseconds until it returns, the median."""
    for _ in range(30):
        once()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        once()
        times.append(time.perf_counter() - began)
    torch.cuda.synchronize()
    return statistics.median(times) * 1e6


def by_torch(tensors, wire):
    """As a communication hook does: flat, cast, reduced, copied back."""
    flat = torch.cat([tensor.reshape(-1).to(wire) for tensor in tensors])
    dist.all_reduce(flat)
    torch._foreach_copy_(tensors, [part.view(tensor.shape) for part, tensor in zip(flat.split([tensor.numel() for tensor in tensors]), tensors)])


def main():
    os.environ.setdefault("TRAINRUN_FUSION_BYTES", str(512 << 20))
    world = trainrun.init()
    torch.cuda.set_device(0)
    stream = torch.cuda.Stream()
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0))
    group = trainrun.nccl.group(world, device=0, stream=stream)
    count = 64 << 20
    with torch.cuda.stream(stream):
        for own in (torch.float32, torch.bfloat16, torch.float16):
            for wire in (torch.float32, torch.bfloat16, torch.float16):
                tensor = torch.ones(count, device="cuda", dtype=own)
                ms = on_device(lambda: group.allreduce_list([tensor], "sum", wire=wire, before=0.5, after=2))
                print(f"{own} by {wire}: {2 * count * (tensor.element_size() + wire.itemsize) / ms / 1e9:.2f} TB/s", flush=True)
        copy = torch.empty_like(tensor)
        print(f"a copy by torch: {2 * count * tensor.element_size() / on_device(lambda: copy.copy_(tensor)) / 1e9:.2f} TB/s")
        gradients = [torch.ones(shape, device="cuda") for shape in RESNET50]
        for wire in (torch.float32, torch.bfloat16):
            own, theirs = (on_device(lambda: group.allreduce_list(gradients, "sum", wire=wire)), on_device(lambda: by_torch(gradients, wire)))
            print(f"{len(gradients)} gradients of ResNet-50 by {wire}: {own:.3f} ms, by torch {theirs:.3f} ms, {theirs / own:.1f} times", flush=True)
        small = torch.ones(256, device="cuda")
        print(f"a call of 1 KiB: {of_call(lambda: group.allreduce(small)):.1f} us, of torch {of_call(lambda: dist.all_reduce(small)):.1f} us", flush=True)
        print(f"a call of the list: {of_call(lambda: group.allreduce_list(gradients, 'sum', wire=torch.bfloat16), 50):.0f} us, "
              f"of torch {of_call(lambda: by_torch(gradients, torch.bfloat16), 50):.0f} us", flush=True)
        print(f"a barrier: {of_call(group.barrier, 50):.0f} us", flush=True)
    group.free()
    dist.destroy_process_group()
    world.shutdown()


if __name__ == "__main__":
    main()
