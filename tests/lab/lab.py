"""Many hosts on one machine, for tests: `with Lab(8) as lab: lab.run("head", ["ssh", "node1", "true"])`.

Hosts are `head` and `node1` ... `nodeN`, each a set of namespaces with its own sshd; tests/lab/README.md says what is
theirs and what is shared. A lab dies with the process that made it, kill -9 included. A Lab is used from one thread.
"""
import atexit
import fcntl
import ipaddress
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import host_init
import namespaces as ns
import observe
import relay

HOME = pwd.getpwuid(0).pw_dir
REGISTRY = "/tmp/trainrun-lab"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": HOME, "USER": "root",
               "LOGNAME": "root", "SHELL": "/bin/bash", "LANG": "C.UTF-8", "TERM": "dumb"}
PATIENCE = 30.0  # seconds; a deadline against hanging only


class LabError(Exception):
    pass


def unavailable():
    """Why no lab can be made here, or None."""
    if os.geteuid() != 0:
        return "the lab of many hosts needs root"
    for tool in ("ip", "tc", "sshd", "ssh-keygen"):
        if not shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin"):
            return f"the lab of many hosts needs {tool}"
    with open("/proc/filesystems") as file:
        if "overlay" not in file.read():
            return "the lab of many hosts needs overlayfs"
    try:
        with Lab(1):
            return None
    except (OSError, LabError) as error:
        return f"the lab of many hosts cannot be made here: {error}"


def clean_stale():
    """Ends what is left of labs whose maker is gone (their lock is free)."""
    for name in os.listdir(REGISTRY) if os.path.isdir(REGISTRY) else []:
        folder = os.path.join(REGISTRY, name)
        try:
            lock = os.open(folder + "/lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                with open(folder + "/lab.json") as file:
                    members = json.load(file)["members"].values()
            except (OSError, ValueError):
                members = []
            for pid, started in members:
                if ns.start_time(pid) == started:
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)


class Lab:
    def __init__(self, count=0, name=None, share=(), own_name_on_loopback=False):
        """Starts `count` nodes and a head. `share`: folders under /tmp, /run, /dev/shm or root's home that hosts see
        as they are (the repository always is). own_name_on_loopback: each host's own name is 127.0.1.1 there, as the
        Debian installer writes it."""
        self.name = name or f"lab-{os.getpid()}-{os.urandom(3).hex()}"
        self.folder = os.path.join(REGISTRY, self.name)
        self.hosts = ["head"] + [f"node{i}" for i in range(1, count + 1)]
        self.shared = [ROOT] + [os.path.realpath(path) for path in share]
        self._members = {}  # name -> [pid, start time]
        self._relays = {}
        self._children = []
        self._waiting = []  # (name, pipe) of members that have not said that they are ready
        self._lock = None
        clean_stale()
        os.makedirs(REGISTRY, mode=0o700, exist_ok=True)
        os.mkdir(self.folder, 0o700)
        self._lock = os.open(self.folder + "/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        atexit.register(self.stop)
        self._maker = os.getpid()
        try:
            self._start(own_name_on_loopback)
        except BaseException:
            self.stop()
            raise

    @classmethod
    def attach(cls, name):
        """A running lab that another process made."""
        lab = cls.__new__(cls)
        lab.name, lab.folder = name, os.path.join(REGISTRY, name)
        try:
            with open(lab.folder + "/lab.json") as file:
                known = json.load(file)
        except OSError:
            raise LabError(f"there is no lab '{name}' (in {REGISTRY})") from None
        lab.hosts, lab.shared, lab._members = known["hosts"], known["shared"], known["members"]
        lab._relays, lab._children, lab._lock, lab._maker = {}, [], None, 0
        return lab

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    # How it is made

    @staticmethod
    def address(name):
        index = 0 if name == "head" else int(name[4:])
        return f"10.77.{index // 250}.{index % 250 + 1}"

    @classmethod
    def address6(cls, name):
        return str(ipaddress.ip_address("fd77::{2}:{3}".format(*cls.address(name).split("."))))

    def _start(self, own_name_on_loopback):
        keys = self._make_keys()
        self._spawn("switch", host_init.switch)
        everyone = "".join(f"{self.address(host)} {host}\n" for host in self.hosts)
        for host in self.hosts:
            text = "127.0.0.1 localhost\n::1 ip6-localhost\n" + everyone
            if own_name_on_loopback:
                text = f"127.0.1.1 {host}\n" + text.replace(f"{self.address(host)} {host}\n", "")
            self._spawn(host, host_init.host, host, HOME, text, keys, self.shared)
        self._await_ready()
        with open(self.folder + "/lab.json", "w") as file:
            json.dump({"hosts": self.hosts, "shared": self.shared, "members": self._members}, file)

        lines = ["link set lo up", "link add lab type bridge forward_delay 0", "link set lab up"]
        for index, host in enumerate(self.hosts):
            lines += [f"link add s{index} type veth peer name eth0 netns {self._members[host][0]}",
                      f"link set s{index} master lab up"]
        # The pids above are as seen from here, so this one command runs in our pid namespace, in the switch's network.
        self._check(["nsenter", f"--net=/proc/{self._members['switch'][0]}/ns/net", "ip", "-batch", "-"], lines)
        waiting = []
        for host in self.hosts:
            lines = ["link set lo up", f"address add {self.address(host)}/16 dev eth0", "link set eth0 up"]
            if os.path.isdir("/proc/sys/net/ipv6"):
                lines.append(f"address add {self.address6(host)}/64 dev eth0 nodad")
            script = "ip -batch - && /usr/sbin/sshd -f {0}/sshd_config -E {0}/sshd.log".format(host_init.OWN)
            process = self.popen(host, ["sh", "-c", script], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            process.stdin.write("\n".join(lines) + "\n")
            process.stdin.close()
            process.stdin = None
            waiting.append((host, process))
        for host, process in waiting:
            _, errors = process.communicate(timeout=PATIENCE)
            if process.returncode != 0:
                raise LabError(f"{host} did not start: {errors.strip()}")
            self._await_sshd(host)

    def _await_sshd(self, host):
        """It goes to the background before it listens."""
        self._until(lambda: "LISTEN" in self.run(host, ["ss", "-ltn", "sport = :22"]).stdout, f"{host} has a listening sshd")

    def _make_keys(self):
        keys = {}
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            for kind in ("host", "user"):
                path = f"{folder}/{kind}"
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", path], check=True,
                               stdin=subprocess.DEVNULL)
                for ending, suffix in (("", ""), (".pub", "_public")):
                    with open(path + ending) as file:
                        keys[kind + suffix] = file.read()
        return keys

    def _spawn(self, name, function, *arguments):
        reader, writer = os.pipe()
        pid = ns.fork()
        if pid == 0:
            os.close(reader)
            function(writer, *arguments)
            os._exit(1)
        os.close(writer)
        self._members[name] = [pid, ns.start_time(pid)]
        self._waiting.append((name, reader))

    def _await_ready(self):
        for name, reader in self._waiting:
            with os.fdopen(reader, "rb") as pipe:
                said = pipe.read().decode(errors="replace")
            if said != "ok":
                raise LabError(f"{name}: {said}")
        self._waiting = []

    @staticmethod
    def _check(argv, lines=()):
        done = subprocess.run(argv, input="\n".join(lines) + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=PATIENCE)
        if done.returncode != 0:
            raise LabError(f"{' '.join(argv)}: {done.stdout.strip()}")

    def stop(self):
        """Ends every process of the lab and removes its files. Safe to call again."""
        if self._maker != os.getpid() or self._lock is None:
            return
        for pid, _ in self._members.values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        # A pid namespace ends when all its members are reaped, and these are our children.
        for process in self._children:
            process.wait()
        for pid, _ in self._members.values():
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass
        self._members, self._children, self._relays = {}, [], {}
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)
        self._lock = None
        atexit.unregister(self.stop)

    # What tests do with it

    def pid(self, host):
        try:
            return self._members[host][0]
        except KeyError:
            raise LabError(f"there is no host '{host}'; there are {', '.join(self.hosts)}") from None

    def popen(self, host, argv, env=None, cwd="/", **options):
        """subprocess.Popen on `host`, with a small clean environment and `env` over it."""
        process = ns.popen(self.pid(host), argv, cwd=cwd, env={**ENVIRONMENT, **(env or {})}, **options)
        self._children = [child for child in self._children if child.poll() is None] + [process]
        return process

    def run(self, host, argv, timeout=PATIENCE, **options):
        """Runs to the end, gives CompletedProcess with text; stdout and stderr apart unless told otherwise."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = self.popen(host, argv, text=True, errors="replace", **options)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def _port(self, host):
        return f"s{self.hosts.index(host)}"

    def _in_switch(self, *lines):
        self._check(["nsenter", f"--net=/proc/{self.pid('switch')}/ns/net", "ip", "-batch", "-"], lines)

    def cut(self, host):
        """Pulls the host's cable: nobody is told, packets are gone."""
        self._in_switch(f"link set {self._port(host)} down")

    def heal(self, host):
        """Puts the cable in again; on return packets pass both ways (the hosts' memory of failed lookups is gone)."""
        port = self._port(host)
        self._in_switch(f"link set {port} up")
        self._until(lambda: " UP " in self.run(host, ["ip", "-br", "link", "show", "eth0"]).stdout,
                    f"the cable of {host} is up")
        if host not in self._relays:
            self._until(lambda: "forwarding" in self.run("switch", ["bridge", "link", "show", "dev", port]).stdout,
                        f"the switch forwards to {host}")
        self.run(host, ["ip", "neigh", "flush", "all"])
        for other in self.hosts:
            if other != host:
                self.run(other, ["ip", "neigh", "flush", self.address(host)])

    def kill(self, host, power=False):
        """Ends every process on the host at once. Its kernel still answers (resets, refused connections), as after a
        crash of everything; with `power` the cable is cut first, so the host is silent."""
        if power:
            self.cut(host)

        def end_all():
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
        ns.call(self.pid(host), end_all)
        self._until(lambda: not self.processes(host), f"the processes of {host} end")

    def revive(self, host):
        """The host as after a reboot: cable in, sshd up, nothing else."""
        self.heal(host)
        script = "exec /usr/sbin/sshd -f {0}/sshd_config -E {0}/sshd.log".format(host_init.OWN)
        done = self.run(host, ["sh", "-c", script])
        if done.returncode != 0:
            raise LabError(f"{host}: sshd did not start: {done.stderr}")
        self._await_sshd(host)

    def slow(self, host, delay_ms=0, rate=None):
        """Delays each way by delay_ms, limits each way to `rate` (as tc writes it: 10mbit); neither: full speed."""
        port = self._port(host)
        inner = ["tc", "qdisc", "replace" if rate else "delete", "dev", "eth0", "root"]
        outer = ["nsenter", f"--net=/proc/{self.pid('switch')}/ns/net", *inner[:4], port, "root"]
        if rate:
            limit = ["tbf", "rate", rate, "burst", "64kb", "latency", "200ms"]
            self._check(outer + limit)
            if (done := self.run(host, inner + limit)).returncode != 0:
                raise LabError(done.stderr)
        else:
            subprocess.run(outer, stderr=subprocess.DEVNULL, timeout=PATIENCE)
            self.run(host, inner)
        old = self._relays.pop(host, None)
        if old:
            old.kill()
            old.wait()
            self._in_switch(f"link delete r{port}", f"link set {port} master lab")
        if delay_ms:
            self._in_switch(f"link add r{port} type veth peer name q{port}", f"link set {port} nomaster",
                            f"link set q{port} master lab up", f"link set r{port} up")
            ns.call(self.pid(host), lambda: relay.offloads_off("eth0"))
            ns.call(self.pid("switch"), lambda: relay.offloads_off(f"q{port}"))
            process = self.popen("switch", ["/usr/bin/python3", relay.__file__, port, f"r{port}", str(delay_ms)],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            process.stdout.readline()
            process.stdout.close()
            self._relays[host] = process

    def processes(self, host):
        """Every process of the host but its first, oldest first."""
        return observe.processes(self.pid(host))

    def process_tables(self):
        return {host: self.processes(host) for host in self.hosts}

    def files(self, host):
        """Paths of every file, socket and empty folder of the host's own /tmp, /run, /dev/shm and ~/.cache."""
        return observe.files(self.pid(host), host_init.PRIVATE + (HOME + "/.cache",),
                             self.shared + [host_init.OWN, "/run/sshd"])

    @staticmethod
    def _until(condition, what, timeout=PATIENCE):
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise LabError(f"waited {timeout:.0f} s in vain that {what}")
            os.sched_yield()
