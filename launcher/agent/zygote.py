"""Run by a Python interpreter as its sitecustomize: this process becomes the zygote of a job on this host.

It imports what the job's ranks would import, and then forks a rank whenever its agent says so (decision 0026). A rank
returns from here, and the interpreter goes on as it does in any start: with the rank's own script, in its own __main__.

The agent starts the interpreter twice. First with `-c` in place of the script: should something on the way keep this
file from being run, no script is run either. Then this file executes the command line as the ranks have it.

It is one file where it runs: this one, zygote_imports.py, zygote_rank.py and zygote_serve.py behind each other.
"""
import os
import sys

SETTINGS = "TRAINRUN_PRELOAD"
OWN = (SETTINGS, SETTINGS + "_MODULES", SETTINGS + "_PATH", SETTINGS + "_PYTHONPATH", SETTINGS + "_PAD")
PMI = 20  # the descriptor of io/spawn.h
OUT_OF_THE_WAY = 64  # first number of descriptors that are ours
PACKET = 1 << 18
NAME = b"trainrun-zygote"  # as ps shows it
GO_ON = b"+"
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15

# Variables that a rank alone knows. What reads them while it is imported would take the zygote for a rank.
RANK_VARIABLES = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
                  "ROLE_WORLD_SIZE", "NODE_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "MASTER_ADDR", "MASTER_PORT",
                  "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "HOROVOD_HOSTNAME", "HOROVOD_RANK", "HOROVOD_SIZE",
                  "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE", "OMPI_COMMAND",
                  "OMPI_MCA_orte_app_num"}
# What a user sets for all ranks, under a prefix of these.
EQUAL_FOR_ALL = {"TRAINRUN_COMM_LIBRARY", "TRAINRUN_COMM_BACKEND", "TRAINRUN_OP_TIMEOUT", "TRAINRUN_INIT_TIMEOUT",
                 "TRAINRUN_NCCL_LIB", "TRAINRUN_CUDA_LIB", "TRAINRUN_NCCL_ABORT_TIMEOUT", "TRAINRUN_FUSION_BYTES"}
RANK_PREFIXES = ("TORCHELASTIC_", "TRAINRUN_", "OMPI_COMM_WORLD_", "PMI_", "PMIX_", "MPI_LOCAL")

# What DDP imports when it is used first.
USED_LATER = {"torch": ("torch.distributed", "torch.nn.parallel", "torch._dynamo")}

# Whose handlers for the exit, and finalizers, belong to each process. Those of others run once, in the zygote, and
# so do those that remove files.
FOR_EACH = set(getattr(sys, "stdlib_module_names", ("logging", "multiprocessing", "concurrent", "threading", "weakref"))) | {"torch"}
FOR_ONE = {"tempfile", "shutil", "os", "posix"}

NETWORK = ("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "9p", "glusterfs", "orangefs", "afs")


class Refused(Exception):
    """The ranks are to be started plainly."""


# ---- fix-ups of packages that read a rank's variables while they are imported


def lightning_rank():
    module = sys.modules.get("lightning_utilities.core.rank_zero")
    if module is not None and "RANK" in os.environ:
        module.rank_zero_only.rank = int(os.environ["RANK"])


def torchmetrics_rank():
    sys.modules["torchmetrics.utilities.prints"].rank_zero_only.rank = int(os.environ.get("LOCAL_RANK", 0))


FIX_UPS = {"lightning.fabric.utilities.rank_zero": lightning_rank,
           "lightning_fabric.utilities.rank_zero": lightning_rank,
           "torchmetrics.utilities.prints": torchmetrics_rank}


# ---- the interpreter


def real_sitecustomize():
    """The one that this file stands before in sys.path is run as it would have been. False: there is none."""
    own = os.path.dirname(__file__)
    sys.path[:] = [entry for entry in sys.path if entry != own]
    sys.path_importer_cache.pop(own, None)
    this = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = this
        return False
    return True


def command_line():
    with open("/proc/self/cmdline", "rb") as file:
        return file.read().split(b"\0")[:-1]


def was_given(name):
    with open("/proc/self/environ", "rb") as file:
        return any(entry.startswith(name + b"=") for entry in file.read().split(b"\0"))


class Environment:
    """The job's, without what was said to this file alone. All of it lies on the heap afterwards, and the memory in
    which the kernel left it can be written over."""

    def __init__(self):
        every = dict(os.environb)
        # Where the locale is C the interpreter has set it to one with UTF-8, for itself and for its children. Executed
        # anew it must do so by itself, and each rank has to have what it would have got.
        self.coerced = {b"LC_CTYPE": every[b"LC_CTYPE"]} if b"LC_CTYPE" in every and not was_given(b"LC_CTYPE") else {}
        self.own = {name: os.fsdecode(every.pop(name.encode(), b"")) for name in OWN}
        self.for_exec = {name: value for name, value in os.environb.items() if name not in self.coerced}
        every.pop(b"TRAINRUN_KEY_FILE", None)  # a mark for those who clear up
        every.pop(b"PYTHONPATH", None)
        if self.own[OWN[3]]:
            every[b"PYTHONPATH"] = os.fsencode(self.own[OWN[3]])
        self.common = every
        replace_environment(every)


def replace_environment(wanted):
    os.environb.clear()
    for name, value in wanted.items():
        os.environb[name] = value


class Recording(type(os.environ)):
    """os.environ, while modules are imported."""

    def __getitem__(self, name):
        if name not in EQUAL_FOR_ALL and (name in RANK_VARIABLES or str(name).startswith(RANK_PREFIXES)):
            frame = sys._getframe(1)
            while frame.f_back and frame.f_globals.get("__name__") in ("os", "collections.abc", "_collections_abc"):
                frame = frame.f_back
            reads.append((importing, str(name), frame.f_globals.get("__name__", "?")))
        return super().__getitem__(name)


reads = []  # (what was being imported, variable, by whom)
importing = ""
handlers = []  # of atexit
