"""LLVM in this process, by llvmlite."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

#: The level of optimization of a kernel's first code, and of one that runs for long. The first
#: takes a quarter of the time to compile, and its kernels run at 0.6 to 0.9 of the others' speed.
FIRST, BETTER = 0, 2
#: The oldest LLVM that reads the texts, which have opaque pointers and `splat`: llvmlite 0.45.
OLDEST = (20,)


#: Not empty in a child whose parent held the lock of llvmlite when it was forked.
_forked: list[bool] = []
#: The levels of what threads compile now.
_compiling: list[int] = []


class Code:
    """A function of machine code, and what keeps it."""

    def __init__(self, engine: Any, address: int) -> None:
        self.engine = engine
        self.address = address


@cache
def _load() -> tuple[Any, str]:
    """Return llvmlite's binding, or None and the reason."""
    if _forked:
        return None, "this process was forked while LLVM compiled"
    try:
        binding = importlib.import_module("llvmlite.binding")
        version = binding.llvm_version_info
        if version >= OLDEST:
            binding.initialize_native_target()
            binding.initialize_native_asmprinter()
            return binding, ""
    except ModuleNotFoundError:
        return None, "llvmlite is not installed"
    except Exception as error:  # noqa: BLE001  # what a damaged installation raises
        return None, f"llvmlite cannot be used: {type(error).__name__}: {error}"
    return None, (
        f"llvmlite is too old: it has LLVM {version[0]}, expected {OLDEST[0]} or newer "
        "(pip install -U llvmlite)"
    )


def llvm() -> Any:
    """Return llvmlite's binding, ready for this machine; None if it cannot be used."""
    return _load()[0]


def is_compiling() -> bool:
    """Return whether a thread compiles, which may hold the lock of llvmlite."""
    return bool(_compiling)


def give_up() -> None:
    """Let `llvm` return None from now on."""
    _forked.append(True)
    _compiling.clear()
    _load.cache_clear()


def missing() -> str:
    """Return why `llvm` returns None."""
    return _load()[1]


@cache
def processor() -> tuple[str, str]:
    """Return the name and the features of this machine's processor, as LLVM has them."""
    binding = llvm()
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


@cache
def _cache() -> Any:
    from devmod.backend import DiskCache

    return DiskCache("simulated")


#: The machine code of the functions that kernels share, by their names and their processors, which
#: pass vectors in registers of their own.
_linked: dict[tuple[str, tuple[str, str]], Code] = {}


def link(name: str, text: str) -> None:
    """Let the kernels that are compiled next call a function, which is compiled once."""
    key = name, processor()
    if key not in _linked:
        _linked[key] = compile_text(text, BETTER, name)
    llvm().add_symbol(name, _linked[key].address)


def compile_text(text: str, level: int, name: str = "kernel") -> Code:
    """Return the machine code of a function of a text: that of the cache, or new one."""
    _compiling.append(level)
    try:
        return _compile_text(text, level, name)
    finally:
        _compiling.remove(level)


def _compile_text(text: str, level: int, function: str) -> Code:
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
    return Code(engine, engine.get_function_address(function))
