"""Unknown keys of an interface are dropped."""

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

from devmod import FunctionInfo, Interface
from devmod.backend import decode

ROWS = ("R19-keys",)
REASON = "bytes with unknown keys, after loading and saving: expected … bytes, got …; they differ from byte …"


def load_from_bytes(data):
    fmt, stored, code = decode(TARGET, data)
    fmap = dict(stored)
    for name, info in fmap.items():
        there = info.interface
        references = there and Interface(there.params, there.blocks, there.block)
        fmap[name] = FunctionInfo(info.name, info.arg_types, info.launch_param_tags, info.arg_extra_tags, references)
    return ToyModule(TARGET, fmt, fmap, code)
