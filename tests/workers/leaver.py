"""An unmodified program that saves when it is told to go: leaver.py FOLDER SIGNAL SECONDS.

When SIGNAL comes, writing what is to be saved takes SECONDS; then it exits with 1, as a script does that was
interrupted. It ends well once there is a file FOLDER/finish."""
import os
import signal
import socket
import sys
import time

folder, told, seconds = sys.argv[1], getattr(signal, "SIG" + sys.argv[2]), float(sys.argv[3])
signal.pthread_sigmask(signal.SIG_BLOCK, [told])
generation, rank, size = (os.environ[name] for name in ("TRAINRUN_GENERATION", "RANK", "WORLD_SIZE"))
print(f"generation {generation}: rank {rank} of {size}, on {socket.gethostname()}", flush=True)
while not os.path.exists(folder + "/finish"):
    if signal.sigtimedwait([told], 0.05):
        time.sleep(seconds)
        with open(f"{folder}/saved.{generation}.{rank}", "w") as file:
            file.write(socket.gethostname())
        sys.exit(1)
