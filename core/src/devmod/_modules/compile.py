"""devmod.compile and devmod.build. They need no device, no driver and no runtime wheel.

`compile` finds the target's spec. The distribution devmod-targets, which only a build needs, has the rest.
"""

from __future__ import annotations

from devmod._plugins.lookup import lookup
from devmod._plugins.specs import find_spec
from devmod._values.target import Target
from devmod.errors import CompileError, ToolchainNotFoundError, not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from devmod._modules.module import Module
    from devmod._values.info import FunctionInfo
    from devmod._values.param import Local

    Path = str | os.PathLike[str]
    Define = str | int | float | bool | None
    Dims = int | Sequence[int]


def compile(  # noqa: A001 - the public name
    source: Path | bytes | bytearray | memoryview,
    target: str | Target,
    *,
    name: str | None = None,
    language: str | None = None,
    fmap: Mapping[str, FunctionInfo] | None = None,
    options: str | Iterable[str] = (),
    defines: Mapping[str, Define] | None = None,
    include: Path | Iterable[Path] = (),
    name_expressions: Iterable[str] = (),
    block: Dims | Mapping[str, Dims] | None = None,
    local: Mapping[str, Local | Mapping[str, Local]] | None = None,
    aliases: Mapping[str, Iterable[str]] | None = None,
    subgroup: int | None = None,
) -> Module:
    """Compile a source for a target. The result is the runtime's module if the runtime is installed, and a fallback otherwise.

    The saved bytes depend on the arguments and the version of the toolchain alone. They never depend on the host, its folders, its devices
    or other installed packages.

    Parameters
    ----------
    source
        The source. A str is always text, an os.PathLike always a file: UTF-8 text (a byte-order mark is dropped), SPIR-V or LLVM
        bitcode. Bytes are SPIR-V or bitcode.
    target
        A Target, or a string such as "opencl" or "cuda -arch=sm_80,sm_90". With several architectures the module is a bundle of
        one variant each.
    name
        The function name of a shader whose entry is `main`. Default: the file's stem, or "main".
    language
        The source's language, such as "OpenCL C", or the suffix of its files, "cl". Default: by the file's suffix, or
        the target's first.
    fmap
        Declared functions. They override the results of reflection, and suffice without a toolchain for reflection. Reflection fills in
        empty parts (arg_types, tags, interface). Cluster, cooperative and programmatic launch tags must be declared here.
    options
        Options for the compiler: a sequence, or one string that is split at spaces. An option with a path is an error.
        ``-DNAME=VALUE`` is a define. Two options are for any target and are not stored: ``--werror`` turns the warnings of the compiler
        into errors; ``--strict`` those about what a device's compiler may refuse, and a source that no validator checked.
    defines
        Macro to value: a str unchanged, a number, True as 1 and False as 0, None as 1 (like ``-DNAME``).
    include
        An include folder, or several.
    name_expressions
        C++: template instances to compile, such as "scale<float>".
    block
        The default block of threads, for calls that give none: an int or up to three, for all functions, or a map of function to block.
        A block that the source fixes cannot be changed.
    local
        The default sizes of ``local`` parameters: a map of parameter to `Local`. Where several functions have a parameter of that name, a
        map of function to such a map.
    aliases
        Names of parameters and blocks, each with the names in the sources that it replaces: ``{"data_a": ["data_a_packed16"]}``. Names that
        the source does not have are ignored, so that one map may be for all variants of a kernel.
    subgroup
        The number of threads in a subgroup with which all functions must run, a power of two. For Vulkan it is stored. For the other kinds
        the source or the architecture must have the same size.

    Returns
    -------
    Module
        Its `origin` has the target, the toolchain and its version, the options and the SHA-256 of each source.

    Raises
    ------
    CompileError
        The compiler reports errors (`log` is its complete output), or an argument is invalid.
    ToolchainNotFoundError
        The compiler is not installed; the message has the command that installs it.
    FormatError
        The target or the fmap is malformed.
    NotRegisteredError
        No installed distribution provides the target's kind.
    OSError
        The file cannot be read.

    Warns
    -----
    UserWarning
        The compiler has warnings, or a device's compiler may refuse the source: it calls undeclared functions of
        extensions. With the options ``--werror`` and ``--strict`` this is a CompileError.

    Examples
    --------
    >>> module = devmod.compile("kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }", "opencl")  # doctest: +SKIP
    """
    parsed_target = Target.parse(target)
    spec = find_spec(parsed_target.kind) or lookup("devmod.targets", parsed_target.kind)  # the look-up raises the error of a miss
    if not spec.compiler:
        raise CompileError(
            f"this release of devmod has no compiler for {spec.kind}. A payload from another compiler can be wrapped: "
            f"devmod.create_with_fallback({spec.kind!r}, code, fmt, fmap), with fmt one of {', '.join(spec.formats)}",
            kind=spec.kind,
        )
    subject = "its compiler" if spec.build_extra else "devmod-targets"
    why = not_installed(subject, spec.build_distribution)
    compilation = _import("compilation", f"{spec.kind} cannot be compiled here: {why}", spec.kind)
    module: Module = compilation.compile_source(
        spec,
        source,
        parsed_target,
        name=name,
        language=language,
        fmap=fmap,
        options=options,
        defines=defines,
        include=include,
        name_expressions=name_expressions,
        block=block,
        local=local,
        aliases=aliases,
        subgroup=subgroup,
    )
    return module


def build(manifest: Path = ".", **options: Any) -> Any:
    """Build the kernels of a manifest into one file, as ``devmod build`` does.

    Parameters
    ----------
    manifest
        The manifest, or its folder.
    options
        Those of `devmod_targets.build.build.build_manifest`, which has the result and the errors too.

    Raises
    ------
    ToolchainNotFoundError
        devmod-targets is not installed.
    """
    why = not_installed("devmod-targets", "devmod-core[build]")
    module = _import("build.build", f"nothing can be built here: {why}")
    return module.build_manifest(manifest, **options)


def _import(name: str, missing: str, kind: str = "") -> Any:
    """Return a module of devmod-targets. Raise ToolchainNotFoundError with the message `missing` if it is not installed."""
    from importlib import import_module

    from devmod import _missing_package

    try:
        return import_module(f"devmod_targets.{name}")
    except ModuleNotFoundError as error:
        if not _missing_package(error, "devmod_targets", "devmod_readers"):  # the former imports the latter
            raise
        raise ToolchainNotFoundError(missing, kind=kind) from None
