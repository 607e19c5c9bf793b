"""Error texts in the words of a manifest. Errors name the arguments of `devmod.compile`; a manifest
has keys for them.
"""

from __future__ import annotations

import json

from devmod_targets._spelling import Spelling, respell
from devmod_targets.build.document import key_text
from devmod_targets.build.options import OPTIONS, key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from devmod import DevmodError, Module
    from devmod_targets.build.plan import Job

#: The key of each argument.
_KEYS = {"source": "sources", "target": "targets", **{name: key_of(name) for name in OPTIONS}}


def in_manifest(error: DevmodError, kernel: str) -> str:
    """Return the text of an error of a kernel, with the keys of the manifest in place of Python's
    arguments.
    """
    table = key_text(("kernels", kernel, "target", "KIND"))
    hint = (
        f". To set it for one kind alone: [{table}]"
        if error.argument in ("block", "local", "shared_memory", "subgroup")
        else ""
    )
    return kernel_text(str(error), kernel) + hint


def kernel_text(text: str, kernel: str) -> str:
    """Return the text of a warning about a kernel, with the keys of the manifest in place of
    Python's arguments.
    """

    def local(function: str, parameter: str, size: str) -> str:
        return f"local = {{ {key_text((function,))} = {_size(parameter, size)} }}"

    return _respell(text, kernel, local)


def bundle_text(text: str, modules: Iterable[tuple[Job, Module]]) -> str:
    """Return the text of an error of `devmod.bundle`, with the keys of the manifest and the tables
    that they belong to.
    """
    owners: dict[
        tuple[str, str], dict[str, set[str]]
    ] = {}  # by function and parameter, the kernels with the kinds that have it
    kinds: dict[str, set[str]] = {}
    for job, module in modules:
        kinds.setdefault(job.kernel, set()).add(job.kind)
        for name, info in module.functions.items():
            for param in info.interface.params if info.interface is not None else ():
                if param.kind == "local":
                    owners.setdefault((name, param.name), {}).setdefault(job.kernel, set()).add(
                        job.kind
                    )

    def local(function: str, parameter: str, size: str) -> str:
        tables = [
            key_text(("kernels", kernel, *(() if own == kinds[kernel] else ("target", kind))))
            for kernel, own in owners.get(
                (function, parameter), {}
            ).items()  # none if the text has the name escaped
            for kind in (sorted(own) if own != kinds[kernel] else [""])
        ]
        return f"{' and '.join(f'[{table}]' for table in tables)} local = {_size(parameter, size)}".lstrip()

    return _respell(text, "NAME", local)


def _respell(text: str, kernel: str, local: Callable[[str, str, str], str]) -> str:
    def function(name: str, symbol: str, types: list[str]) -> str:
        name_of_symbol = f" name = {json.dumps(symbol)}," if symbol != name else ""
        return f"[{key_text(('kernels', kernel, 'functions', name))}]{name_of_symbol} arg_types = {json.dumps(types)}"

    return respell(
        text,
        Spelling(
            _KEYS.__getitem__,
            _value,
            _blocks,
            local,
            lambda name, size: f"shared_memory = {_size(name, size)}",
            function,
            "mixed = true",
        ),
    )


def _value(name: str, values: list[str]) -> str:
    if name == "block":
        return f"block = [{', '.join(values)}]"
    if name == "defines":
        return f"defines = {{ {values[0].replace('=', ' = ')} }}"
    if name == "subgroup":
        return f"subgroup = {values[0]}"
    return f"{name} = {json.dumps(values[0] if name in ('language', 'name') else values, ensure_ascii=False)}"


def _blocks(blocks: dict[str, list[str]]) -> str:
    tables = [f"{key_text((name,))} = [{', '.join(dims)}]" for name, dims in blocks.items()]
    return f"block = {{ {', '.join(tables)} }}"


def _size(parameter: str, size: str) -> str:
    """Return a table with the default size of a parameter: ``{ scratch = "4/thread" }``."""
    return f"{{ {key_text((parameter,))} = {size if size.isdigit() else json.dumps(size)} }}"
