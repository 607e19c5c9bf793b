"""devmod.compile, devmod.build and devmod.program. They need no device, no driver and no runtime
wheel.

`compile` finds the target's spec. The distribution devmod-targets, which only a build needs, has
the rest.
"""

from __future__ import annotations

from devmod import _import_wheel
from devmod._plugins.discovery import shared_scan
from devmod._plugins.lookup import lookup
from devmod._plugins.specs import find_spec
from devmod._values.target import Target
from devmod.errors import CompileError, FormatError
from devmod.targets import KINDS, PROGRAM

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
    Dims = int | str | Sequence[int | str]
    Values = Sequence[bool | int | float | str]

#: The packages of the build side: the first imports the second.
_PACKAGES = ("devmod_targets", "devmod_readers")
#: Their wheel in errors, and what pip installs.
_BUILD = ("devmod-targets", "devmod-core[build]")


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
    shared_memory: int | Local | Mapping[str, int | Local] | None = None,
    aliases: Mapping[str, Iterable[str]] | None = None,
    subgroup: int | None = None,
    tune: Mapping[str, Values] | None = None,
    constraints: Sequence[str] = (),
    sizes: Sequence[str] = (),
    grid: Dims | Mapping[str, Dims] | None = None,
) -> Module:
    """Compile a source for a target. The result is the runtime's module if the runtime is
    installed, and a fallback otherwise.

    The saved bytes depend on the arguments and the version of the toolchain alone. They never
    depend on the host, its folders, its devices or other installed packages.

    Parameters
    ----------
    source
        The source. A str is always text, an os.PathLike always a file: UTF-8 text (a byte-order
        mark is dropped), SPIR-V or LLVM bitcode. Bytes are SPIR-V or bitcode.
    target
        A Target, or a string such as "opencl" or "cuda -arch=sm_80,sm_90". With several
        architectures the module is a bundle of one variant each.
    name
        The function name of a shader whose entry is `main`. Default: the file's stem, or "main".
    language
        The source's language, such as "OpenCL C", or the suffix of its files, "cl". Default: by the
        file's suffix, or the target's first.
    fmap
        Declared functions. They override the results of reflection, and suffice without a toolchain
        for reflection. Reflection fills in empty parts (arg_types, tags, interface). Cluster,
        cooperative and programmatic launch tags must be declared here.
    options
        Options for the compiler: a sequence, or one string that is split at spaces. An option with
        a path is an error. ``-DNAME=VALUE`` is a define. Three options are for any target and are
        not stored: ``--werror`` turns the warnings of the compiler into errors; ``--strict`` those
        about what a device's compiler may refuse, and a source that no validator checked;
        ``--partial`` leaves out the kernels of OpenCL C that do not compile for Vulkan, with a
        warning.
    defines
        Macro to value: a str unchanged, a number, True as 1 and False as 0, None as 1 (like
        ``-DNAME``).
    include
        An include folder, or several.
    name_expressions
        C++: template instances to compile, such as "scale<float>".
    block
        The default block of threads, for calls that give none: an int or up to three, for all
        functions, or a map of function to block. A block that the source fixes cannot be changed.
        Of a tuned function, also expressions of its constants, such as "BLOCK": the block of its
        calls.
    local
        The default sizes of ``local`` parameters: a map of parameter to `Local`. Where several
        functions have a parameter of that name, a map of function to such a map.
    shared_memory
        The default dynamic shared memory of a block, for calls that give none: bytes, or
        ``Local(per_thread=n)``; for all functions that use some, or a map of function to size.
        Kinds that have no such memory ignore it.
    aliases
        Names of parameters and blocks, each with the names in the sources that it replaces:
        ``{"data_a": ["data_a_packed16"]}``. Names that the source does not have are ignored, so
        that one map may be for all variants of a kernel.
    subgroup
        The number of threads in a subgroup with which all functions must run, a power of two. For
        Vulkan it is stored. For the other kinds the source or the architecture must have the same
        size.
    tune
        Constants to values, such as ``{"BLOCK": [64, 128], "TILE": [1, 2]}``: macros, or constants
        of a shader's pipeline. The functions of the source have a variant for each combination. The
        first is the default; `devmod tune` measures which is the best on a device. A function of
        Triton has the configurations of its ``@triton.autotune`` without it.
    constraints
        Comparisons of the constants, such as ``"BLOCK * TILE <= 512"``, that each variant meets.
    sizes
        The names of the integer arguments that decide which variant is the best.
    grid
        The grid of the calls of a tuned function, which then give none: an expression of its
        constants and of integer arguments, such as ``"ceildiv(n, BLOCK * TILE)"``, or up to three;
        for all functions, or a map of function to grid.

    Returns
    -------
    Module
        Its `origin` has the target, the toolchain and its version, the options and the SHA-256 of
        each source.

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
        The compiler has warnings, or a device's compiler may refuse the source: it calls undeclared
        functions of extensions. With the options ``--werror`` and ``--strict`` this is a
        CompileError.

    Examples
    --------
    >>> source = "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }"
    >>> module = devmod.compile(source, "opencl")  # doctest: +SKIP
    """
    try:
        parsed_target = Target.parse(target)
    except FormatError:
        if isinstance(source, str) and source.partition(" ")[0] in KINDS:
            raise FormatError(
                f"the source is {source!r}, and the target is none: devmod.compile(source, {source!r}) takes the source first, "
                "a str with its text or a pathlib.Path",
                kind=source.partition(" ")[0],
                argument="target",
            ) from None
        raise
    with shared_scan():
        # The look-up raises the error of a miss.
        spec = find_spec(parsed_target.kind) or lookup("devmod.targets", parsed_target.kind)
        if spec.kind == PROGRAM:
            raise CompileError(
                "programs are not compiled: devmod.program makes one from its kernels", kind=PROGRAM
            )
        if not spec.compiler:
            raise CompileError(
                f"this release of devmod has no compiler for {spec.kind}. A payload from another compiler can be wrapped: "
                f"devmod.create_with_fallback({spec.kind!r}, code, fmt, fmap), with fmt one of {', '.join(spec.formats)}",
                kind=spec.kind,
            )
        missing = "its compiler" if spec.build_extra else "devmod-targets"
        install = (missing, spec.build_distribution)
        subject = f"{spec.kind} cannot be compiled here"
        compilation = _import_wheel(
            "devmod_targets.compilation", subject, *_PACKAGES, install=install, kind=spec.kind
        )
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
            shared_memory=shared_memory,
            aliases=aliases,
            subgroup=subgroup,
            tune=tune,
            constraints=constraints,
            sizes=sizes,
            grid=grid,
        )
        return module


def build(manifest: Path = ".", **options: Any) -> Any:
    """Build the kernels of a manifest into one file, as ``devmod build`` does.

    Parameters
    ----------
    manifest
        The manifest, or its folder.
    options
        Those of `devmod_targets.build.build.build_manifest`, which has the result and the errors
        too.

    Raises
    ------
    ToolchainNotFoundError
        devmod-targets is not installed.
    """
    module = _import_wheel(
        "devmod_targets.build.build", "nothing can be built here", *_PACKAGES, install=_BUILD
    )
    return module.build_manifest(manifest, **options)


def program(
    name: str,
    kernels: Module,
    *,
    steps: Iterable[Any],
    inputs: Iterable[str] = (),
    outputs: Iterable[str] = (),
    updates: Iterable[str] = (),
    temporaries: Iterable[str] = (),
    constants: Iterable[str] = (),
    states: Iterable[str] = (),
    samplers: Iterable[str] = (),
    requires: Iterable[str] = (),
    backward: str | None = None,
) -> Module:
    """Make a program: a function whose body is a list of launches, with named shapes, which a file
    holds as data.

    Parameters
    ----------
    name
        The program's name. A program of that name in `kernels` is replaced.
    kernels
        The kernels, as `devmod.bundle`, `devmod.build` or `devmod.load` returns them, or with
        programs and constants.
    steps
        The launches in order, each a call as text, such as ``"scale(x=x, y=y,
        threads=rows*columns)"``, or a `devmod.step`. The argument ``x.view(uint32)`` is the memory
        of `x` as one dimension of another type. A step may call a program of `kernels`, whose steps
        then stand in its place. A `devmod.repeat` is steps that run several times.
    inputs
        What a call gives: ``"x: float32[rows, columns]"``, the image ``"picture: rgba8unorm[height,
        width]"``, the scalar ``"epsilon: float32 = 1e-5"``.
    outputs
        What a call returns. Their shapes follow from those of the inputs, the updates and the
        constants. With ``= 0`` an array begins cleared, also one that the call gives.
    updates
        Arrays that a call gives, and that the program reads and writes.
    temporaries
        Arrays of the call's own. With ``= 0`` they begin cleared.
    constants
        Arrays of a `devmod.const_loader` in `kernels`, by name.
    states
        Arrays that last from call to call: ``"cache: float16[128, 64] = 0"``, or with the name of a
        constant in place of 0. ``s = f.state()`` makes them, and ``f(x, state=s)`` reads and writes
        them.
    samplers
        ``"linear: linear clamp"``: the name, the filter and the address mode, as in
        `Device.sampler`.
    requires
        Comparisons of shapes and scalars, such as ``"columns % 4 == 0"``, that a call must meet.
    backward
        The program of the file that computes the gradients.

    Returns
    -------
    Module
        A bundle of the programs, the kernels and the constants: `devmod.save` writes all of them.

    Raises
    ------
    FormatError
        A declaration or a step is invalid, or a kernel does not take what a step gives. The message
        names the program, the step and the argument.
    ToolchainNotFoundError
        devmod-targets is not installed.
    """
    declared = {
        "inputs": inputs,
        "outputs": outputs,
        "updates": updates,
        "temporaries": temporaries,
        "constants": constants,
        "states": states,
        "samplers": samplers,
        "requires": requires,
    }
    module: Module = _programs().make_program(name, kernels, steps, declared, backward)
    return module


def step(
    kernel: str, /, *, grid: Any = None, threads: Any = None, block: Any = None, **arguments: Any
) -> Any:
    """Return one launch of a program, as its text has it: ``devmod.step("scale", x="x", factor=0.5,
    threads="rows * columns")``.

    Parameters
    ----------
    kernel
        The kernel, or a program.
    grid, threads, block
        As in a call: an int, an expression as text, or up to three of them.
    arguments
        The arguments by name: a name, a view such as ``"x.view(uint32)"`` or an expression as text,
        or a number.

    Raises
    ------
    FormatError
        A value is invalid.
    ToolchainNotFoundError
        devmod-targets is not installed.
    """
    return _programs().make_step(
        kernel, arguments, {"grid": grid, "threads": threads, "block": block}
    )


def repeat(count: Any, name: str, steps: Any) -> Any:
    """Return steps of a program that run several times: ``devmod.repeat("length", "t", ["cell(x=x,
    state=s, t=t, threads=n)"])``.

    Parameters
    ----------
    count
        The number of turns: an int, or an expression of lengths and integer inputs as text.
    name
        The name of the number of the turn, from 0. Arguments of the steps may have it, in
        expressions too. Launches are the same in each turn.
    steps
        The steps, as for `devmod.program`.

    Raises
    ------
    FormatError
        A value is invalid.
    ToolchainNotFoundError
        devmod-targets is not installed.
    """
    return _programs().make_repeat(count, name, steps)


def _programs() -> Any:
    return _import_wheel(
        "devmod_targets.programs", "no program can be made here", *_PACKAGES, install=_BUILD
    )
