"""LLVM in this process, by llvmlite."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

#: The level of optimization. Higher ones take longer than most kernels run.
_LEVEL = 0


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


def compile_text(text: str) -> Code:
    """Return the machine code of the function `kernel` of a text."""
    binding = llvm()
    name, features = processor()
    target = binding.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=_LEVEL, jit=True
    )
    module = binding.parse_assembly(text)
    engine = binding.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return Code(engine, engine.get_function_address("kernel"))
