"""The table of known commands: name, help line and distribution. `devmod --help` prints it without
importing the commands.
"""

from __future__ import annotations

from typing import NamedTuple

from devmod.errors import pip_install

_BUILD = "devmod-core[build]"  # devmod-targets alone has no compiler
_RUNTIME = "devmod-opencl[pocl]"  # its device is the CPU
_DIGESTS = "To look only for damage: devmod inspect --verify FILE"

# Where to change: a synonym, another word for a command
#   tests: `workbench/tests/test_cli.py`
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


class KnownCommand(NamedTuple):
    """A known command.

    Attributes
    ----------
    help
        The line in the help.
    distribution
        The wheel without which it cannot run, or "".
    package
        What pip installs, if that is not the wheel.
    instead
        What answers a part of its question without the wheel.
    is_own
        Whether this wheel has the command, in a module of its name.
    """

    help: str
    distribution: str = ""
    package: str = ""
    instead: str = ""
    is_own: bool = False

    @property
    def install(self) -> str:
        """The command that installs it."""
        return pip_install(self.package or self.distribution)


def _own(line: str) -> KnownCommand:
    return KnownCommand(line, is_own=True)


def _on_runtime(line: str, instead: str = "") -> KnownCommand:
    """Return a command of this wheel that needs devices."""
    return KnownCommand(line, "devmod-runtime", _RUNTIME, instead, is_own=True)


# Where to change: a command of the workbench, such as a `doctor`
#   here: `workbench/src/devmod_workbench/_cli/`: a file with `command`
#   also: `workbench/src/devmod_workbench/_cli/_known.py` (`GROUPS`)
#   tests: `tests/test_two_places.py`, `tests/test_docs.py`
# Where to change: a command of another wheel
#   here: that wheel's file with a click command
#   also: its `pyproject.toml`, group `devmod.commands`;
#     `workbench/src/devmod_workbench/_cli/_known.py` (`GROUPS`)
#   tests: `tests/test_two_places.py`, `tests/test_docs.py`
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
        "triton": KnownCommand("Record kernels of Triton, and build them.", "devmod-targets"),
    },
    "Look": {
        "inspect": _own("Show the modules of a file, what they need, and what runs here."),
        "view": _own("Show a file in the browser."),
        "devices": _on_runtime("List the devices of the installed runtimes."),
        "doctor": _own("Check what of devmod works here, and what to do about the rest."),
        "cache": _own("Show the sizes of the caches on the disk, and clear them."),
    },
    "Run": {
        "demo": KnownCommand(
            "Compile a kernel, run it here and draw its result.",
            "devmod-targets",
            "devmod[opencl,pocl]",
        ),
        "run": _on_runtime("Run a function of a file, and compare or save its results."),
        "bench": _on_runtime("Measure functions side by side."),
        "verify": _on_runtime("Check a file, and compare its candidates here.", _DIGESTS),
        "tune": _on_runtime("Measure variants of functions, and write times into the file."),
        "profile": _on_runtime("Run a Python script, and print what its kernels took."),
        "simulate": KnownCommand("Run CUDA without a GPU.", "devmod-simulators"),
    },
    "Ship": {
        "bundle": KnownCommand("Join files into one.", "devmod-targets"),
        "pin": _own("Print the digest for the address of a file."),
        "sign": KnownCommand("Sign files, for policies to check.", "devmod-trust"),
        "check": KnownCommand("Check the signatures of a file.", "devmod-trust", instead=_DIGESTS),
    },
    "Extend": {
        "plugins": _own("List the installed plugins and their problems."),
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
