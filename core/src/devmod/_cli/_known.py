"""The table of known commands: name, help line and distribution. `devmod --help` prints it without
importing the commands.
"""

from __future__ import annotations

from typing import NamedTuple

from devmod._plugins.claim import CORE
from devmod.errors import pip_install


class KnownCommand(NamedTuple):
    """A known command: the line in the help, the distribution that contains it, what pip installs,
    if that is not the distribution, and what answers a part of its question without it.
    """

    help: str
    distribution: str = CORE
    package: str = ""
    instead: str = ""

    @property
    def install(self) -> str:
        """The command that installs it."""
        return pip_install(self.package or self.distribution)


_BUILD = "devmod-core[build]"  # devmod-targets alone has no compiler
_RUNTIME = "devmod-opencl[pocl]"  # its device is the CPU
_DIGESTS = "To look only for damage: devmod inspect --verify FILE"

#: Other words for commands, for the error about an unknown one.
SYNONYMS = {
    **dict.fromkeys(("compress", "join", "link", "merge"), "bundle"),
    **dict.fromkeys(("collect", "library"), "pack"),
    "extract": "unpack",
    **dict.fromkeys(("dump", "info", "list", "show"), "inspect"),
    "open": "view",
    **dict.fromkeys(("explain", "why"), "inspect --here"),
    "make": "build",
    **dict.fromkeys(("diagnose", "diagnostics", "env", "status"), "doctor"),
    "test": "conformance",
    "trust": "check",
    **dict.fromkeys(("backends", "runtimes"), "plugins"),
    "clean": "cache clear",
    "emulate": "simulate",
    "help": "--help",
    "version": "--version",
}
#: The known commands by group, in the order of the help.
GROUPS = {
    "Build": {
        "compile": KnownCommand(
            "Compile sources for targets into one file.", "devmod-targets", _BUILD
        ),
        "init": KnownCommand("Write a manifest for the sources in a folder.", "devmod-targets"),
        "build": KnownCommand(
            "Build the kernels of a manifest into one file.", "devmod-targets", _BUILD
        ),
        "onnx": KnownCommand(
            "Make a file of a model of ONNX.", "devmod-models", "devmod-core[onnx]"
        ),
    },
    "Look": {
        "inspect": KnownCommand("Show the modules of a file, what they need, and what runs here."),
        "view": KnownCommand("Show a file in the browser.", "devmod-view"),
        "devices": KnownCommand(
            "List the devices of the installed runtimes.", "devmod-runtime", _RUNTIME
        ),
        "doctor": KnownCommand("Check what of devmod works here, and what to do about the rest."),
        "cache": KnownCommand("Show the sizes of the caches on the disk, and clear them."),
    },
    "Run": {
        "demo": KnownCommand(
            "Compile a kernel, run it here and draw its result.",
            "devmod-targets",
            "devmod[opencl,pocl]",
        ),
        "run": KnownCommand(
            "Run a function of a file, and compare or save its results.",
            "devmod-runtime",
            _RUNTIME,
        ),
        "bench": KnownCommand("Measure functions side by side.", "devmod-runtime", _RUNTIME),
        "verify": KnownCommand(
            "Check a file, and compare its candidates here.", "devmod-runtime", _RUNTIME, _DIGESTS
        ),
        "tune": KnownCommand(
            "Measure variants of functions, and write times into the file.",
            "devmod-runtime",
            _RUNTIME,
        ),
        "profile": KnownCommand(
            "Run a Python script, and print what its kernels took.", "devmod-runtime", _RUNTIME
        ),
        "simulate": KnownCommand("Run CUDA without a GPU.", "devmod-simulators"),
    },
    "Ship": {
        "bundle": KnownCommand("Join files into one.", "devmod-targets"),
        "pin": KnownCommand("Print the digest for the address of a file."),
        "sign": KnownCommand("Sign files, for policies to check.", "devmod-trust"),
        "check": KnownCommand("Check the signatures of a file.", "devmod-trust", instead=_DIGESTS),
    },
    "Extend": {
        "plugins": KnownCommand("List the installed plugins and their problems."),
    },
    "More": {
        "keygen": KnownCommand("Make a key that signs files.", "devmod-trust"),
        "conformance": KnownCommand(
            "Check a backend against the contract, row by row.", "devmod-conformance"
        ),
        "new-backend": KnownCommand("Write the skeleton of a new backend.", "devmod-conformance"),
        "pack": KnownCommand(
            "Join the binaries in a folder or a wheel into one file.", "devmod-targets"
        ),
        "unpack": KnownCommand(
            "Write the binaries of a packed file as files again.", "devmod-targets"
        ),
    },
}
KNOWN: dict[str, KnownCommand] = {}
for _commands in GROUPS.values():
    KNOWN |= _commands
