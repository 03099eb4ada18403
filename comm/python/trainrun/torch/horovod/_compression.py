"""What tensors travel as: less than they are, where the program likes."""
import torch


class Compressor:
    """What has these two methods can be given as `compression`."""

    @staticmethod
    def compress(tensor):
        """The tensor that travels, and what decompress() needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor, ctx):
        raise NotImplementedError


class NoneCompressor(Compressor):
    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


def _travels_as(wire):
    class Narrow(Compressor):
        """Other floating types are rounded to 16 bits; sums of them are formed in 32."""

        dtype = wire

        @staticmethod
        def compress(tensor):
            return (tensor.to(wire) if tensor.dtype.is_floating_point else tensor), tensor.dtype

        @staticmethod
        def decompress(tensor, ctx):
            return tensor.to(ctx) if ctx.is_floating_point else tensor

    return Narrow


class Compression:
    none = NoneCompressor
    fp16 = _travels_as(torch.float16)
    bf16 = _travels_as(torch.bfloat16)  # which Horovod has not
