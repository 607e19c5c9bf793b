"""How a source of any language is compiled for the simulated GPU, which checks PTX."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import devmod
from devmod import Target
from devmod.backend import create_own, find_spec, payload_of
from devmod.errors import CompileError
from devmod.targets import KINDS, SIMULATED
from devmod_targets._compilers import function_name, import_compiler, owner_of, takes
from devmod_targets._read_source import language_of, read_source
from devmod_targets._text import blank_comments
from devmod_targets.authoring import CompileRequest, merge_declared
from devmod_targets.compilation import files_read
from devmod_targets.cuda.carried import carries_sources, with_sources
from devmod_targets.slang._driver import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from devmod import FunctionInfo, Module, TargetSpec
    from devmod_targets._read_source import SourceText
    from devmod_targets.vulkan.flat import FlatSource

    #: Compiles a source, given by its path and its text.
    Way = Callable[[PathLike[str], SourceText], Module]

#: The architecture of the simulated GPU.
_ARCH = "compute_90"
_TARGET = f"{SIMULATED} -arch={_ARCH}"
#: Languages whose barriers are for all threads of a block. CUDA's are for those that have not
#: exited, so a `return` before one is no fault there.
_ALL_REACH = frozenset({"OpenCL C", "Slang", "HLSL"})
_ENTRY = re.compile(r"^(?:\.visible |\.weak )?\.entry\s+(?P<name>[\w$]+)[^{]*\{", re.MULTILINE)
_FILE = re.compile(r'^\s*\.file\s+(?P<number>\d+)\s+"(?P<path>[^"\n]+)"', re.MULTILINE)
_BRACE = re.compile(r"//[^\n]*|[{}]")
_BARRIER = re.compile(r"^\s*(?:@!?%\w+\s+)?bar(?:rier)?(?:\.cta)?\.(?:sync|red)\b", re.MULTILINE)
_END = re.compile(r"^(\s*(?:@!?%\w+\s+)?)(?:ret|exit);", re.MULTILINE)
#: The options for lines of the source in PTX, which NVRTC needs not below `devmod simulate`.
_LINES = {"OpenCL C": "-lineinfo"}


def compile_for_checks(source: PathLike[str], target: str = "") -> Module:
    """Compile a source for the simulated GPU. The functions have the names and the parameters that
    they have for the target.

    Parameters
    ----------
    source
        The file.
    target
        The target that the source is for. Default: the first kind that takes the language.

    Raises
    ------
    CompileError
        The source has errors, or a construct that cannot be checked. The message names it.
    ToolchainNotFoundError
        What compiles it is not installed.
    """
    own = Target.parse(target or _default_target(source))
    spec = find_spec(own.kind)
    if own.kind not in KINDS or spec is None:
        return devmod.compile(source, str(own))
    text = read_source(source, spec, None)
    language = language_of(spec, None, text.suffix) or next(iter(spec.languages.values()))
    try:
        if takes(_spec(), language):
            for_simulator = _TARGET
            if own.kind == SIMULATED:
                for_simulator = _checked_target(str(own))
            return _compile_own(source, text, for_simulator, language)
        way = _WAYS.get(language)
        if way is None:
            raise CompileError(
                f"{language} is not translated for the simulated GPU: it checks {', '.join(languages())}"
            )
        return way(source, text)
    except CompileError as error:
        error.kind = own.kind
        raise


def _spec() -> TargetSpec:
    """Return the spec of the simulated GPU's kind."""
    spec = find_spec(SIMULATED)
    assert spec is not None
    return spec


def languages() -> list[str]:
    """Return the languages of sources that can be checked."""
    simulated = _spec()
    own = [each for each in simulated.languages.values() if each in simulated.preprocessed]
    return [*own, *_WAYS]


def _default_target(source: PathLike[str]) -> str:
    """Return the first kind that takes the language of a file, by its suffix."""
    suffix = str(source).rpartition(".")[2].lower()
    owner = owner_of(suffix)
    return owner.kind if owner else SIMULATED


def _checked_target(target: str) -> str:
    """Return a target of the simulated GPU's kind with a format that it executes: PTX."""
    if "-arch" not in target:
        return f"{target} -arch={_ARCH}"
    return re.sub(r"\bsm_", "compute_", target)


def _compile_own(source: PathLike[str], text: SourceText, target: str, language: str) -> Module:
    """Compile a source in a language of the simulated GPU's kind."""
    module = devmod.compile(source, target, language=language, options=_LINES.get(language, ""))
    payload = payload_of(module)
    if payload is None or payload[1] != "ptx":
        return module
    _, _, functions, code = payload
    assert not isinstance(code, Mapping)
    ptx = bytes(code).decode()
    if language in _ALL_REACH:
        ptx = _meeting(ptx, text)
    if carries_sources(ptx):
        return create_own(SIMULATED, ptx.encode(), "ptx", functions)
    sources = {os.path.basename(path): text_of(path) for path in files_read(module) or ()}
    sources[text.shown_name] = text.text
    return _module(ptx, functions, sources)


def _meeting(ptx: str, text: SourceText) -> str:
    """Return PTX whose kernels end with a barrier if the text has one, so that a thread that ends
    before a barrier of the others is a divergent one. `spirv_ptx` writes such kernels.
    """
    if not _BARRIER.search(ptx):
        return ptx
    parts = []
    at = 0
    for number, entry in enumerate(_ENTRY.finditer(ptx)):
        end = _closing(ptx, entry.end())
        label = f"$L__devmod_end{number}"
        body = _END.sub(rf"\1bra \t{label};", ptx[entry.end() : end])
        place = _end_place(ptx, entry["name"], text)
        parts += [ptx[at : entry.end()], body, f"{label}:\n{place}\tbar.sync \t0;\n\tret;\n"]
        at = end
    return "".join([*parts, ptx[at:]])


def _end_place(ptx: str, name: str, text: SourceText) -> str:
    """Return the statement of PTX for the line that ends a function of the source; "" if it is not
    in this file.
    """
    code = blank_comments(text.text)
    function = re.search(rf"\b{re.escape(name)}\s*\([^;{{}}]*\{{", code)
    for file in _FILE.finditer(ptx):
        if function and os.path.basename(file["path"]) == text.shown_name:
            line = code.count("\n", 0, _closing(code, function.end())) + 1
            return f"\t.loc\t{file['number']} {line} 1\n"
    return ""


def _closing(ptx: str, start: int) -> int:
    """Return the position of the brace that ends a function, whose body begins at `start`.
    Statements in asm may have lines with a brace alone.
    """
    depth = 1
    for match in _BRACE.finditer(ptx, start):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    return len(ptx)


def _request(text: SourceText, language: str) -> CompileRequest:
    """Return the request for a file."""
    return CompileRequest(
        text.text,
        Target.parse(_TARGET),
        name=text.shown_name,
        folder=text.folder,
        stem=os.path.splitext(text.name)[0],
        language=language,
    )


def _by_slang(source: PathLike[str], text: SourceText) -> Module:
    """Compile HLSL, which Slang reads. Each entry point has a module: it takes what it uses."""
    from devmod_targets.slang.compile import compile as compile_slang
    from devmod_targets.vulkan.compile import hlsl_entries

    compiler = import_compiler(_spec())[0]
    orders = _orders(source)
    modules = []
    for entry in hlsl_entries(text.text, text.name):
        request = _request(text, "HLSL")
        payload = compile_slang(request.replace(name_expressions=(entry,)), compiler)
        assert isinstance(payload.code, bytes)
        (name,) = payload.fmap
        ptx = _meeting(payload.code.decode(), text)
        modules.append(_module(ptx, payload.fmap, order=orders.get(name, ())))
    return _joined(modules)


def _orders(source: PathLike[str]) -> dict[str, list[str]]:
    """Return the names of the arguments of HLSL functions in the order that they have for Vulkan,
    whose places are bindings; {} if it cannot be compiled for Vulkan here.
    """
    try:
        functions = devmod.compile(source, "vulkan").functions
    except CompileError:
        return {}
    orders = {}
    for name, info in functions.items():
        if info.interface is not None:
            orders[name] = [param.name for param in info.interface.params]
    return orders


def _by_glslang(source: PathLike[str], text: SourceText) -> Module:
    """Compile GLSL with its includes in one text, whose lines SPIR-V has."""
    from devmod_targets.vulkan.flat import flatten

    flat = flatten(_request(text, "GLSL"))
    stem = os.path.splitext(text.name)[0]
    try:
        compiled = devmod.compile(flat.text, "vulkan", language="GLSL", name=stem, options="-g")
    except CompileError:
        devmod.compile(source, "vulkan")  # its errors have the names of the files
        raise
    try:
        return _translated(compiled, text.shown_name, flat)
    except CompileError as error:
        error.args = (flat.with_places(str(error), text.shown_name),)
        raise


def _by_spirv(source: PathLike[str], text: SourceText) -> Module:
    """Translate SPIR-V, with the lines that it has."""
    return _translated(devmod.compile(source, "vulkan"), text.shown_name)


def _translated(compiled: Module, file: str, flat: FlatSource | None = None) -> Module:
    """Translate the shaders of a module of Vulkan, and give them the lines of a source."""
    from devmod_targets.spirv_ptx import translate

    payload = payload_of(compiled)
    assert payload is not None
    spec, _, functions, code = payload
    assert isinstance(code, Mapping)
    modules = []
    for name, info in functions.items():
        assert spec.pack is not None
        shader = bytes(spec.pack(code[name]))
        sources = None
        if flat is None:
            translation = translate(shader, location=file)
            ptx = translation.ptx
        else:
            translation = translate(shader, location=file, source=flat.text)
            ptx = flat.with_lines(translation.ptx)
            sources = flat.sources()
        fmap = merge_declared(_spec(), {name: translation.functions[info.name]}, None)
        modules.append(_module(ptx, fmap, sources))
    return _joined(modules)


def _by_naga(_: PathLike[str], text: SourceText) -> Module:
    """Translate the SPIR-V that naga writes for WGSL, with its lines."""
    from devmod_targets.webgpu.naga_spirv import translate_wgsl

    request = _request(text, "WGSL")
    names: list[str] = []
    modules = []
    for entry, translation in translate_wgsl(text.text, text.shown_name).items():
        names.append(function_name(request, entry, names))
        fmap = merge_declared(_spec(), {names[-1]: translation.functions[entry]}, None)
        modules.append(_module(translation.ptx, fmap))
    return _joined(modules)


def _module(
    ptx: str,
    functions: Mapping[str, FunctionInfo],
    sources: Mapping[str, str] | None = None,
    order: Sequence[str] = (),
) -> Module:
    """Return the module of PTX, which gets sources and names of parameters (`with_sources`)."""
    ptx = with_sources(ptx, sources, functions.values(), order)
    return create_own(SIMULATED, ptx.encode(), "ptx", functions)


def _joined(modules: Sequence[Module]) -> Module:
    if len(modules) == 1:
        return modules[0]
    return devmod.bundle(*modules)


#: What compiles the languages that the compiler of the simulated GPU's kind does not take.
_WAYS: dict[str, Way] = {
    "HLSL": _by_slang,
    "GLSL": _by_glslang,
    "SPIR-V": _by_spirv,
    "WGSL": _by_naga,
}
