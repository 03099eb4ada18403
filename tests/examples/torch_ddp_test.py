#!/usr/bin/python3
"""The torch_ddp example learns on two ranks, started by hand through env://. usage: torch_ddp_test.py TRAIN.PY"""
import importlib.util
import os
import socket
import subprocess
import sys

PATIENCE = 150  # seconds, only against hanging


def main():
    if importlib.util.find_spec("torch") is None:
        print("skipped: /usr/bin/python3 has no torch (Debian's python3-torch)")
        return 1 if os.environ.get("TRAINRUN_REQUIRE") == "all" else 77
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", 0))  # kept while the ranks run; torch binds it as well, with SO_REUSEADDR
        ranks = [subprocess.Popen([sys.executable, sys.argv[1], "--epochs", "12"], stdout=subprocess.PIPE, text=True,
                                  env=dict(os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank),
                                           MASTER_ADDR="127.0.0.1", MASTER_PORT=str(probe.getsockname()[1]),
                                           GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1"))
                 for rank in range(2)]
        try:
            outputs = [rank.communicate(timeout=PATIENCE)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    last = outputs[0].splitlines()[-1].split()
    assert last[:2] == ["held-out", "accuracy"] and float(last[2]) >= 95.0, outputs
    assert outputs[1] == "", outputs
    return 0


if __name__ == "__main__":
    sys.exit(main())
