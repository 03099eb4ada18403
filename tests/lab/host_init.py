"""Process 1 of a lab host: makes the host's own view of the file system, then reaps what others leave behind.

/ is the machine's (as on NFS); /proc, /tmp, /run, /dev/shm are the host's own; the home of root is the machine's with
the host's changes over it in memory, so that keys, caches and dot files of one host are seen by no other.
"""
import os
import signal

import namespaces as ns

PRIVATE = ("/tmp", "/run", "/dev/shm")
OWN = "/run/.lab"  # the lab's own files on a host
SSHD_CONFIG = f"""\
HostKey {OWN}/host_key
PidFile {OWN}/sshd.pid
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
PrintMotd no
X11Forwarding no
AcceptEnv LANG LC_*
LogLevel VERBOSE
"""


def _write(path, text, mode=0o600):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(fd, "w") as file:
        os.fchmod(fd, mode)
        file.write(text)


def _bind_text(path, text):
    """Gives `path` another content on this host alone."""
    if not os.path.exists(path):
        return
    copy = OWN + "/" + path.strip("/").replace("/", "-")
    _write(copy, text, 0o644)
    ns.mount(copy, path, flags=ns.MS_BIND)


def _make_file_system(home, hosts_text, name, keys, shared):
    ns.mount("none", "/", flags=ns.MS_REC | ns.MS_PRIVATE)
    ns.mount("proc", "/proc", "proc", ns.MS_NOSUID | ns.MS_NODEV)
    hidden = PRIVATE + (home,)
    kept = [(path, os.open(path, os.O_PATH)) for path in shared
            if any(path == top or path.startswith(top + "/") for top in hidden)]
    for path in PRIVATE:
        ns.mount("tmpfs", path, "tmpfs", ns.MS_NOSUID | ns.MS_NODEV, "mode=1777" if path != "/run" else "mode=755")
    for path in (OWN, OWN + "/upper", OWN + "/work", "/run/sshd"):
        os.mkdir(path, 0o755)
    ns.mount("overlay", home, "overlay", 0, f"lowerdir={home},upperdir={OWN}/upper,workdir={OWN}/work")

    os.makedirs(home + "/.ssh", exist_ok=True)
    ns.mount("tmpfs", home + "/.ssh", "tmpfs", 0, "mode=700")
    _write(home + "/.ssh/id_ed25519", keys["user"])
    _write(home + "/.ssh/id_ed25519.pub", keys["user_public"])
    _write(home + "/.ssh/authorized_keys", keys["user_public"])
    _write(home + "/.ssh/known_hosts", "head,node*,10.77.*,fd77:* " + keys["host_public"])
    os.makedirs(home + "/.cache", exist_ok=True)
    ns.mount("tmpfs", home + "/.cache", "tmpfs", 0, "mode=755")
    # What a developer's own start-up files do would be measured and debugged as if it were ours.
    for dot_file in (".bashrc", ".profile", ".bash_profile"):
        _write(f"{home}/{dot_file}", "", 0o644)
    for path, fd in kept:
        os.makedirs(path, exist_ok=True)
        ns.mount(f"/proc/self/fd/{fd}", path, flags=ns.MS_BIND | ns.MS_REC)
        os.close(fd)

    _bind_text("/etc/hosts", hosts_text)
    _bind_text("/etc/hostname", name + "\n")
    with open("/etc/shadow") as file:
        shadow = file.read()
    if shadow.startswith("root:!"):  # without PAM, sshd refuses an account whose password is locked
        _bind_text("/etc/shadow", "root:*" + shadow[shadow.index(":", 5):])
    _write(OWN + "/host_key", keys["host"])
    _write(OWN + "/sshd_config", SSHD_CONFIG)


def run(ready, make):
    """In a fresh pid namespace: never returns. Writes "ok", or what went wrong, to the fd `ready`."""
    try:
        ns.die_with_parent()
        os.setsid()
        ns.unshare(ns.CLONE_NEWNS | ns.CLONE_NEWUTS | ns.CLONE_NEWIPC | ns.CLONE_NEWNET)
        make()
        os.chdir("/")
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.closerange(3, ready)
        os.closerange(ready + 1, 4096)
        # A test program that is interrupted must not take its lab's hosts with it before it has looked at them.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        os.write(ready, b"ok")
        os.close(ready)
        while True:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                signal.sigwait([signal.SIGCHLD])
    except BaseException as error:
        try:
            os.write(ready, str(error).encode() or b"failed")
        finally:
            os._exit(1)


def host(ready, name, home, hosts_text, keys, shared):
    def make():
        import socket
        socket.sethostname(name)
        _make_file_system(home, hosts_text, name, keys, shared)
    run(ready, make)


def switch(ready):
    run(ready, lambda: ns.mount("none", "/", flags=ns.MS_REC | ns.MS_PRIVATE))
