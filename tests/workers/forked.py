"""A rank whose forked child ends in the ordinary way, through all that Python runs at an exit."""
import array
import os
import sys

import trainrun

world = trainrun.init()
ones = array.array("d", [1.0])
if world.rank == 0:
    child = os.fork()
    if child == 0:
        try:
            world.allreduce(ones)
        except trainrun.Invalid:
            sys.exit(7)
        sys.exit(8)
    _, status = os.waitpid(child, 0)
    print("child", os.waitstatus_to_exitcode(status), flush=True)
world.allreduce(ones)
print("sum", int(ones[0]), flush=True)
world.shutdown()
