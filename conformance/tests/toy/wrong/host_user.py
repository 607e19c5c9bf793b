"""The saved bytes contain the user's home folder."""

import os

from devmod_toy import TARGET
from devmod_toy._module import ToyModule

from devmod import FunctionInfo

ROWS = ("R38-saved", "R12")
REASON = "sample 1 saves other bytes with another user, folder, time and environment: the saved bytes must not depend on the host"


def create(code, fmt, fmap, source):
    tag = os.path.expanduser("~")
    functions = {
        name: FunctionInfo(info.name, info.arg_types, [*info.launch_param_tags, tag], (), info.interface) for name, info in fmap.items()
    }
    return ToyModule(TARGET, fmt, functions, code, source)
