"""The backend reads an older interface: without a default or an open block, defaults of Local arguments, and members of structs."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

from devmod import FunctionInfo, Interface, Param

ROWS = ("R34-block", "R34-open", "R34-local", "R34-structs")
REASON = "the block of 'axpy' with a default block in its interface: expected (16, 1, 1), got None"


def older(info):
    if info.interface is None:
        return info
    params = [Param(each.name, each.kind, each.type, each.access) for each in info.interface.params]
    return FunctionInfo(info.name, info.arg_types, info.launch_param_tags, info.arg_extra_tags, Interface(params))


def create(code, fmt, fmap, source):
    return ToyModule(TARGET, fmt, {name: older(info) for name, info in fmap.items()}, code, source)
