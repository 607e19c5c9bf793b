"""Error texts in the words of a manifest. Errors name the arguments of `devmod.compile`; a manifest
has keys for them.
"""

from __future__ import annotations

import json

from devmod_targets.build.document import key_text
from devmod_targets.build.options import OPTIONS, key_of
from devmod_targets.spelling import Spelling, respell

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
    text = kernel_text(str(error), kernel)
    if error.argument in ("block", "local", "shared_memory", "subgroup"):
        table = key_text(("kernels", kernel, "target", "KIND"))
        text += f". To set it for one kind alone: [{table}]"
    return text


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
    # By function and parameter, the kernels with the kinds that have it.
    owners: dict[tuple[str, str], dict[str, set[str]]] = {}
    kinds: dict[str, set[str]] = {}
    for job, module in modules:
        kinds.setdefault(job.kernel, set()).add(job.kind)
        for name, info in module.functions.items():
            if info.interface is None:
                continue
            for param in info.interface.params:
                if param.kind == "local":
                    users = owners.setdefault((name, param.name), {})
                    users.setdefault(job.kernel, set()).add(job.kind)

    def local(function: str, parameter: str, size: str) -> str:
        tables = []
        # None if the text has the name escaped.
        for kernel, own in owners.get((function, parameter), {}).items():
            if own == kinds[kernel]:
                tables.append(f"[{key_text(('kernels', kernel))}]")
            else:
                for kind in sorted(own):
                    tables.append(f"[{key_text(('kernels', kernel, 'target', kind))}]")
        return f"{' and '.join(tables)} local = {_size(parameter, size)}".lstrip()

    return _respell(text, "NAME", local)


def _respell(text: str, kernel: str, local: Callable[[str, str, str], str]) -> str:
    def function(name: str, symbol: str, types: list[str]) -> str:
        text = f"[{key_text(('kernels', kernel, 'functions', name))}]"
        if symbol != name:
            text += f" name = {json.dumps(symbol)},"
        return f"{text} arg_types = {json.dumps(types)}"

    def size(name: str, keys: list[str], size: str) -> str:
        if name == "local":
            return local(keys[0], keys[1], size)
        return f"shared_memory = {_size(keys[0], size)}"

    return respell(
        text,
        Spelling(
            _KEYS.__getitem__,
            _value,
            _blocks,
            size,
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
    value: object = values
    if name in ("language", "name"):
        value = values[0]
    return f"{name} = {json.dumps(value, ensure_ascii=False)}"


def _blocks(blocks: dict[str, list[str]]) -> str:
    tables = [f"{key_text((name,))} = [{', '.join(dims)}]" for name, dims in blocks.items()]
    return f"block = {{ {', '.join(tables)} }}"


def _size(parameter: str, size: str) -> str:
    """Return a table with the default size of a parameter: ``{ scratch = "4/thread" }``."""
    if not size.isdigit():
        size = json.dumps(size)
    return f"{{ {key_text((parameter,))} = {size} }}"
