"""What processes and files a host of a lab has, read from outside."""
import os

import namespaces as ns


class Process:
    """A process of a host: `pid` as seen on the host, `outer` as seen from here."""

    def __init__(self, pid, outer, ppid, command, started):
        self.pid, self.outer, self.ppid, self.command, self.started = pid, outer, ppid, command, started

    def __repr__(self):
        return f"{self.pid} (parent {self.ppid}): {self.command}"


def processes(first):
    """Every process of the pid namespace whose process 1 is `first` (as seen from here) but that one, oldest first.
    Dead ones that wait to be reaped do not count."""
    namespace = os.readlink(f"/proc/{first}/ns/pid")
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) == first:
            continue
        try:
            if os.readlink(f"/proc/{name}/ns/pid") != namespace:
                continue
            with open(f"/proc/{name}/status") as file:
                status = dict(line.split(":", 1) for line in file if ":" in line)
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
            if status["State"].split()[0] in "ZX":
                continue
            found.append(Process(int(status["NSpid"].split()[-1]), int(name), _inner_pid(status["PPid"].strip()),
                                 command or "[" + status["Name"].strip() + "]", ns.start_time(name)))
        except (OSError, KeyError):
            continue  # it ended meanwhile
    return sorted(found, key=lambda process: (process.started or 0, process.pid))


def _inner_pid(outer):
    try:
        with open(f"/proc/{outer}/status") as file:
            return int(next(line for line in file if line.startswith("NSpid:")).split()[-1])
    except (OSError, StopIteration):
        return 0


def files(pid, tops, hidden):
    """Paths of every file, socket and empty folder under `tops` as process `pid` sees them, but for `hidden` folders."""
    root = f"/proc/{pid}/root"
    found = set()
    for top in tops:
        for folder, folders, names in os.walk(root + top):
            path = folder[len(root):]
            folders[:] = [name for name in folders if f"{path}/{name}" not in hidden]
            found.update(f"{path}/{name}" for name in names)
            if not names and not folders and path != top and not any(each.startswith(path + "/") for each in hidden):
                found.add(path + "/")
    return found
