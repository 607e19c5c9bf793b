"""What the author of a backend builds on, beside the public names of devmod itself.

A backend needs none of this: a subclass of `devmod.Module` is enough. It needs it to be as good as the others without writing
again what they share.
"""

from __future__ import annotations

from devmod._files import read_payload as read_payload
from devmod._hooks import run_compiler as run_compiler
from devmod._payload import PayloadModule as PayloadModule
from devmod._wire import decode as decode
from devmod.targets._source import split_options as split_options
