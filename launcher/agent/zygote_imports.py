

# ---- what is imported


def source_of(words, at):
    """(text, folder of the script) of what the command line runs; nothing: not to be read ahead."""
    from importlib.machinery import PathFinder
    word = words[at]
    if word == "-c":
        return words[at + 1], None
    if word != "-m":
        if not os.path.isfile(word):
            return None, None
        path = os.path.realpath(word)
    else:
        path, search = None, [os.getcwd(), *sys.path]
        for name in words[at + 1].split("."):
            spec = PathFinder.find_spec(name, search)
            if spec is None:
                return None, None
            path, search = spec.origin, list(spec.submodule_search_locations or ())
        if search:
            spec = PathFinder.find_spec("__main__", search)
            path = spec.origin if spec else None
        if not path or not path.endswith(".py"):
            return None, None
    with open(path, "rb") as file:
        return file.read(), os.getcwd() if word == "-m" else os.path.dirname(path)


def imports_of(source, beside):
    """Installed packages that the source's own top-level imports name."""
    import ast
    import site
    import sysconfig
    from importlib.machinery import PathFinder
    installed = {*site.getsitepackages(), site.getusersitepackages(), *map(sysconfig.get_path, ("purelib", "platlib"))}
    installed = tuple(os.path.realpath(folder) + "/" for folder in installed if folder)
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        raise Refused("the script cannot be parsed, as each rank will say") from None
    names = []
    while body:
        statement = body.pop(0)
        if isinstance(statement, ast.Import):
            names += [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names.append(statement.module)
        elif isinstance(statement, ast.Try):
            body[:0] = statement.body
    found = []
    for name in names:
        top = name.partition(".")[0]
        if beside is not None and any(os.path.exists(os.path.join(beside, top + end)) for end in ("", ".py")):
            continue
        spec = PathFinder.find_spec(top)
        place = spec and (spec.origin or next(iter(spec.submodule_search_locations or ()), ""))
        if place and os.path.realpath(place).startswith(installed) and name not in found:
            found.append(name)
    return found


def import_all(names):
    global importing
    import atexit
    register = atexit.register

    def recorded(function, *args, **kwargs):
        handlers.append(function)
        return register(function, *args, **kwargs)

    plain, later = type(os.environ), []
    atexit.register, os.environ.__class__ = recorded, Recording
    try:
        for name in names:
            importing = name
            try:
                __import__(name)
            except BaseException as error:
                raise Refused(f"import {name} failed: {type(error).__name__}: {error}")
            later += [(name, each) for each in USED_LATER.get(name, ())]
        for importing, name in later:
            try:
                __import__(name)
            except Exception:
                pass  # not there in this version
    finally:
        atexit.register, os.environ.__class__ = register, plain


def check_state():
    if len(os.listdir("/proc/self/task")) > 1:
        raise Refused("the imports have started threads, which a fork would lose")
    files = []
    for name in os.listdir("/proc/self/fd"):
        try:
            files.append(os.readlink("/proc/self/fd/" + name))
        except OSError:
            pass
    with open("/proc/self/maps") as file:
        files += [line.split(None, 5)[-1] for line in file]
    for path in files:
        if path.startswith(("/dev/nvidia", "/dev/kfd")):
            raise Refused(f"the imports have opened {path.strip()}, and a GPU does not outlive a fork")


def signature():
    """Of the files that were loaded; on a network file system of their folders alone."""
    paths, mounts = set(), []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            words = line.split()
            mounts.append((words[4].rstrip("/") + "/", words[words.index("-") + 1]))
    mounts.sort(key=lambda mount: -len(mount[0]))
    remote = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(path, str) or not path.startswith("/"):
            continue
        folder = os.path.dirname(path)
        if folder not in remote:
            kind = next((kind for place, kind in mounts if (folder + "/").startswith(place)), "")
            remote[folder] = kind.startswith(("fuse.", *NETWORK))
        paths.add(folder if remote[folder] else path)
    seen = {}
    for path in paths:
        try:
            seen[path] = os.stat(path).st_mtime_ns
        except OSError:
            seen[path] = None
    return seen


def changed(seen):
    for path, time in seen.items():
        try:
            if os.stat(path).st_mtime_ns != time:
                return True
        except OSError:
            if time is not None:
                return True
    return False
