"""Carries Ethernet frames between two interfaces, each way later by a delay: kernels without netem exist.

    relay.py IFACE IFACE DELAY_MS     (in the network namespace of the lab's switch)
"""
import ctypes
import fcntl
import heapq
import select
import socket
import struct
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
SIOCETHTOOL = 0x8946
SET_TX_CHECKSUM, SET_SG, SET_TSO, SET_GSO = 0x17, 0x19, 0x1F, 0x24


def offloads_off(interface):
    """Makes `interface` send whole, checksummed frames: a relay sees what a wire would."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in (SET_TX_CHECKSUM, SET_SG, SET_TSO, SET_GSO):
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP8x", interface.encode(), ctypes.addressof(value))
            try:
                fcntl.ioctl(control, SIOCETHTOOL, request)
            except OSError:
                pass  # a feature that follows from one switched off before


def main():
    names, delay = sys.argv[1:3], float(sys.argv[3]) / 1000
    ports = []
    for name in names:
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUFFORCE if hasattr(socket, "SO_RCVBUFFORCE") else 33, 1 << 24)
        port.bind((name, 0))
        port.setblocking(False)
        ports.append(port)
    poller = select.poll()
    for port in ports:
        poller.register(port, select.POLLIN)
    other = {ports[0].fileno(): ports[1], ports[1].fileno(): ports[0]}
    own = {port.fileno(): port for port in ports}
    waiting, sequence = [], 0  # (when due, order, port, frame)
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, port, frame = heapq.heappop(waiting)
            try:
                port.send(frame)
            except OSError:
                pass  # the cable is cut, or its queue is full: a frame is lost, as on a wire
        timeout = None if not waiting else max(0.0, waiting[0][0] - now) * 1000
        for fd, _ in poller.poll(timeout):
            for _ in range(64):
                try:
                    frame = own[fd].recv(65536)
                except OSError:
                    break
                sequence += 1
                heapq.heappush(waiting, (time.monotonic() + delay, sequence, other[fd], frame))


if __name__ == "__main__":
    main()
