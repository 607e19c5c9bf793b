"""The table of known commands: name, help line and distribution. `devmod --help` prints it without
importing the commands.
"""

from __future__ import annotations

from typing import NamedTuple

from devmod._plugins.claim import CORE
from devmod.errors import pip_install


class KnownCommand(NamedTuple):
    """A known command: the line in the help, the distribution that contains it, and what pip
    installs, if that is not the distribution.
    """

    help: str
    distribution: str = CORE
    package: str = ""

    @property
    def install(self) -> str:
        """The command that installs it."""
        return pip_install(self.package or self.distribution)


_BUILD = "devmod-core[build]"  # devmod-targets alone has no compiler

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
#: The known commands in the order of the help.
KNOWN = {
    "demo": KnownCommand(
        "Compile a kernel, run it here and draw its result.",
        "devmod-targets",
        "devmod[opencl,pocl]",
    ),
    "compile": KnownCommand("Compile sources for targets into one file.", "devmod-targets", _BUILD),
    "init": KnownCommand("Write a manifest for the sources in a folder.", "devmod-targets"),
    "build": KnownCommand(
        "Build the kernels of a manifest into one file.", "devmod-targets", _BUILD
    ),
    "bundle": KnownCommand("Join files into one.", "devmod-targets"),
    "pack": KnownCommand(
        "Join the binaries in a folder or a wheel into one file.", "devmod-targets"
    ),
    "unpack": KnownCommand("Write the binaries of a packed file as files again.", "devmod-targets"),
    "onnx": KnownCommand("Make a file of a model of ONNX.", "devmod-targets", "devmod-core[onnx]"),
    "inspect": KnownCommand("Show the modules of a file, what they need, and what runs here."),
    "view": KnownCommand("Show a file in the browser.", "devmod-view"),
    "doctor": KnownCommand("Check what of devmod works here, and what to do about the rest."),
    "devices": KnownCommand(
        "List the devices of the installed runtimes.", "devmod-runtime", "devmod-opencl[pocl]"
    ),  # on any CPU
    "run": KnownCommand(
        "Run a function of a file, and compare or save its results.",
        "devmod-runtime",
        "devmod-opencl[pocl]",
    ),
    "bench": KnownCommand(
        "Measure functions side by side.", "devmod-runtime", "devmod-opencl[pocl]"
    ),
    "verify": KnownCommand(
        "Check a file, and compare its candidates here.", "devmod-runtime", "devmod-opencl[pocl]"
    ),
    "profile": KnownCommand(
        "Run a Python script, and print what its kernels took.",
        "devmod-runtime",
        "devmod-opencl[pocl]",
    ),
    "simulate": KnownCommand("Run CUDA without a GPU.", "devmod-simulators"),
    "keygen": KnownCommand("Make a key that signs files.", "devmod-trust"),
    "sign": KnownCommand("Sign files, for policies to check.", "devmod-trust"),
    "check": KnownCommand("Check the signatures of a file.", "devmod-trust"),
    "plugins": KnownCommand("List the installed plugins and their problems."),
    "cache": KnownCommand("Show the sizes of the caches on the disk, and clear them."),
    "conformance": KnownCommand(
        "Check a backend against the contract, row by row.", "devmod-conformance"
    ),
    "new-backend": KnownCommand("Write the skeleton of a new backend.", "devmod-conformance"),
}
