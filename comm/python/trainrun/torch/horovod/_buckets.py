"""Which gradients travel together. Planned once, and the same on all ranks: in the order in which a backward pass usually ends,
which is that of the parameters backwards."""
import torch

FIRST, NEXT = 1 << 20, 25 << 20  # bytes: the first is soon full, so that its journey begins early


class Bucket:
    """Parameters of one type on one device, and the memory in which their gradients lie one after another."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.missing, self.journey = len(parameters), None
        self._lay_out()

    def _lay_out(self):
        sizes, first = [parameter.numel() for parameter in self.parameters], self.parameters[0]
        self.flat = torch.zeros(sum(sizes), dtype=first.dtype, device=first.device)
        self._parts = {parameter: part.view(parameter.shape) for parameter, part in zip(self.parameters, self.flat.split(sizes))}

    def shaped(self):
        """All of it; of one parameter as that is shaped."""
        return self.flat if len(self.parameters) > 1 else self._parts[self.parameters[0]]

    def take(self, parameter):
        """Its gradient lies here from now on. One that is here already is not copied; where there is none it is zero."""
        part, gradient = self._parts[parameter], parameter.grad
        if gradient is None:
            part.zero_()
        elif gradient.is_sparse:
            part.copy_(gradient.to_dense())
        elif not _is(gradient, part):
            part.copy_(gradient)
        self.give(parameter)

    def give(self, parameter):
        """What lies here becomes its gradient, if it is not. Each time a tensor of its own: programs move theirs elsewhere, by
        grad.data or Module.double()."""
        part = self._parts[parameter]
        if parameter.grad is None or not _is(parameter.grad, part):
            parameter.grad = part.view_as(part)

    def empty(self):
        """For the next step. What is under way keeps its memory."""
        if self.journey is not None and not self.journey[0].ended():
            self._lay_out()
        self.missing, self.journey = len(self.parameters), None


def _is(gradient, part):
    return not gradient.is_sparse and gradient.data_ptr() == part.data_ptr() and gradient.stride() == part.stride()


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
