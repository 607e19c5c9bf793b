"""LLVM in this process, by llvmlite."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

#: The level of optimization of a kernel's first code, and of one that runs for long. The first
#: takes a third of the time to compile, and its kernels run at 0.6 to 1 of the others' speed.
FIRST, BETTER = 0, 2


class Code:
    """A function of machine code, and what keeps it."""

    def __init__(self, engine: Any, address: int) -> None:
        self.engine = engine
        self.address = address


@cache
def llvm() -> Any:
    """Return llvmlite's binding, ready for this machine; None if it is not installed."""
    try:
        binding = importlib.import_module("llvmlite.binding")
    except ImportError:
        return None
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@cache
def processor() -> tuple[str, str]:
    """Return the name and the features of this machine's processor, as LLVM has them."""
    binding = llvm()
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


@cache
def _cache() -> Any:
    from devmod.backend import DiskCache

    return DiskCache("simulated")


def compile_text(text: str, level: int) -> Code:
    """Return the machine code of the function `kernel` of a text: that of the cache, or new one."""
    binding = llvm()
    name, features = processor()
    version = ".".join(map(str, binding.llvm_version_info))
    # The text is made of the PTX and of the engine that translates it.
    key = _cache().key("object 1", version, name, features, str(level), text)
    target = binding.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=level, jit=True
    )
    data = _cache().read(key)
    if data is None:
        data = target.emit_object(binding.parse_assembly(text))
        _cache().write(key, data)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target)
    engine.add_object_file(binding.object_file.ObjectFileRef.from_data(data))
    engine.finalize_object()
    return Code(engine, engine.get_function_address("kernel"))
