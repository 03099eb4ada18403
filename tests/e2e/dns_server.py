"""A DNS server of one name: dns_server.py NAME FILE LOG. Each answer is what FILE holds at that moment: one address a
line, nothing for a name that is gone, or the word "fail" for a server that has trouble of its own; LOG gets a line
with it. Says "ready", and serves until it is killed."""
import ipaddress
import socket
import struct
import sys

ADDRESS, ADDRESS6 = 1, 28
NO_ERROR, SERVER_FAILURE, NO_SUCH_NAME = 0, 2, 3


def name_at(packet, at):
    labels = []
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    return ".".join(labels), at + 1


def answer(packet, own_name, lines):
    name, end = name_at(packet, 12)
    kind, = struct.unpack("!H", packet[end:end + 2])
    question, records, code = packet[12:end + 4], [], NO_ERROR
    if lines == ["fail"]:
        code = SERVER_FAILURE
    elif name != own_name or not lines:
        code = NO_SUCH_NAME
    else:
        addresses = [ipaddress.ip_address(line) for line in lines]
        records = [address.packed for address in addresses if kind == (ADDRESS if address.version == 4 else ADDRESS6)]
    body = b"".join(b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(data)) + data for data in records)
    return packet[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(records), 0, 0) + question + body


def main():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, open(sys.argv[3], "a", buffering=1) as log:
        server.bind(("127.0.0.1", 53))
        print("ready", flush=True)
        while True:
            packet, client = server.recvfrom(4096)
            with open(sys.argv[2]) as file:
                lines = file.read().split()
            server.sendto(answer(packet, sys.argv[1], lines), client)
            log.write(" ".join(lines) + "\n")


main()
