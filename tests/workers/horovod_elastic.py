"""A rank of an elastic Horovod program without Horovod: its questions to the launcher byte for byte, its meshes, its
notification service. Ranks exchange their step with all others, again and again; a peer that is gone, or a notice, sends
them through shutdown and init, as hvd.elastic.run does.

    horovod_elastic.py FOLDER [late]    until FOLDER/end is there; `late`: one that starts anew waits for FOLDER/late first
"""
import base64
import fcntl
import hashlib
import hmac
import os
import pickle
import selectors
import socket
import struct
import sys
import threading
import time

ENV = os.environ
FOLDER = sys.argv[1]
PATIENCE = int(ENV.get("HOROVOD_GLOO_TIMEOUT_SECONDS", 30))  # with a peer that says nothing


class PeerGone(Exception):
    pass


class Removed(Exception):
    pass


def request(method, path, body=b""):
    """As Horovod's C++ client: one connection each, no limit on the wait; what comes behind the head is the body."""
    with socket.create_connection((ENV["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(ENV["HOROVOD_GLOO_RENDEZVOUS_PORT"]))) as server:
        server.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        reply = b""
        while piece := server.recv(65536):
            reply += piece
    head, _, value = reply.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert status in (200, 404) and f"\r\nContent-Length: {len(value)}".encode() in head, reply
    return value if status == 200 else None


def receive(peer, size):
    data = b""
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise PeerGone
        data += piece
    return data


def own_address():
    """Of the interface that Gloo would use."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name = struct.pack("256s", ENV.get("HOROVOD_GLOO_IFACE", "lo").encode())
        return socket.inet_ntoa(fcntl.ioctl(any_socket, 0x8915, name)[20:24])  # SIOCGIFADDR


class Mesh:
    """Of the ranks of one scope: each listens, and connects to those before it."""

    def __init__(self, scope, rank, size):
        self.peers = {}
        with socket.create_server((own_address(), 0)) as listener:
            request("PUT", f"/{scope}/rank_{rank}", socket.gethostname().encode())
            for other in range(rank):
                request("GET", f"/{scope}/rank_{other}")
            request("PUT", f"/{scope}/{rank}", "{}:{}".format(*listener.getsockname()).encode() if size > 1 else b"")
            for other in range(size):
                if other == rank:
                    continue
                address = request("GET", f"/{scope}/{other}")
                assert address is not None, f"{scope}: no address of {other}"
                host, port = address.decode().split(":")
                if other < rank:
                    try:
                        self.peers[other] = socket.create_connection((host, int(port)))
                        self.peers[other].sendall(struct.pack("<i", rank))
                    except OSError:
                        raise PeerGone from None
            listener.settimeout(PATIENCE)
            for _ in range(size - 1 - rank):
                peer, _ = listener.accept()
                self.peers[struct.unpack("<i", receive(peer, 4))[0]] = peer
        for peer in self.peers.values():
            peer.settimeout(PATIENCE)
        self.exchange(0, 0, 0)  # all have read all addresses
        request("DELETE", f"/{scope}/{rank}")

    def exchange(self, *numbers):
        """The numbers of all, by rank but our own; PeerGone where one has left."""
        try:
            for peer in self.peers.values():
                peer.sendall(struct.pack("<3q", *numbers))
            return {rank: struct.unpack("<3q", receive(peer, 24)) for rank, peer in self.peers.items()}
        except OSError:
            raise PeerGone from None

    def close(self):
        for peer in self.peers.values():
            peer.close()


class Notices:
    """Horovod's notification service: a request a connection, with a digest of its body before it."""

    def __init__(self):
        self.key, self.flags, self.stamp = os.urandom(32), 0, 0
        self.listener = socket.create_server(("", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.listener.accept()
            with client:
                digest, size = receive(client, 32), struct.unpack("<i", receive(client, 4))[0]
                body = receive(client, size)
                assert hmac.compare_digest(digest, hmac.new(self.key, body, hashlib.sha256).digest())
                assert body.startswith(b"\x80\x02chorovod.runner.elastic.worker\nHostsUpdatedRequest\n)\x81}(X\t\0\0\0timestampJ")
                stamp, flags = struct.unpack("<i", body[-17:-13])[0], body[-4]
                if stamp > self.stamp:
                    self.stamp, self.flags = stamp, self.flags | flags
                answer = b"\x80\x02chorovod.runner.common.util.network\nAckResponse\n)\x81."
                client.sendall(hmac.new(self.key, answer, hashlib.sha256).digest() + struct.pack("<i", len(answer)) + answer)


NAMES = [f"HOROVOD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")]


def place():
    return [int(ENV[name]) for name in NAMES]


def ask_for_place():
    answer = request("GET", f"/rank_and_size/{ENV['HOROVOD_HOSTNAME']}:{ENV['HOROVOD_LOCAL_RANK']}").decode().split(",")
    if answer[0] == "-1":
        raise Removed
    ENV.update(zip(NAMES, answer))


def init():
    rank, size, local_rank, local_size, cross_rank, cross_size = place()
    world = Mesh("global", rank, size)
    for scope, one, of in (("local_" + ENV["HOROVOD_HOSTNAME"], local_rank, local_size),
                           (f"cross_{local_rank}", cross_rank, cross_size)):
        Mesh(scope, one, of).close()
    return world


def train(world, notices, step):
    """What all ranks do at the same steps. Ends with None, or with the step from which it goes on in another world."""
    rank, size = place()[:2]
    told = world.exchange(step, 0, 0)  # state.sync: what rank 0 has is the truth
    step = told[0][0] if rank else step
    print(f"world of {size}: rank {rank}, {place()[2]} of {place()[3]} here, from step {step}, pid {os.getpid()}", flush=True)
    saved = step
    while True:
        try:
            saved = step
            own = (step, notices.flags if rank == 0 else 0, os.path.exists(FOLDER + "/end"))
            all_told = {**world.exchange(*own), rank: own}
            assert {one[0] for one in all_told.values()} == {step}, all_told
            if all_told[0][2]:
                return None
            if all_told[0][1]:
                notices.flags = 0
                print(f"rank {rank} was told: {all_told[0][1]}", flush=True)
                return step
            step += 1
            if rank == 0 and step % 50 == 0:
                print("step", step, flush=True)
            selectors.DefaultSelector().select(0.01)
        except PeerGone:
            return saved


def main():
    if sys.argv[2:] == ["late"] and ENV["TRAINRUN_GENERATION"] != "1":
        print("late", os.getpid(), flush=True)
        until = time.monotonic() + 300
        while not os.path.exists(FOLDER + "/late"):
            assert time.monotonic() < until, "late for ever"
            selectors.DefaultSelector().select(0.05)
    assert ENV["HOROVOD_ELASTIC"] == "1"
    world, step = init(), 0
    notices = Notices()
    addresses = pickle.dumps(({ENV.get("HOROVOD_GLOO_IFACE", "lo"): [(own_address(), notices.listener.getsockname()[1])]}, notices.key), protocol=5)
    request("PUT", f"/worker_addresses/{ENV['HOROVOD_HOSTNAME']}:{ENV['HOROVOD_LOCAL_RANK']}", base64.b64encode(addresses))
    while True:
        try:
            step = train(world, notices, step)
        except PeerGone:
            pass
        world.close()
        if step is None:
            break
        ask_for_place()
        world = init()
    print(f"end of rank {place()[0]} of {place()[1]}", flush=True)


main()
