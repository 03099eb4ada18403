"""Process sets: some of the ranks, with operations of their own."""
from trainrun import _work
from trainrun.torch.horovod import _names, _place

_sets = {}  # by number, those that were added
_count = 0  # how many there were in this world


class ProcessSet:
    """Ranks of the world, in ascending order. hvd.init(process_sets=[...]) or hvd.add_process_set() makes it usable; then
    `process_set_id` is its number."""

    process_set_id = None
    ranks = None
    mpi_comm = None
    _group = None

    def __init__(self, ranks):
        if not hasattr(ranks, "__iter__"):
            raise ValueError("ProcessSet should be initialized with a list of process ranks; communicators of MPI are not in trainrun.torch")
        self.ranks = sorted(ranks)
        if any(not isinstance(rank, int) for rank in self.ranks) or len(set(self.ranks)) != len(self.ranks):
            raise ValueError(f"ProcessSet should be initialized with a list of different process ranks, not {list(ranks)}")

    def size(self):
        """None before it was added."""
        return None if self.process_set_id is None else len(self.ranks)

    def rank(self):
        """This process's number in the set. Operations name ranks of the world, as hvd.rank()."""
        if self.process_set_id is None:
            return None
        if not self.included():
            raise ValueError("Process is not part of provided process set.")
        return self.ranks.index(_place.rank())

    def included(self):
        return _place.rank() in self.ranks

    def __str__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm=None)"


class _AllRanks(ProcessSet):
    process_set_id = 0

    def __init__(self):
        """It is there from the beginning."""

    @property
    def ranks(self):
        return list(range(_place.size())) if _place.is_initialized() else []


global_process_set = _AllRanks()


def group_of(process_set):
    """The ranks that carry out what is called for this set."""
    world = _place.world()
    if process_set.process_set_id is None or process_set is not _sets.get(process_set.process_set_id, global_process_set):
        raise ValueError(f"{process_set} does not exist or has not been registered; try: hvd.add_process_set()")
    if process_set is global_process_set:
        return world
    if process_set._group is None:
        raise ValueError(f"rank {_place.rank()} is not part of the process set of ranks {process_set.ranks}")
    return process_set._group


def member(process_set, root_rank):
    """The number in the set of a rank of the world."""
    if root_rank not in process_set.ranks:
        raise ValueError(f"root_rank {root_rank} is not one of the ranks {process_set.ranks}")
    return process_set.ranks.index(root_rank)


def add_process_set(process_set):
    """All ranks call it, with the same ranks. Returns the set, which can be used then."""
    global _count
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    world = _place.world()
    if any(other.ranks == process_set.ranks for other in (global_process_set, *_sets.values())):
        raise ValueError(f"Attempted to add a duplicate process set: {process_set}")
    if any(not 0 <= rank < world.size for rank in process_set.ranks) or not process_set.ranks:
        raise ValueError(f"the ranks of a process set are some of 0 to {world.size - 1}, not {process_set.ranks}")
    _agree(world, f"a process set of the ranks {process_set.ranks}")
    process_set._group = world.group(process_set.ranks)
    _count += 1
    process_set.process_set_id = _count
    _sets[_count] = process_set
    return process_set


def _agree(world, words):
    """Ranks that would give one number to different sets hear of it. Not in an elastic job, where ranks that come later would
    call what those that were here have called."""
    if _place.elastic_job():
        return
    call = _work.call(_work.BARRIER)
    call.name = _names.number_of(words)
    with _names.told(words):
        _work.run(world._group, [call])


def add_all(process_sets):
    for process_set in process_sets:
        add_process_set(process_set)


def remove_process_set(process_set):
    """All ranks call it. False where there is nothing to remove."""
    if process_set is global_process_set or process_set.process_set_id is None:
        return False
    group = process_set._group
    _forget(process_set)
    if group is not None:
        if group._devices is not None:
            group._devices.free()
        group.free()
    return True


def _forget(process_set):
    _sets.pop(process_set.process_set_id, None)
    process_set.process_set_id = process_set._group = None


@_place.on_world
def _renew(_):
    """Sets of the last world are gone with it."""
    global _count
    for process_set in list(_sets.values()):
        _forget(process_set)
    _count = 0
