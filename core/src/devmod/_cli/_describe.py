"""What `devmod inspect` knows of a file, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import devmod
from devmod import _registry
from devmod._fallback import FallbackModule
from devmod._formats.index import MAGIC
from devmod._formats.raw import read_payload
from devmod._info import FunctionInfo, Param
from devmod._launch.constants import constants_of
from devmod._module import BINARY_SERIALIZABLE, Module
from devmod.errors import FormatError
from devmod.targets import find_spec, format_of_suffix, spec_of_format


def describe(path: Path) -> dict[str, Any]:
    """The file's format and size, its module tree, and the commands that install what is missing."""
    form, module = _open(path)
    tree = _module(module)
    missing = {part["runtime"]["install"]: None for part in _walk(tree) if part["runtime"] and not part["runtime"]["installed"]}
    return {"file": str(path), "format": form, "bytes": path.stat().st_size, "module": tree, "install": list(missing)}


def signature(name: str, info: FunctionInfo) -> str:
    """A function as one line: ``scale(x: float32* rw, n: int32) block 64×1×1, constants TILE=8``."""
    interface = info.interface
    if interface is None:
        shown = ", ".join(info.arg_types)
    else:
        shown = ", ".join(map(_parameter, interface.params))
    text = f"{name}({shown})"
    if interface is not None and interface.block is not None:
        text += " block " + "×".join(map(str, interface.block))
    try:
        constants = constants_of(interface)
    except FormatError:  # it is the runtime that refuses them
        constants = ()
    if constants:
        shown = ", ".join(each.shown if each.default is None else f"{each.shown}={each.default}" for each in constants)
        text += f"{',' if interface is not None and interface.block is not None else ''} constants {shown}"
    return text


def _parameter(param: Param) -> str:
    kind = param.type or "?"
    if param.kind == "buffer":
        kind = f"{param.type or 'void'}* {param.access}".rstrip()
    elif param.kind != "scalar":
        kind = f"{param.kind} {param.type}".rstrip()
    return f"{param.name}: {kind}" if param.name else kind


def _open(path: Path) -> tuple[str, Module]:
    """The file's format in words, and its modules with no backend imported."""
    suffix = path.suffix[1:].lower()
    with path.open("rb") as file:  # a missing file, a folder, no permission: the system's own error, before any other
        magic = file.read(len(MAGIC))
    if suffix == "devmod" or magic == MAGIC:
        return "devmod bundle", devmod.load(path)
    if suffix == "tvmimports":
        return "TVM imports blob", devmod.interop.tvm.load_imports(path.read_bytes())
    # A .so is a Hexagon payload where metadata lies beside it, and a library that TVM exported otherwise.
    if suffix == "so" and not path.with_suffix(".tvm_meta.json").exists():
        return "library exported by TVM", devmod.interop.tvm.load_library(path)
    form = format_of_suffix(suffix)
    spec = spec_of_format(form)
    if spec is None:
        known = "known are .devmod, .tvmimports and the raw payloads, such as .cl and .ptx"
        raise FormatError(f"{str(path)!r}: the suffix names no format that can be inspected; {known}")
    fmt, fmap, code = read_payload(spec, str(path), form)
    return f"raw {spec.kind} payload", FallbackModule(spec, fmt, fmap, code)


def _module(module: Module) -> dict[str, Any]:
    plain = module.property_mask & BINARY_SERIALIZABLE  # the others are nodes of the tree: a bundle, TVM's host library
    # Without a target nobody can read the bytes: of the functions only the names are known. A const_loader's take no arguments.
    readable = not plain or module.kind == "const_loader" or find_spec(module.kind) is not None
    return {
        "kind": module.kind,
        "format": module.format,
        "variant": getattr(module, "variant", None) or "",
        "bytes": sum(map(len, module.wire_parts())) if plain else None,
        "functions": [_function(name, info, readable) for name, info in module.functions.items()],
        "origin": module.origin.to_dict() if module.origin is not None else None,
        "runtime": _runtime(module.kind) if plain else None,
        "imports": [_module(child) for child in module.imports],
    }


def _function(name: str, info: FunctionInfo, readable: bool) -> dict[str, Any]:
    return {
        "name": name,
        "symbol": info.name if readable else None,
        "signature": signature(name, info) if readable else f"{name}(…)",
        "arg_types": list(info.arg_types) if readable else None,
        "launch_param_tags": list(info.launch_param_tags),
        "interface": info.interface.to_dict() if info.interface is not None else None,
    }


def _runtime(kind: str) -> dict[str, str]:
    """The distribution that runs a kind here ("" where none does), and how to get one."""
    claims = _registry.claims("devmod.load_from_bytes", kind)
    installed = ", ".join(claim.who for claim in claims)
    spec = find_spec(kind)
    if spec is not None:
        install = spec.install
    else:
        by_name = f"by convention it would be devmod-{kind}; install it only if you trust its publisher"
        install = f"no known distribution brings the kind {kind!r}; {by_name}"
    return {"installed": installed, "install": install}


def _walk(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tree
    for child in tree["imports"]:
        yield from _walk(child)
