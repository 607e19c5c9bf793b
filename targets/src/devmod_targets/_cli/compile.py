"""`devmod compile`: compile sources for targets into one file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import devmod
from devmod import FunctionInfo, Local, Target
from devmod.backend import detect_form, find_spec
from devmod.commands import (
    STDIN,
    STDOUT,
    complete_kind,
    debug_option,
    echo,
    progress,
    size,
    standard_input,
    write_standard_output,
)
from devmod.errors import CompileError, FormatError
from devmod_targets._compilers import (
    MAIN_SYMBOLS,
    architecture_problem,
    chosen_sources,
    languages_of,
    other_choice,
    owner_of,
)
from devmod_targets._spelling import in_shell
from devmod_targets._writable import check_writable, noting_interrupts
from devmod_targets.authoring import decode_source
from devmod_targets.build.matrix import describe_languages, suffix_of, variants
from devmod_targets.compilation import SharedDefaults, validation_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from devmod import TargetSpec


@click.command(
    "compile",
    short_help="Compile sources for targets into one file.",
    epilog="""\b
Examples:
  devmod compile k.cl -t opencl -o k.devmod
  devmod compile matmul.cl -t opencl -D TILE=8 -I include --option=-cl-fast-relaxed-math -o matmul.devmod
  devmod compile reduce.cl -t opencl --block 256 --local scratch=4/thread
  devmod compile matvec.comp -t vulkan --alias data_a=data_a_packed16,data_a_packed32 --subgroup 32
  devmod compile scale.slang -t vulkan --name-expression 'scale<float>' --name-expression 'scale<half>'
  devmod compile softmax.cl blur.cl -t opencl -o kernels.devmod    # several sources, one file
  devmod compile k.cl k.comp -t opencl -t vulkan    # each source for the targets that take its language
  devmod compile k.cl -t opencl -o out/k.cl                        # the raw payload and its metadata
  devmod compile k.ptx -t cuda --function 'scale(handle, float32, int32)'   # a binary of another compiler
  devmod compile - -t opencl -o - < k.cl > k.devmod                # standard input and output
""",
)
@click.argument(
    "sources",
    nargs=-1,
    required=True,
    metavar="SOURCE...",
    type=click.Path(path_type=Path, allow_dash=True),
)
@click.option(
    "-t",
    "--target",
    "targets",
    multiple=True,
    required=True,
    metavar="TARGET",
    shell_complete=complete_kind("devmod.targets"),
    help='A target, such as opencl or "cuda -arch=sm_90". Each source is for the targets that take its language.',
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The file to write, or - for standard output. [default: the first source's name with .devmod, in this folder] "
    "With another suffix than .devmod, the raw payload and a metadata file beside it are written.",
)
@click.option(
    "--language",
    metavar="LANGUAGE",
    help="The language of sources whose suffix shows no language of a target, such as GLSL; of one source in any case. "
    "[default: by the suffix, or the only target's first]",
)
@click.option(
    "-D", "--define", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a macro."
)
@click.option(
    "-I", "--include", multiple=True, metavar="FOLDER", help="A folder to search for includes."
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="OPTION",
    help="An option for the backend's compiler, as in --option=-cl-fast-relaxed-math.",
)
@click.option("--werror", is_flag=True, help="Make each warning an error.")
@click.option(
    "--strict",
    is_flag=True,
    help="Make an error of what a device's compiler may refuse, and of a source that no validator checked.",
)
@click.option(
    "--name",
    help="The function's name of a shader whose entry point is `main`. [default: the source's stem]",
)
@click.option(
    "--name-expression",
    "name_expressions",
    multiple=True,
    metavar="EXPRESSION",
    help="An instance of a C++ template or of a generic function of Slang, as in --name-expression 'scale<float>'.",
)
@click.option(
    "--block",
    "blocks",
    multiple=True,
    metavar="[FUNCTION=]X[,Y[,Z]]",
    help="The default block of threads, for calls that give none. Without FUNCTION, of all functions.",
)
@click.option(
    "--local",
    "locals_",
    multiple=True,
    metavar="[FUNCTION.]PARAMETER=BYTES[/thread]",
    help="The default size of a parameter of local memory: in all, or for each thread of a block.",
)
@click.option(
    "--shared-memory",
    "shared_memory",
    multiple=True,
    metavar="[FUNCTION=]BYTES[/thread]",
    help="The default dynamic shared memory of a block, for calls that give none: in all, or for each thread.",
)
@click.option(
    "--alias",
    "aliases",
    multiple=True,
    metavar="NAME=NAME[,NAME...]",
    help="A parameter's name, and the names in the sources that it replaces.",
)
@click.option(
    "--subgroup",
    type=int,
    metavar="THREADS",
    help="The threads of a subgroup with which the functions must run.",
)
@click.option(
    "--function",
    "functions",
    multiple=True,
    metavar="NAME[=SYMBOL](TYPE,...)",
    help="A function and the types of its arguments, as in --function 'scale(handle, float32, int32)'. For sources that "
    "contain no types, such as PTX, where it also selects the functions.",
)
@click.option(
    "--compress",
    metavar="METHOD",
    help='Compress payloads: "zstd", or "zstd:19" for another level than 3.',
)
@click.option(
    "--with-sources", is_flag=True, help="Add the sources of binary payloads to the file."
)
@click.option(
    "--mixed",
    is_flag=True,
    help="Allow candidates that take different arguments in a function of one name.",
)
@click.option(
    "--partial",
    is_flag=True,
    help="Write the file also if some compiles fail. The exit status is 1 all the same.",
)
@click.option(
    "-q", "--quiet", is_flag=True, help="Print nothing if there is no error and no warning."
)
@debug_option
@in_shell
def command(
    sources: tuple[Path, ...],
    targets: tuple[str, ...],
    output: Path | None,
    language: str | None,
    defines: tuple[str, ...],
    include: tuple[str, ...],
    options: tuple[str, ...],
    werror: bool,
    strict: bool,
    name: str | None,
    name_expressions: tuple[str, ...],
    blocks: tuple[str, ...],
    locals_: tuple[str, ...],
    shared_memory: tuple[str, ...],
    aliases: tuple[str, ...],
    subgroup: int | None,
    functions: tuple[str, ...],
    compress: str | None,
    with_sources: bool,
    mixed: bool,
    partial: bool,
    quiet: bool,
) -> None:
    """Compile each SOURCE for the targets that take its language, into one file. No device, driver
    or runtime is needed.

    SOURCE is a file, or - for standard input.
    """
    within = "" if output else os.curdir  # a file in the current folder may be a stranger's link
    if output is None and str(sources[0]) == STDIN:
        raise click.UsageError(
            "the source is standard input, so the file to write needs a name: -o FILE, or -o - for standard output"
        )
    output = output or Path(sources[0].stem + ".devmod")
    to_stdout = str(output) == STDOUT
    if not to_stdout and any(
        output.exists() and source.exists() and output.samefile(source) for source in sources
    ):
        raise click.UsageError(f"{output} is a source; writing to it would overwrite it")
    is_bundle = to_stdout or output.suffix.lower() == ".devmod"
    if not is_bundle and (compress or with_sources):
        raise click.UsageError(
            f"--compress and --with-sources are for files that end in .devmod, and {output} is a raw payload"
        )
    macros = {
        key: value if mark else None
        for key, mark, value in (define.partition("=") for define in defines)
    }
    block, local = parse_blocks(blocks), parse_locals(locals_)
    shared = parse_shared_memory(shared_memory)
    fmap = parse_functions(functions)
    if len(sources) > 1:
        if fmap or name_expressions:
            raise click.UsageError(
                "--function and --name-expression are for one source; compile the sources separately, and join the files: devmod bundle"
            )
        if isinstance(block, dict):
            block = SharedDefaults(block)
        if local is not None:
            local = SharedDefaults(local)
        if isinstance(shared, dict):
            shared = SharedDefaults(shared)
    assignments = assign(sources, targets, language)
    compiles = [(each, target) for each in assignments for target in variants(each.target)]
    if not is_bundle and len(compiles) > 1:
        raise click.UsageError(
            f"{output} holds one raw payload, and this is {len(compiles)}; choose a name that ends in .devmod"
        )
    if not to_stdout:
        check_writable(output)
    _check_architectures(sources, assignments)
    with noting_interrupts(*_files(output)), progress(quiet=quiet) as show:
        texts = _read_sources(sources)
        built: list[tuple[Assignment, devmod.Module]] = []
        failures: list[tuple[str, CompileError]] = []
        for each, target in compiles:
            show(f"{sources[each.source]} for {target}")
            try:
                module = devmod.compile(
                    texts[each.source],
                    target,
                    name=name,
                    language=each.language,
                    fmap=fmap,
                    options=(*options, *["--werror"] * werror, *["--strict"] * strict),
                    defines=macros,
                    include=include,
                    name_expressions=name_expressions,
                    block=block,
                    local=local,
                    shared_memory=shared,
                    aliases=parse_aliases(aliases),
                    subgroup=subgroup,
                )
            except CompileError as error:
                failures.append((f"{sources[each.source]} for {target}", error))
            else:
                built.append((each, module))
        modules = [module for _, module in built]
        _check_names(sources, built)
        failure = (
            _failure(failures, len(modules), output if partial else None) if failures else None
        )
        if failure is not None and not (partial and modules):
            raise failure
        if failure is None:
            _check_used(block, local, shared)
        root = modules[0] if len(modules) == 1 else devmod.bundle(*modules, mixed=mixed)
        if to_stdout:
            write_standard_output(devmod.dumps(root, compress=compress, with_sources=with_sources))
        elif is_bundle:
            devmod.save(root, output, compress=compress, with_sources=with_sources, within=within)
        else:
            _write_payload(root, output)
    if not quiet and not to_stdout:
        shown: set[str] = set()
        for each in dict.fromkeys(each for each, _ in built):
            own = [module for of, module in built if of == each]
            formats = ", ".join(dict.fromkeys(module.format for module in own))
            names = dict.fromkeys(name for module in own for name in module.functions)
            echo(f"{own[0].kind} {formats}: {', '.join(names)}{_validation(own[0], shown)}")
        if len(sources) > 1 and name is None:
            for text in dict.fromkeys(_main_notes(sources, built)):
                echo(f"devmod: note: {text}", err=True)
        echo(f"{output}: {size(output.stat().st_size)}")
    if failure is not None:
        raise failure


def _failure(
    failures: Sequence[tuple[str, CompileError]], compiled: int, output: Path | None
) -> CompileError:
    """Return the error of the compiles that failed, with a line for each; the compile's own if all
    have the same.

    Parameters
    ----------
    failures
        The source and the target of each, and the error.
    compiled
        The number of the others.
    output
        The file that contains the others; None if it is not written.
    """
    first = failures[0][1]
    if not compiled and len({(str(error), error.log) for _, error in failures}) == 1:
        return first
    count = f"{len(failures)} of {len(failures) + compiled} compiles failed"
    hint = "; --partial keeps the others" if compiled else ""
    state = f"{output} has the others" if output and compiled else f"nothing was written{hint}"
    lines = [f"  {subject}: {' '.join(str(error).splitlines())}" for subject, error in failures]
    return CompileError("\n".join([f"{count}, and {state}:", *lines]), kind=first.kind)


def _check_used(block: object, local: object, shared_memory: object) -> None:
    """Raise UsageError for a default of several sources that is for none of their functions."""
    for option, given, what in (
        ("--block", block, "function"),
        ("--shared-memory", shared_memory, "function"),
        ("--local", local, "parameter of local memory"),
    ):
        if isinstance(given, SharedDefaults) and given.unused:
            raise click.UsageError(
                f"{option} {next(iter(given.unused))}=: no source has this {what}"
            )


def _main_notes(
    sources: tuple[Path, ...], built: Sequence[tuple[Assignment, devmod.Module]]
) -> Iterator[str]:
    """Yield a sentence for each entry point whose function has the name of its file: the other
    sources may have another name for it.
    """
    for each, module in built:
        for name, info in module.functions.items():
            if name != info.name and info.name in MAIN_SYMBOLS:
                source = sources[each.source]
                yield f"the entry point 'main' of {source} is the function {name!r}, after the file. For another name: --name NAME"


def _validation(module: devmod.Module, shown: set[str]) -> str:
    """Return the part of the output about the validator of a module; "" if the compiler is one.

    `shown` gets the reason for a missing validator, which is printed once.
    """
    validator, unvalidated = validation_of(module)
    if unvalidated in shown:
        return " (not validated, as above)"
    if unvalidated:
        shown.add(unvalidated)
        return f" (not validated: {unvalidated})"
    return f" (validated by {validator})" if validator else ""


def _files(output: Path) -> list[Path]:
    """Return the files that the command writes: none for standard output, and the metadata beside a
    raw payload.
    """
    if str(output) == STDOUT:
        return []
    return (
        [output]
        if output.suffix.lower() == ".devmod"
        else [output, output.with_suffix(".tvm_meta.json")]
    )


def _write_payload(module: devmod.Module, output: Path) -> None:
    """Write a raw payload. Raise UsageError if the suffix is not one of the module's format."""
    spec = find_spec(module.kind)
    suffixes = (
        [suffix for suffix, fmt in spec.suffixes.items() if fmt == module.format]
        if spec is not None
        else []
    )
    if spec is not None and suffixes and output.suffix[1:].lower() not in spec.suffixes:
        raise click.UsageError(
            f"{output}: {module.kind} has no files of that suffix; choose a name that ends in .devmod, "
            f"or in .{suffixes[0]} for the raw payload"
        )
    module.write_to_file(output)


def _read_sources(sources: tuple[Path, ...]) -> list[Path | str | bytes]:
    """Return the sources for `devmod.compile`. Standard input is text, or SPIR-V according to its
    first bytes.
    """
    if sum(str(source) == STDIN for source in sources) > 1:
        raise click.UsageError("standard input (-) is given twice as a source")
    data = standard_input() if STDIN in map(str, sources) else b""
    given = data if detect_form(data[:4]) == "spirv" else decode_source(data, "standard input", "")
    return [given if str(source) == STDIN else source for source in sources]


def _check_architectures(sources: tuple[Path, ...], assignments: list[Assignment]) -> None:
    """Raise CompileError for a target that must name an architecture, before the first of several
    sources is compiled.
    """
    for each in assignments:
        target = Target.parse(each.target)
        spec = find_spec(target.kind)
        if spec is not None:
            language = each.language or suffix_of(sources[each.source].name)
            problem = architecture_problem(spec, target, spec.languages.get(language, language))
            if problem:
                raise CompileError(problem, kind=spec.kind)


def _check_names(
    sources: tuple[Path, ...], built: Sequence[tuple[Assignment, devmod.Module]]
) -> None:
    """Raise UsageError for functions with equal names: a look-up would only find the first of a
    target.
    """
    owners: dict[tuple[str, str], int] = {}
    for each, module in built:
        for name in module.functions:
            owner = owners.setdefault((each.target, name), each.source)
            if owner != each.source:
                raise click.UsageError(
                    f"{sources[owner]} and {sources[each.source]} both have a function {name!r}; rename one, or write two files"
                )


# -- Which of the targets of `devmod compile` each source is compiled for.


class Assignment(NamedTuple):
    """A source, by its index, a target that takes it, and the language for `devmod.compile`; None
    for that of its suffix.
    """

    source: int
    target: str
    language: str | None


def assign(
    sources: Sequence[Path], targets: Sequence[str], language: str | None
) -> list[Assignment]:
    """Return each source with each target that takes its language, in the order of the sources,
    then of the targets.

    One source and one target belong together: the compiler checks the language.

    Raises
    ------
    click.UsageError
        A target is given twice, no target takes a source, or no source is for a target.
    """
    repeated = next((target for target in targets if targets.count(target) > 1), None)
    if repeated is not None:
        raise click.UsageError(f"the target {repeated!r} is given twice")
    kinds = [Target.parse(target).kind for target in targets]
    specs = {kind: spec for kind in kinds if (spec := find_spec(kind)) is not None}
    if len(sources) * len(targets) == 1 or len(specs) < len(
        set(kinds)
    ):  # compiling reports an unknown kind
        return [
            Assignment(index, target, language)
            for index in range(len(sources))
            for target in targets
        ]
    result = []
    languages = [
        _own_language(source, len(sources), specs.values(), language) for source in sources
    ]
    names = [own or suffix_of(source.name) for source, own in zip(sources, languages, strict=True)]
    chosen = {kind: chosen_sources(spec, names) for kind, spec in specs.items()}
    for index, (source, own, name) in enumerate(zip(sources, languages, names, strict=True)):
        takers = [
            target for target, kind in zip(targets, kinds, strict=True) if chosen[kind][index]
        ]
        if not takers and len(specs) == 1 and own is None and owner_of(name) is None:
            takers = list(targets)
        if not takers:
            other = other_choice(chosen, names, index)
            raise click.UsageError(
                f"{source} is for none of the targets: {other}. Compile it into a file of its own"
                if other
                else _no_taker(source, name, own, specs)
            )
        result += [Assignment(index, target, own) for target in takers]
    for target, kind in zip(targets, kinds, strict=True):
        if all(each.target != target for each in result):
            raise click.UsageError(
                f"no source is for the target {target!r}: {kind} takes {describe_languages(specs[kind])}. Add a source, or leave it out"
            )
    return result


def _own_language(
    source: Path, count: int, specs: Iterable[TargetSpec], language: str | None
) -> str | None:
    """Return the language of --language where it is for a source, else None.

    Among several sources, a suffix goes before it if it belongs to a target that does not take the
    language.
    """
    if language is None or count == 1:
        return language
    takers = [languages_of(spec) for spec in specs if suffix_of(source.name) in spec.languages]
    return None if takers and all(language not in names for names in takers) else language


def _no_taker(source: Path, name: str, language: str | None, specs: dict[str, TargetSpec]) -> str:
    takes = "; ".join(f"{kind} takes {describe_languages(spec)}" for kind, spec in specs.items())
    if str(source) == STDIN and language is None:
        return f"standard input has no suffix, so its language is unknown; give it with --language. {takes}"
    other = owner_of(name)
    if language is not None:
        what = "" if other is None else f". It is a language of {other.kind}"
        return f"no target takes the language {language!r}: {takes}{what}"
    if other is None:
        return (
            f"the suffix of {source} does not show its language; give it with --language. {takes}"
        )
    return f"{source} is {other.languages[name]}, which none of the targets takes: {takes}. Add -t {other.kind}, or give --language"


# -- The options --block, --local, --alias and --function of `devmod compile`.


#: ``name(types)`` or ``name=symbol(types)``. The name of an overload contains brackets and commas.
_FUNCTION = re.compile(r"(?:(?P<name>.+)=)?(?P<symbol>[^=()]+)\((?P<types>[^()]*)\)")


def parse_blocks(texts: Sequence[str]) -> tuple[int, ...] | dict[str, tuple[int, ...]] | None:
    """Return the argument `block` of `devmod.compile`.

    Raises
    ------
    click.UsageError
        A text is invalid, or contradicts another.
    """
    result: dict[str, tuple[int, ...]] = {}
    for text in texts:
        function, mark, numbers = text.rpartition("=")
        try:
            dims = tuple(int(number) for number in numbers.split(","))
        except ValueError:
            dims = ()
        if (mark and not function) or not 1 <= len(dims) <= 3 or min(dims) < 1:
            raise click.UsageError(
                f"--block {text}: expected threads in x, y, z, such as 64, 16,16 or blur=16,16"
            )
        _add_default("--block", result, function, dims)
    return result.get("", result or None)


def _add_default(option: str, result: dict[str, Any], function: str, value: object) -> None:
    """Add the default of a function, or of all ("").

    Raises
    ------
    click.UsageError
        There is one already.
    """
    if function in result:
        of = f"the function {function!r}" if function else "all functions"
        raise click.UsageError(f"{option} is given twice for {of}")
    result[function] = value
    if "" in result and len(result) > 1:
        raise click.UsageError(
            f"{option} is given for all functions and for one; give it for each function"
        )


def parse_locals(texts: Sequence[str]) -> dict[str, Local | dict[str, Local]] | None:
    """Return the argument `local` of `devmod.compile`.

    Raises
    ------
    click.UsageError
        A text is invalid, or a name is given twice.
    """
    result: dict[str, Local | dict[str, Local]] = {}
    for text in texts:
        names, _, size = text.rpartition("=")
        function, _, parameter = names.rpartition(".")
        number, mark, unit = size.partition("/")
        if (
            not parameter
            or not (number.isascii() and number.isdigit() and 0 < int(number) < 2**63)
            or (mark and unit != "thread")
        ):
            raise click.UsageError(
                f"--local {text}: expected bytes, such as scratch=1024, scratch=4/thread or reduce.scratch=4/thread"
            )
        default = Local(per_thread=int(number)) if mark else Local(int(number))
        group = result.setdefault(function, {}) if function else result
        if not isinstance(group, dict) or parameter in group:
            raise click.UsageError(f"--local {text}: {names} is given twice")
        group[parameter] = default
    return result or None


def parse_shared_memory(texts: Sequence[str]) -> int | Local | dict[str, int | Local] | None:
    """Return the argument `shared_memory` of `devmod.compile`.

    Raises
    ------
    click.UsageError
        A text is invalid, or contradicts another.
    """
    result: dict[str, int | Local] = {}
    for text in texts:
        function, equals, size = text.rpartition("=")
        number, mark, unit = size.partition("/")
        is_count = number.isascii() and number.isdigit() and 0 < int(number) < 2**63
        if not is_count or (mark and unit != "thread") or (equals and not function):
            raise click.UsageError(
                f"--shared-memory {text}: expected bytes, such as 1024, 4/thread or reduce=4/thread"
            )
        default = Local(per_thread=int(number)) if mark else int(number)
        _add_default("--shared-memory", result, function, default)
    return result.get("", result or None)


def parse_aliases(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the argument `aliases` of `devmod.compile`. Raise UsageError for an invalid text."""
    result: dict[str, list[str]] = {}
    for text in texts:
        alias, _, names = text.partition("=")
        parts = names.split(",")
        if not alias or not all(parts):
            raise click.UsageError(
                f"--alias {text}: expected names, such as data_a=data_a_packed16,data_a_packed32"
            )
        result.setdefault(alias, []).extend(parts)
    return result


def parse_functions(texts: Sequence[str]) -> dict[str, FunctionInfo] | None:
    """Return the argument `fmap` of `devmod.compile`.

    Raises
    ------
    click.UsageError
        A text is invalid, or a name is given twice.
    """
    result: dict[str, FunctionInfo] = {}
    for text in texts:
        match = _FUNCTION.fullmatch(text.strip())
        if match is None:
            raise click.UsageError(
                f"--function {text}: expected a name and the types of the arguments, such as 'scale(handle, float32)'"
            )
        types = (
            [each.strip() for each in match["types"].split(",")] if match["types"].strip() else []
        )
        symbol = match["symbol"].strip()
        name = (match["name"] or symbol).strip()
        if name in result:
            raise click.UsageError(f"--function {text}: {name} is given twice")
        try:
            result[name] = FunctionInfo(symbol, types)
        except FormatError as error:
            raise click.UsageError(f"--function {text}: {error}") from None
    return result or None
