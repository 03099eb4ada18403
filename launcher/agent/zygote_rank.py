

# ---- the process as the kernel shows it


class Memory:
    """The words that the kernel shows as this process's command line and environment."""

    def __init__(self, ctypes):
        self.ctypes = ctypes
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
        self.arguments, arguments_end, self.environment, environment_end = map(int, fields[45:49])
        self.room = environment_end - self.environment
        if self.room <= 0 or arguments_end <= self.arguments:
            raise Refused("the kernel does not say where the environment lies")
        self.command = ctypes.string_at(self.arguments, arguments_end - self.arguments)
        with open("/proc/self/comm", "rb") as file:
            self.name = file.read().strip()
        self.libc = ctypes.CDLL(None, use_errno=True)

    def write(self, place, data, room):
        self.ctypes.memmove(place, data.ljust(room, b"\0")[:room], room)

    def show_zygote(self):
        if len(self.command) > len(NAME):
            self.write(self.arguments, NAME, len(self.command))
        self.libc.prctl(PR_SET_NAME, self.ctypes.c_char_p(NAME), 0, 0, 0)

    def show_rank(self, words):
        self.write(self.arguments, self.command, len(self.command))
        self.libc.prctl(PR_SET_NAME, self.ctypes.c_char_p(self.name), 0, 0, 0)
        self.write(self.environment, b"".join(word + b"\0" for word in words), self.room)


# ---- a rank


class Order:
    """One rank to be forked: what the agent said, and the descriptors that it sent."""

    def __init__(self, fields, fds):
        _, self.worker, more, generation, self.directory, cpus, batch = fields[:7]
        self.more, self.generation = more == b"1", int(generation)
        self.cpus = [int(cpu) for cpu in cpus.split(b",") if cpu]
        self.batch = batch == b"1"
        self.words = fields[7:]
        self.fds = fds  # stdin, stdout, stderr, gate, and perhaps that of PMI

    def close(self):
        for fd in self.fds:
            os.close(fd)


def renew(stream, fd, mode, name):
    """A standard stream, the same object, as the interpreter would have made it over what `fd` is now."""
    if stream is None:
        return
    encoding, errors, through = stream.encoding, stream.errors, stream.write_through
    if mode == "r":  # a new one below it: a file object keeps what it has found out about seeking
        buffer = open(fd, "rb", closefd=False)
        buffer.raw.name = name
    else:
        buffer = stream.buffer
        raw = getattr(buffer, "raw", buffer)
        raw.__init__(fd, mode, closefd=False)
        raw.name = name
        if buffer is not raw:
            buffer.__init__(raw, max(raw._blksize, 1))
    stream.__init__(buffer, encoding, errors, "\n", not through and (fd == 2 or os.isatty(fd)), through)


def set_threads(count):
    """OMP_NUM_THREADS, which libraries read when they are loaded."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(count)
    with open("/proc/self/maps") as file:
        libraries = {line.split(None, 5)[-1].strip() for line in file if ".so" in line}
    import ctypes
    for path in libraries:
        name = os.path.basename(path)
        if "openblas" in name:
            calls = [prefix + "openblas_set_num_threads" + end for prefix in ("", "scipy_") for end in ("", "64_", "_64")]
        elif name.startswith(("libgomp", "libomp", "libiomp")):
            calls = ["omp_set_num_threads"]
        else:
            continue
        library = ctypes.CDLL(path)
        for call in calls:
            if hasattr(library, call):
                getattr(library, call)(count)


def seed_anew():
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.seed()  # random itself does so after each fork


def keep_own_handlers():
    import atexit
    import gc

    def is_own(function):
        module = getattr(function, "__module__", None)
        top = (module or "").partition(".")[0]
        return module is None or (top in FOR_EACH and top not in FOR_ONE)

    # The first, so that it runs last: what is frozen would not be collected at the end, and its __del__ not run.
    atexit.register(gc.unfreeze)
    for function in handlers:
        if not is_own(function):
            atexit.unregister(function)
    weakref = sys.modules.get("weakref")
    for finalizer, info in list(weakref.finalize._registry.items()) if weakref else ():
        if not is_own(info.func):
            finalizer.detach()


def renew_identity():
    threading = sys.modules.get("threading")
    if threading is not None and hasattr(threading.main_thread(), "_set_native_id"):
        threading.main_thread()._set_native_id()
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process()._config["authkey"] = process.AuthenticationString(os.urandom(32))


def become(order, memory, agent, before, mask):
    """In the rank, which leads its session already and is its agent's child. `before`: the environment of the zygote."""
    import _signal
    stdin, stdout, stderr, gate = order.fds[:4]
    if os.read(gate, 1) != GO_ON:
        os._exit(0)  # the agent is gone, or has changed its mind
    memory.libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)
    if os.getppid() != agent:
        os._exit(127)
    for target, fd in enumerate((stdin, stdout, stderr)):
        os.dup2(fd, target)
    if len(order.fds) > 4:
        os.dup2(order.fds[4], PMI)
    else:
        os.close(PMI)
    order.close()
    os.chdir(order.directory)
    if order.cpus:
        os.sched_setaffinity(0, order.cpus)
    if order.batch and os.sched_getscheduler(0) == os.SCHED_OTHER:
        try:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        except OSError:
            pass  # a container may forbid it: then it is slower
    environment = dict(before.coerced)
    for word in order.words:
        name, _, value = word.partition(b"=")
        environment[name] = value
    replace_environment(environment)
    memory.show_rank(order.words)
    if environment.get(b"TZ") != before.common.get(b"TZ"):
        import time
        time.tzset()
    for stream, mode, name in ((sys.__stdin__, "r", "<stdin>"), (sys.__stdout__, "w", "<stdout>"),
                               (sys.__stderr__, "w", "<stderr>")):
        renew(stream, ("<stdin>", "<stdout>", "<stderr>").index(name), mode, name)
    keep_own_handlers()
    renew_identity()
    seed_anew()
    threads = environment.get(b"OMP_NUM_THREADS", b"").decode().partition(",")[0]
    if threads != "1":
        set_threads(int(threads) if threads.isdigit() and int(threads) else len(os.sched_getaffinity(0)))
    for _, _, reader in reads:
        FIX_UPS[reader]()
    _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
