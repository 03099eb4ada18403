

# ---- the zygote


def say(channel, *fields):
    channel.send(b"\0".join(field if isinstance(field, bytes) else str(field).encode(errors="replace") for field in fields))


def receive(channel):
    """A packet's fields and descriptors; nothing: the agent has closed its end."""
    import _socket
    import fcntl
    data, extra, _, _ = channel.recvmsg(PACKET, _socket.CMSG_SPACE(16 * 4), 0x40000000)  # MSG_CMSG_CLOEXEC
    fds = []
    for level, kind, numbers in extra:
        for at in range(0, len(numbers) - 3, 4):
            fds.append(int.from_bytes(numbers[at:at + 4], sys.byteorder))
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) for fd in fds]
    for fd in fds:
        os.close(fd)
    return (data.split(b"\0"), moved) if data else None


def fork_ranks(channel, orders):
    """One process in between forks all of them and ends, by which they become children of the agent. Gives its own
    order to each rank, and nothing to the zygote."""
    told, tell = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            for order in orders:
                if os.fork() != 0:
                    continue
                channel.close()
                os.close(told)
                for other in orders:
                    if other is not order:
                        other.close()
                os.setsid()  # before it is told: nothing that befalls the zygote's group concerns it any more
                os.write(tell, b"%s %d\n" % (order.worker, os.getpid()))
                os.close(tell)
                return order
        except BaseException:
            os._exit(1)
        os._exit(0)
    os.close(tell)
    for order in orders:
        order.close()
    os.waitpid(between, 0)
    with open(told, "rb") as file:
        say(channel, b"forked", *file.read().splitlines())
    return None


def leave():
    """What imports have left for the end of the process is done here, once."""
    import atexit
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def execute(environment, settings, words, modules):
    """This process anew."""
    path = environment.own[OWN[2]]
    wanted = {**environment.for_exec, OWN[0].encode(): settings.encode(), OWN[1].encode(): ",".join(modules).encode()}
    os.execve(path, words, wanted)


def first_stage(environment, at, automatic, modules):
    words = command_line()
    if words[at:at + 1] != [b"-c"]:
        raise Refused(f"{environment.own[OWN[2]]} changes its command line")
    del words[at:at + 2]
    real_sitecustomize()
    if automatic:
        source, beside = source_of([os.fsdecode(word) for word in words], at)
        modules = imports_of(source, beside) if source is not None else []
        if not modules:
            raise Refused("the script's own imports name no installed package")
    execute(environment, f"2 {at} 0", words, modules)


def zygote(environment, at, modules):
    """Returns in ranks alone; says whether there is a real sitecustomize."""
    import _signal
    import _socket
    import fcntl
    import gc
    words, agent = command_line(), os.getppid()
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, OUT_OF_THE_WAY))
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, PMI, inheritable=False)  # so that nobody else takes it
    os.close(null)
    try:
        try:
            import ctypes
        except ImportError as error:
            raise Refused(f"{error}")
        real = real_sitecustomize()
        memory = Memory(ctypes)
        threads = os.environb.get(b"OMP_NUM_THREADS")
        os.environb[b"OMP_NUM_THREADS"] = b"1"  # libraries start threads when they are loaded
        main = sys.modules["__main__"]
        if not words[at].startswith(b"-"):
            main.__file__ = os.fsdecode(words[at])  # some take a program without a file for a session at a terminal
        import_all(modules)
        main.__dict__.pop("__file__", None)
        if threads is None:
            del os.environb[b"OMP_NUM_THREADS"]
        left_out = {module: (name, reader) for module, name, reader in reads if reader not in FIX_UPS}
        if left_out:
            for module, (name, reader) in left_out.items():
                say(channel, b"note", f"{module} is left out: {reader} reads {name} while it is imported")
            rest = [module for module in modules if module not in left_out]
            if not rest:
                raise Refused("nothing is left to import")
            os.dup2(channel.fileno(), 0)
            os.close(PMI)
            execute(environment, f"2 {at} 0", words, rest)
        check_state()
        seen = signature()
        memory.show_zygote()
        gc.collect()
        gc.freeze()
        mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    except Refused as why:
        say(channel, b"refused", why)
        leave()
    say(channel, b"ready")
    generation, orders = None, []
    while True:
        packet = receive(channel)
        if packet is None:
            leave()
        order = Order(*packet)
        orders.append(order)
        if order.more:
            continue
        if generation not in (None, order.generation) and changed(seen):
            say(channel, b"stale")
            leave()
        generation = order.generation
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        mine = fork_ranks(channel, orders)
        if mine is not None:
            become(mine, memory, agent, environment, mask)
            return real
        orders = []


def main():
    """False: what was asked for in the name of this file is to be reported as missing."""
    if SETTINGS not in os.environ:
        return real_sitecustomize()
    try:
        if sys.implementation.name != "cpython" or sys.version_info < (3, 9):
            raise Refused("it needs CPython 3.9 or later")
        environment = Environment()
        stage, at, automatic = environment.own[SETTINGS].split()
        modules = [name for name in environment.own[OWN[1]].split(",") if name]
        if stage == "1":
            first_stage(environment, int(at), automatic == "1", modules)
        return zygote(environment, int(at), modules)
    except Refused as why:
        os.write(0, b"refused\0" + str(why).encode(errors="replace"))  # in the first stage the socket is there
    except BaseException:
        import traceback
        traceback.print_exc()
    # Never the script: this process has no rank.
    sys.stderr.flush()
    os._exit(86)


if not main():
    raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
