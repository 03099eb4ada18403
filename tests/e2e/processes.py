"""The processes of a test's jobs, found by a mark in their environment."""
import os
import shutil
import signal
import subprocess

MARK = "TEST_OF_TRAINRUN_MARK"  # no TRAINRUN_ name: those are scrubbed from what workers inherit


def marked(mark):
    """Processes (pid, command) that were started, however far down, by the job that carries `mark`."""
    found = []
    needle = f"{MARK}={mark}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if needle not in file.read():
                    continue
            with open(f"/proc/{name}/stat", "rb") as file:
                if file.read().rsplit(b") ", 1)[1][:1] in b"ZX":
                    continue
            with open(f"/proc/{name}/cmdline", "rb") as file:
                found.append((int(name), file.read().replace(b"\0", b" ").decode(errors="replace").strip()))
        except OSError:
            continue  # it ended meanwhile, or is somebody else's
    return sorted(found)


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def describe(pids):
    """Process table, kernel wait channels and, where gdb is, stacks: what a hang report needs."""
    pids = [str(pid) for pid in pids]
    if not pids:
        return "no process of the job is left"
    table = subprocess.run(["ps", "-o", "pid,ppid,pgid,sid,stat,wchan:24,etime,args", "-p", ",".join(pids)],
                           stdout=subprocess.PIPE, text=True, errors="replace").stdout
    for pid in pids[:6] if shutil.which("gdb") else []:
        try:
            stacks = subprocess.run(["gdb", "-p", pid, "-batch", "-ex", "set pagination off", "-ex",
                                     "thread apply all bt 24"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True, errors="replace", timeout=30).stdout
            table += f"--- {pid}\n" + "\n".join(line for line in stacks.splitlines() if line.startswith(("#", "Thr")))
            table += "\n"
        except subprocess.TimeoutExpired:
            table += f"--- {pid}: no stack within 30 s\n"
    return table
