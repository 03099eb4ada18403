"""Which gradients travel together. Planned once, and the same on all ranks: in the order in which a backward pass usually ends,
which is that of the parameters backwards."""
import torch

FIRST, NEXT = 1 << 20, 25 << 20  # bytes: the first is soon full, so that its journey begins early


class Bucket:
    """Parameters of one type on one device, and the memory in which their gradients lie one after another."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.flat = torch.zeros(sum(parameter.numel() for parameter in parameters), dtype=parameters[0].dtype, device=parameters[0].device)
        parts = self.flat.split([parameter.numel() for parameter in parameters])
        self.views = {parameter: part.view(parameter.shape) for parameter, part in zip(parameters, parts)}
        self.missing, self.journey = len(parameters), None

    def take(self, parameter):
        """Its gradient lies here from now on. One that is here already is not copied; where there is none it is zero."""
        view, gradient = self.views[parameter], parameter.grad
        if gradient is None:
            view.zero_()
        elif gradient.is_sparse:
            view.copy_(gradient.to_dense())
        elif gradient.data_ptr() != view.data_ptr():
            view.copy_(gradient)
        parameter.grad = view

    def empty(self):
        """For the next step. What is under way is left alone."""
        self.missing, self.journey = len(self.parameters), None


def plan(parameters, groups=None, alone=False):
    """Lists of parameters. `groups`: a number of lists, or lists, as the program wants them. `alone`: each by itself."""
    if alone:
        return [[parameter] for parameter in reversed(parameters)]
    if isinstance(groups, int) and groups > 0:
        least, more = divmod(len(parameters), groups)
        ends = [least * (i + 1) + min(i + 1, more) for i in range(groups)]
        groups = [parameters[begin:end] for begin, end in zip([0, *ends], ends)]
    asked, known = [], set(parameters)
    for group in groups or ():
        asked += _by_type([parameter for parameter in group if parameter in known])
        known.difference_update(group)
    return asked + _filled([parameter for parameter in reversed(parameters) if parameter in known])


def _by_type(parameters):
    lists = {}
    for parameter in parameters:
        lists.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    return list(lists.values())


def _filled(parameters):
    full, open_lists, sizes = [], {}, {}
    for parameter in parameters:
        kind = parameter.dtype, parameter.device
        open_lists.setdefault(kind, []).append(parameter)
        sizes[kind] = sizes.get(kind, 0) + parameter.numel() * parameter.element_size()
        if sizes[kind] >= (NEXT if full else FIRST):
            full.append(open_lists.pop(kind))
            sizes[kind] = 0
    return full + list(open_lists.values())
