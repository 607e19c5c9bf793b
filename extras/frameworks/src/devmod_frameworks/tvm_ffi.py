"""Programs as global functions of tvm-ffi: ``register(devmod.load("normalize.devmod"), "mylib")``
makes ``mylib.normalize``.

docs/frameworks.md has the rules.
"""

from __future__ import annotations

import re
from typing import Any

import devmod
from devmod.backend import RLock
from devmod.errors import ArgumentError
from devmod_frameworks._programs import (
    Program,
    identity_of,
    new_programs,
    not_importable,
    programs_of,
)
from devmod_runtime import fork_safe

try:
    import numpy as np
    import tvm_ffi
except ImportError as error:
    raise not_importable("tvm_ffi", "devmod-frameworks[tvm-ffi]", error) from error

#: For each prefix the place and the identity of the file of each program.
_registered: dict[str, dict[str, tuple[str, object]]] = {}
_lock = fork_safe(RLock())


def register(
    module: devmod.Module, prefix: str, device: devmod.Device | str | None = None
) -> dict[str, Any]:
    """Make a global function of each program of a module: ``<prefix>.<program>``.

    A function takes the arguments of the program in their order, and then its outputs, which it
    writes: TVM allocates them. Tensors are used where they are, by DLPack: those of the CPU are
    copied to a device of the file and back.

    Parameters
    ----------
    module
        The module of a file, as `devmod.load` returns it.
    prefix
        What the names begin with: identifiers with dots between them. Several files may share one,
        if their programs have different names.
    device
        Where tensors of the CPU are computed, such as "opencl:0". Default: the device that the file
        chooses.

    Returns
    -------
    dict of str to tvm_ffi.Function
        The functions by the names of the programs. A second call with the same file and device
        registers nothing.

    Raises
    ------
    FormatError
        The module has no programs, or one has a name that is not an identifier.
    ArgumentError
        The prefix is invalid, or a function of such a name exists already.
    """
    if not isinstance(prefix, str) or not re.fullmatch(
        r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", prefix, re.ASCII
    ):
        raise ArgumentError(
            f"register: the prefix is {prefix!r}; expected identifiers, such as 'mylib' or 'mylib.ops'",
            argument="prefix",
        )
    programs = programs_of(module)
    identity = identity_of(module), str(device or "")
    with _lock:
        known = _registered.setdefault(prefix, {})

        def exists(name: str) -> bool:
            return tvm_ffi.get_global_func(f"{prefix}.{name}", allow_missing=True) is not None

        for name in new_programs(known, programs, identity, exists, prefix):
            tvm_ffi.register_global_func(
                f"{prefix}.{name}", _GlobalFunction(programs[name], device).call
            )
            known[name] = programs[name].place, identity
    return {name: tvm_ffi.get_global_func(f"{prefix}.{name}") for name in programs}


class _GlobalFunction:
    """A program as a function, which is given its outputs."""

    def __init__(self, program: Program, device: devmod.Device | str | None) -> None:
        self._program = program
        self._device = device
        self._arrays = [*program.arrays, *program.outputs]
        self._names = [each.name for each in (*program.arguments, *program.outputs)]
        self._places = [self._names.index(each.name) for each in self._arrays]
        self._functions: dict[tuple[str, int], Any] = {}

    def call(self, *args: Any) -> None:
        """Run the program."""
        program = self._program
        names = self._names
        values = [*args]
        if len(args) != len(names):
            raise program.error(
                f"expected {len(names)} arguments ({', '.join(names)}), got {len(args)}"
            )
        device = None
        for array, place in zip(self._arrays, self._places, strict=True):
            tensor = args[place]
            if not isinstance(tensor, tvm_ffi.Tensor):
                raise program.error(
                    f"the argument {array.name!r} is {type(tensor).__name__}; expected a tensor",
                    array.name,
                )
            program.check_array(array, str(tensor.dtype), tensor.shape, "convert it first")
            if device is not None and tensor.device != device:
                raise program.error(
                    f"the argument {array.name!r} is on {tensor.device}; expected {device}, where the others are",
                    array.name,
                )
            device = tensor.device
            if tensor.device.type == "cpu":
                try:
                    values[place] = np.from_dlpack(tensor)
                except (BufferError, TypeError, RuntimeError):  # a type that NumPy lacks
                    values[place] = tensor
        count = len(program.arguments)
        function = self._function(device)
        keywords = dict(zip(names[count:], values[count:], strict=True))
        if device is not None and device.type != "cpu":
            keywords["stream"] = _Stream(tvm_ffi.get_raw_stream(device))
        function(*values[:count], **keywords)

    def _function(self, device: Any) -> Any:
        """Return the program on the device of tensors."""
        key = ("cpu", 0)
        if device is not None:
            key = (device.type, device.index)
        function = self._functions.get(key)
        if function is None:
            kind = key[0]
            if kind not in ("cpu", "cuda", "rocm"):
                raise self._program.error(
                    f"the tensors are on {device}; expected the CPU, cuda or rocm"
                )
            function = self._functions[key] = self._program.function(
                self._device if kind == "cpu" else devmod.device(f"{kind}:{key[1]}")
            )
        return function


class _Stream:
    """A stream of tvm-ffi, by the protocol of streams."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle
