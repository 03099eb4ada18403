"""The sockets of this process on which somebody listens: torch's Gloo does not say where it does."""
import os
import socket


def listeners():
    """HOST:PORT of each that listens on TCP."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.type == socket.SOCK_STREAM and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    found.add(written(one.getsockname()))
        except OSError:
            continue
    return found - {None}


def written(address):
    if not isinstance(address, tuple):
        return None
    return f"[{address[0].partition('%')[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"


def reachable(name, host):
    """As others see it: who listens on all addresses is reached at `host`."""
    wildcard, _, port = name.rpartition(":")
    if wildcard not in ("0.0.0.0", "[::]") or not host:
        return name
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
