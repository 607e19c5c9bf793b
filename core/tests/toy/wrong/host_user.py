"""It writes the user's folder into what it saves."""

import os

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

from devmod import FunctionInfo

ROWS = ("R38", "R12")
REASON = "sample 1 is saved as other bytes with another user, folder and environment: what a module saves depends on the host"


def create(code, fmt, fmap, source):
    tag = os.path.expanduser("~")
    told = {
        name: FunctionInfo(info.name, info.arg_types, [*info.launch_param_tags, tag], (), info.interface) for name, info in fmap.items()
    }
    return ToyModule(TARGET, fmt, told, code, source)
