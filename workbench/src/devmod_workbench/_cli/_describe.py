"""The description of a file for `devmod inspect`, as plain data."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import devmod
from devmod import FunctionInfo, Interface, Module
from devmod._files.bundle_file import tree_of
from devmod._files.carried import files_of, mark_of
from devmod._formats.index import KEEP, MAGIC, MAX_DEPTH, REFUSE, TUNING
from devmod._formats.wire import StoredFunctions
from devmod._modules.agreement import by_node, common_signature, kernel_nodes, shared_functions
from devmod._modules.bundle import BundleModule
from devmod._modules.module import holds_candidates
from devmod._modules.payload import inspect_payload
from devmod._modules.stored import StoredModule, own_bytes, release
from devmod._plugins import registry
from devmod._plugins.discovery import once_per_scan
from devmod._plugins.messages import unknown_distribution
from devmod._plugins.miss import explain_name
from devmod._plugins.specs import format_of_suffix, loading_hint, spec_of_format
from devmod._values.code import Names, Source
from devmod._values.info import signature_text
from devmod.backend import (
    BINARY_SERIALIZABLE,
    MAX_SIGNATURE,
    FallbackModule,
    block_text,
    constants_of,
    declaration_text,
    expression_text,
    find_spec,
    newer_program,
    open_regular,
    payload_of,
    read_payload,
    read_program,
    tag_problem,
    verify_rest,
    walk,
)
from devmod.errors import DevmodError, FormatError, ToolchainNotFoundError, admission_hint
from devmod.targets import PROGRAM, SHARED_OBJECT
from devmod.targets.forms import detect_form
from devmod_workbench._cli._output import STDIN, size, standard_input
from devmod_workbench._programs import check_program

#: What a save does with what has an unknown name, by the mark of the name.
_FATES = {KEEP: "keeps it", REFUSE: "is refused", "": "drops it"}
#: What a file has, as plain data. A value may be a function that returns or yields it.
Description = dict[str, Any]

#: The declarations of a program that are no part of its signature, by their role.
_DECLARED = {
    "temporary": "temporaries",
    "constant": "constants",
    "state": "states",
    "sampler": "samplers",
}

#: The maximum number of candidates of all bundles of a file, beyond four for each module. Bundles
#: may share candidates.
MAX_CANDIDATES = 1 << 14


def describe(
    name: str,
    *,
    verify: bool = False,
    source: bool = False,
    begin: Callable[[str, int | None], object],
    damaged: list[str],
) -> Description:
    """Return the file's format and size, its module tree, and the commands that install the missing
    runtimes.

    Each module has a number and is described once, at its first place in the tree. Further imports
    of it are its number. Imports, functions and sources are functions that return them: during
    printing, one module's payload is in memory at a time. Sources that several modules share are at
    the first, and the others have its number in their place.

    Parameters
    ----------
    name
        The path of a file, the URL of a bundle, or ``-`` for standard input.
    verify
        Whether to read the modules' bytes and compare them with the digests in the index.
    source
        Whether each module has its sources and its payload of text, by format.
    begin
        Called with the first line and the size of the file, before the modules are listed.
    damaged
        Gets the names of damaged functions, during printing.

    Raises
    ------
    FormatError
        The file is invalid, a module's bytes have another digest, or the tree of modules is deeper
        than `MAX_DEPTH`.
    """
    form, module, count, name = open_file(name)
    result: Description = {"file": name, "format": form, "bytes": count}
    checked: Description = {"verified": None}
    if verify:
        checked["verified"] = sum(_verified(each, name) for each in walk(module))
        verify_rest(module)
        checked["programs"] = _checked_programs(module)

    first_line = f"{name}: {form}"
    if count is not None:
        first_line += f", {size(count)}"
    begin(first_line, count)

    missing = _missing_runtimes(module)  # it has a limit on the candidates
    common = _comparisons(module)
    claimed_keys = _claimed_keys(name)
    if claimed_keys is not None:
        result["claimed_keys"] = claimed_keys
    unknown = _unknown_of(module)
    if unknown:
        result["unknown"] = unknown
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records = module.tuning_records
    if records:
        result["tuning"] = [each.to_dict() for each in records]
    if caught:
        result["tuning_problems"] = [str(each.message) for each in caught]
    tree = _tree(module, name, source, common, damaged)
    return result | checked | {"module": tree} | missing


def _unknown_of(root: Module) -> list[Description]:
    """Return what the files of a tree have that this devmod does not know, and what a save does."""
    found: list[Description] = []
    for file in files_of(walk(root)):
        for key in file.extra:
            found.append({"what": "key", "name": key, "save": _FATES[mark_of(key)]})
        for name, (_, count, _) in file.sections.items():
            found.append(
                {"what": "section", "name": name, "bytes": count, "save": _FATES[mark_of(name)]}
            )
        for part in file.attachments():
            entry = part.entry
            if entry.tag != TUNING:
                row: Description = {
                    "what": "attachment",
                    "function": entry.function,
                    "name": entry.tag,
                }
                found.append(row | {"bytes": entry.size, "save": _FATES[mark_of(entry.tag)]})
    return found


def _comparisons(root: Module) -> dict[int, Any]:
    """Return a function for each bundle, by its id, that yields what its candidates have in
    common.
    """
    results = {}
    compared: set[int] = set()
    # The kernels are compared in the node that a program imports, below the program.
    for bundle in sorted(_outer_bundles(root), key=_imports_program):
        candidates = set(map(id, walk(bundle, enter=holds_candidates)))
        if compared.isdisjoint(candidates):  # many bundles may share a candidate
            results[id(bundle)] = partial(_common_functions, bundle)
        compared |= candidates
    return results


def _imports_program(module: Module) -> bool:
    return any(child.kind == PROGRAM for child in module.imports)


def _outer_bundles(root: Module) -> list[Module]:
    """Return the bundles that are in no bundle: the candidates of a nested bundle are those of the
    outer one.
    """
    modules = list(walk(root))
    required = _required(root, modules)
    return [each for each in modules if holds_candidates(each) and id(each) in required]


def _claimed_keys(name: str) -> list[str] | None:
    """Return what the signatures beside a file call their keys; None if there are no signatures.
    They are not checked.
    """
    try:
        with open_regular(f"{name}.sig") as file:
            envelope: Any = json.loads(file.read(MAX_SIGNATURE))
        return [str(each["keyid"])[:80] for each in envelope["signatures"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []
    except OSError:
        return None


def _verified(module: Module, name: str) -> bool:
    """Return whether the index has a digest of the module's bytes.

    Raises
    ------
    FormatError
        The bytes have another digest, or a function has launch tags with which it cannot be called.
    """
    if isinstance(module, StoredModule) and module.has_digest:
        module.verify()  # before the functions, whose error does not say that the bytes are damaged
    for function, info in _infos(module):
        if isinstance(info, FormatError) or _needs_of_newer(info):
            continue  # it is shown with the reason
        problem = tag_problem(info.launch_param_tags)
        if problem:
            raise FormatError(
                f"{name}: the {module.kind} function {function!r} cannot be called: {problem}",
                kind=module.kind,
                function=function,
            )
    if not isinstance(module, StoredModule) or not module.has_digest:
        return False
    module.release()
    return True


def _checked_programs(root: Module) -> Description:
    """Return how many programs were checked against the candidates of their kernels, and why others
    were not.
    """
    programs = []
    problem = ""
    for each in walk(root):
        if each.kind != PROGRAM or _features_of(each):
            continue
        for name, info in _infos(each):
            if isinstance(info, FormatError):
                continue  # it is shown with the error
            newer = newer_program(name, each)
            if newer is None:
                programs.append((name, each))
            else:
                problem = problem or str(newer)
    try:
        for name, module in programs:
            check_program(name, module)
    except ToolchainNotFoundError as error:
        return {"checked": 0, "problem": str(error)}
    return {"checked": len(programs), "problem": problem}


def signature(name: str, info: FunctionInfo) -> str:
    """Return a function as one line: ``scale(x: float32* rw, n: int32) block 64×1×1, constants
    TILE=8``.
    """
    text = signature_text(name, info)
    if info.interface is not None and info.interface.extra.get("opaque"):
        text += ", opaque: sizes without types"
    try:
        constants = constants_of(info.interface)
    except FormatError:  # the runtime raises the error
        constants = ()
    if not constants:
        return text

    values = []
    for constant in constants:
        value = constant.label
        if constant.default is not None:
            value += f"={constant.default}"
        values.append(value)
    # A comma separates them from the block.
    if info.interface is not None and block_text(info.interface):
        text += ","
    return f"{text} constants {', '.join(values)}"


def open_file(name: str, stdin: bytes | None = None) -> tuple[str, Module, int | None, str]:
    """Return a file's format in words, its modules, its size and its name. No backend is imported.

    Parameters
    ----------
    name
        As for `describe`.
    stdin
        The bytes of standard input; by default they are read.
    """
    if name == STDIN:
        if stdin is None:
            stdin = standard_input()
        return _open_stdin(stdin)
    if "://" in name:
        return _open_url(name)
    path = Path(name)
    return *_open(path), path.stat().st_size, str(path)


def _open_url(url: str) -> tuple[str, Module, int | None, str]:
    """Like `open_file`; the size is None if the server does not give it, and the name has no
    secrets of the URL.
    """
    from devmod._formats.ranges import read_head_of

    head, read = read_head_of(url)
    tree = tree_of(head, read, ())
    name = head.place[1:-1]
    if head.size < 0:
        return "devmod bundle", tree, None, name
    return "devmod bundle", tree, head.size, name


def _open(path: Path) -> tuple[str, Module]:
    suffix = path.suffix[1:].lower()
    # A missing file, a folder or no permission raises the system's error first.
    with open_regular(path) as file:
        magic = file.read(len(MAGIC))
    if suffix == "devmod" or magic == MAGIC:
        return "devmod bundle", devmod.load(path)
    if suffix == "tvmimports":
        return "TVM imports blob", devmod.interop.tvm.load_imports(path.read_bytes())
    # A .so with metadata beside it is a Hexagon payload; any other is a library that TVM exported.
    if suffix == SHARED_OBJECT and not path.with_suffix(".tvm_meta.json").exists():
        return "library exported by TVM", devmod.interop.tvm.load_library(path)
    form = format_of_suffix(suffix)
    spec = spec_of_format(form)
    if spec is None:
        known = "known are .devmod, .tvmimports and the raw payloads, such as .cl and .ptx"
        if suffix == "onnx":
            known += ". `devmod onnx` makes a file of a model"
        raise FormatError(
            f"{str(path)!r}: the suffix names no format that can be inspected; {known}{loading_hint(str(path))}"
        )
    fmt, fmap, code = read_payload(spec, str(path), form)
    module = FallbackModule(spec, fmt, fmap, code)
    own = own_bytes(spec.kind, module.format, fmap, module.wire_parts())
    # A stored module loads the installed runtime at its first use. A fallback never does.
    return f"raw {spec.kind} payload", StoredModule(*own, repr(str(path)))


def _open_stdin(data: bytes) -> tuple[str, Module, int, str]:
    """Like `open_file` for standard input. The first bytes determine the format."""
    if data.startswith(MAGIC):
        return "devmod bundle", devmod.loads(data), len(data), STDIN
    if detect_form(data[:4]) == "elf":
        raise FormatError(
            "standard input is an ELF file; give the path of a library that TVM exported, or of a raw payload"
        )
    try:
        return "TVM imports blob", devmod.interop.tvm.load_imports(data), len(data), STDIN
    except FormatError as error:
        raise FormatError(
            "standard input is neither a .devmod bundle nor TVM's imports blob. Give the path of another file: its suffix names the format"
        ) from error


def _tree(
    root: Module, path: str, source: bool, common: Mapping[int, Any], damaged: list[str]
) -> Description:
    """Return the description of the root. The imports of a module are described when they are
    printed, each once. `common` is by bundle. `damaged` gets the names of damaged functions.
    """
    numbers: dict[int, int] = {}
    sources: dict[int, dict[str, int]] = {}

    def describe_module(module: Module, depth: int) -> Any:
        """Return the description of a module; its number if it was described before."""
        if id(module) in numbers:
            return numbers[id(module)]
        if depth > MAX_DEPTH:
            raise FormatError(
                f"{path!r}: its modules import each other more than {MAX_DEPTH} deep, which is the maximum of inspect"
            )
        number = numbers[id(module)] = len(numbers)
        described = _module(module, number, damaged)
        described["imports"] = lambda: (describe_module(each, depth + 1) for each in module.imports)
        if source:
            described["source"] = partial(_texts, module, number, sources)
        if id(module) in common:
            described["common"] = common[id(module)]
        return described

    result: Description = describe_module(root, 1)
    return result


def _module(module: Module, number: int, damaged: list[str]) -> Description:
    result: Description = {
        "number": number,
        "kind": module.kind,
        "format": module.format,
        "variant": getattr(module, "variant", None) or "",
        "bytes": None,
    }
    if isinstance(module, StoredModule):  # its bytes are not read
        result["bytes"] = module.size
        if module.file_size != module.size:
            result["stored"] = module.file_size
    features = _features_of(module)
    if features:
        result["features"] = list(features)
    result["functions"] = partial(_functions, module, damaged)
    result["origin"] = None
    if module.origin is not None:
        result["origin"] = module.origin.to_dict()
    result["runtime"] = _runtime_of(module)
    # A bundle's functions are those of its candidates, and bundles may share candidates.
    if not holds_candidates(module):
        _ = module.functions  # an invalid module is an error before the first line
    release(module)
    return result


def _is_readable(module: Module) -> bool:
    """Whether the signatures of a module's functions can be read."""
    if _features_of(module):
        return False
    if not module.property_mask & BINARY_SERIALIZABLE:
        return True
    # A const_loader's functions have no arguments. Without a target spec the bytes cannot be read,
    # and only the functions' names are known.
    return module.kind == "const_loader" or find_spec(module.kind) is not None


def _texts(module: Module, number: int, sources: dict[int, dict[str, int]]) -> Description:
    """Return the sources of a module by format, with its payload if that is text. Equal texts of a
    shader map are there once.

    `sources` has the sources of the modules before by their number in the file: for each format the
    number of the module that has them.
    """
    own = None
    if isinstance(module, StoredModule):
        own = module.entry.sources
    if own in sources:
        return _payload_text(module, {}) | sources[own]
    texts = dict(module.source)
    if own is not None:
        sources[own] = dict.fromkeys(texts, number)
    return texts | _payload_text(module, texts)


def _features_of(module: Module) -> Sequence[str]:
    """Return what a newer devmod must know to use a module's bytes."""
    if not isinstance(module, StoredModule):
        return ()
    return module.entry.features


def _payload_text(module: Module, texts: Source) -> Description:
    """Return the payload by its format, if it or the source of that format is text."""
    if _features_of(module):
        return {}
    text = ""
    payload = payload_of(module)
    if payload is not None:
        spec, fmt, _, code = payload
        if not isinstance(code, (bytes, memoryview)):
            # Joined as often as the map has them, the shaders may not fit into memory.
            shaders = dict.fromkeys(code.values())
            code = {str(number): shader for number, shader in enumerate(shaders)}
        text = inspect_payload(spec, fmt, code, texts, fmt)
    release(module)
    if not text:
        return {}
    return {module.format: text}


def _functions(module: Module, damaged: list[str]) -> Iterator[Description]:
    is_readable = _is_readable(module)
    for name, info in _infos(module):
        if isinstance(info, FormatError):
            damaged.append(name)
            yield _damaged_function(name, info)
            continue
        interface = info.interface
        result: Description = {
            "name": name,
            "symbol": None,
            "signature": f"{name}(…)",
            "arg_types": None,
            "launch_param_tags": list(info.launch_param_tags),
            "interface": None,
        }
        if is_readable:
            result["symbol"] = info.name
            result["signature"] = signature(name, info)
            result["arg_types"] = list(info.arg_types)
        if interface is not None:
            result["interface"] = interface.to_dict()
            newer = interface.newer
            if newer:
                result["newer"] = list(newer)
            elif module.kind == PROGRAM:
                result["program"] = _program(name, interface, module, damaged)
        yield result


def _damaged_function(name: str, error: FormatError) -> Description:
    """Return the description of a function whose interface cannot be read."""
    return {
        "name": name,
        "symbol": None,
        "signature": f"{name}(…) is damaged: {error}",
        "arg_types": None,
        "launch_param_tags": [],
        "interface": None,
        "problem": str(error),
    }


def _needs_of_newer(info: FunctionInfo) -> Names:
    """Return the unknown needs of a newer function; () for all others."""
    if info.interface is None:
        return ()
    return info.interface.newer


def _program(name: str, interface: Interface, module: Module, damaged: list[str]) -> Description:
    """Return the declarations and the steps of a program as text. "problem" has why it has no
    steps. `damaged` gets the name if they are damaged.
    """
    result: Description = {key: [] for key in _DECLARED.values()}
    for param in interface.params:
        role = param.extra.get("role")
        if not isinstance(role, str) or role not in _DECLARED:
            continue
        if role == "sampler":
            text = f"{param.name}: {param.extra.get('filter')} {param.extra.get('address')}"
        else:
            text = declaration_text(param)
        result[_DECLARED[role]].append(text)

    try:
        program = read_program(name, module)
    except DevmodError as error:
        if isinstance(error, FormatError) and newer_program(name, module) is None:
            damaged.append(name)
        return result | {"problem": str(error)}
    finally:
        release(module)
    result["requires"] = [
        f"{expression_text(left)} {comparison} {expression_text(right)}"
        for comparison, left, right in program.requires
    ]
    result["backward"] = program.backward
    result["steps"] = [_step(each) for each in program.steps]
    repeats = []
    for each in program.repeats:
        text = f"step {each.first + 1}"
        if each.end > each.first + 1:
            text = f"steps {each.first + 1} to {each.end}"
        repeats.append(f"{text}, for {each.name} in range({expression_text(each.turns)})")
    result["repeats"] = repeats
    return result


def _step(step: Any) -> str:
    """Return a step of a program as its call."""
    parts = [f"{name}={expression_text(value)}" for name, value in step.arguments.items()]
    for word in ("grid", "threads", "block"):
        text = ", ".join(map(expression_text, getattr(step, word)))
        if "," in text:
            parts.append(f"{word}=({text})")
        elif text:
            parts.append(f"{word}={text}")
    return f"{step.kernel}({', '.join(parts)})"


def _infos(module: Module) -> Iterator[tuple[str, FunctionInfo | FormatError]]:
    """Yield the functions of a module, and keep neither them nor its payload. A bundle's are those
    of its candidates. A damaged one has its error in the place of the info.
    """
    if holds_candidates(module):
        release(module)
        return
    functions = module.functions
    release(module)
    read = functions.__getitem__
    if isinstance(functions, StoredFunctions):
        read = functions.read
    for name in functions:
        try:
            info = read(name)
        except FormatError as error:
            yield name, error
        else:
            yield name, info


def _common_functions(bundle: Module) -> Iterator[Description]:
    """Yield the functions that several candidates have, each with the signature of a call that
    reaches all of them.

    Where candidates of other kinds lack the function, `kinds` has those that have it.
    """
    candidates = walk(bundle, enter=holds_candidates)
    every = {each.kind for each in candidates if not holds_candidates(each)}
    nodes = kernel_nodes([bundle])
    for name, functions in shared_functions([bundle]):
        if len(by_node(functions, nodes)) > 1 and any(map(nodes.get, functions)):
            continue  # kernels of several programs
        text = common_signature(name, functions)
        if not text:
            continue
        result: Description = {"name": name, "signature": text}
        kinds = list(dict.fromkeys(each.kind for each in functions))
        if len(kinds) < len(every):
            result["kinds"] = kinds
        yield result


# -- The runtimes that the modules of a file need, and those that are not installed. No plugin is
# imported.


def _runtime_of(module: Module) -> dict[str, str] | None:
    """Return the installed distribution for a module's kind (or ""), the install command, and the
    variable that excludes an installed one. None for a node without bytes, which needs none: a
    bundle, TVM's host library.
    """
    if not module.property_mask & BINARY_SERIALIZABLE:
        return None
    return once_per_scan(("runtime", module.kind), lambda: _find_runtime(module.kind))


def _find_runtime(kind: str) -> dict[str, str]:
    group = "devmod.load_from_bytes"
    claims = registry.claims(group, kind)
    installed = ", ".join(claim.provider for claim in claims)
    if not claims:
        excluded = registry.excluded_claim(group, kind)
        if excluded is not None:
            claim, variable = excluded
            hint = admission_hint(claim.distribution, variable)
            return {"installed": "", "install": hint, "excluded": variable}

    spec = find_spec(kind)
    if spec is not None:
        install = spec.install
    elif meaning := explain_name(group, kind):
        install = f"nothing can be installed: {kind} is {meaning}"
    else:
        install = f"{kind}: {unknown_distribution(kind)}"
    return {"installed": installed, "install": install, "excluded": ""}


def _missing_runtimes(root: Module) -> Description:
    """Return the commands that install a runtime for every function of a tree.

    A module and its imports need the runtimes of their kinds. A function of a bundle needs the
    runtime of one candidate.

    Returns
    -------
    dict
        ``install``: the necessary commands. ``choices``: lists of alternative commands, each with
        its functions. ``others``: the commands for candidates whose functions other candidates
        have.
    """
    install: dict[str, None] = {}
    choices: dict[Names, list[str]] = {}
    others: dict[str, None] = {}
    modules = list(walk(root))
    required = _required(root, modules)
    maximum = MAX_CANDIDATES + 4 * len(modules)
    pairs = 0
    for module in modules:
        if id(module) not in required:
            continue
        command = _install_command(module)
        if command:
            install[command] = None
        if isinstance(module, BundleModule):
            candidates = module.candidates
            pairs += len(candidates)
            if pairs > maximum:
                raise FormatError(
                    f"its bundles have more than {maximum} candidates together, which is the maximum of inspect"
                )
            _add_candidates(candidates, choices, others)

    # A choice of one command is none.
    for commands in choices:
        if len(commands) == 1:
            install[commands[0]] = None
    needed = set(install)
    open_choices = []
    for commands, names in choices.items():
        if not any(each in install for each in commands):
            open_choices.append({"functions": names, "install": list(commands)})
            needed |= set(commands)
    return {
        "install": list(install),
        "choices": open_choices,
        "others": [each for each in others if each not in needed],
    }


def _install_command(module: Module) -> str:
    """Return the command for a module; "" if it needs none or its runtime is installed."""
    runtime = _runtime_of(module)
    if runtime is None or runtime["installed"]:
        return ""
    return runtime["install"]


def _required(root: Module, modules: list[Module]) -> set[int]:
    """Return the ids of the root and of what modules import. The others are candidates."""
    ids = {id(root)}
    for module in modules:
        if not holds_candidates(module):
            ids |= set(map(id, module.imports))
    return ids


def _add_candidates(
    candidates: Iterable[Module],
    choices: dict[Names, list[str]],
    others: dict[str, None],
) -> None:
    """Add the commands for a bundle's candidates."""
    commands_of: dict[str, Names] = {}
    for candidate in candidates:
        command = _install_command(candidate)
        if command:
            others[command] = None
        single = (command,)  # one tuple for all names: there may be many
        for name in candidate:
            before = commands_of.setdefault(name, single)
            if command not in before:
                commands_of[name] = before + single
    for name, commands in commands_of.items():
        if "" not in commands:
            choices.setdefault(commands, []).append(name)
