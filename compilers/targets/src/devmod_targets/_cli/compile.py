"""`devmod compile`: compile sources for targets into one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

import devmod
from devmod import Target
from devmod.backend import detect_form, find_spec
from devmod.commands import (
    STDIN,
    STDOUT,
    complete_kind,
    debug_option,
    echo,
    print_table,
    progress,
    size,
    standard_input,
    write_standard_output,
)
from devmod.errors import CompileError
from devmod_targets._compilers import (
    MAIN_SYMBOLS,
    architecture_problem,
    chosen_sources,
    languages_of,
    other_choice,
    owner_of,
)
from devmod_targets._groups import grouped
from devmod_targets._interfaces import SharedDefaults
from devmod_targets.authoring import decode_source
from devmod_targets.build.matrix import describe_languages, suffix_of, variants
from devmod_targets.build.options import OPTIONS
from devmod_targets.compilation import left_out_of, validation_of
from devmod_targets.spelling import in_shell
from devmod_targets.writable import check_writable, noting_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from devmod import TargetSpec

    Command = Callable[..., None]
    _Sources = tuple[Path, ...]

#: The kind, or the file, of a line.
_MARKS = ((r"^([^:\n]+): ", "name"),)


def _compile_options(command: Command) -> Command:
    """Decorate a command with the options of `devmod.compile`."""
    for name, option in reversed(OPTIONS.items()):
        type_: Any = option.type
        if option.metavar == "FOLDER":
            type_ = click.Path()  # for the completion of the shell
        decorate = click.option(
            *option.flags,
            name,
            type=type_,
            multiple=option.multiple,
            metavar=option.metavar,
            help=option.help,
        )
        command = decorate(command)
    return command


class _Target(click.types.StringParamType):
    """The text of a target. The error for a command without one has examples."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return what follows "Missing option"."""
        return 'Give the kind to compile for, such as -t opencl or -t "cuda -arch=sm_90"'


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
    type=_Target(),
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
@_compile_options
@click.option("--werror", is_flag=True, help="Make each warning an error.")
@click.option(
    "--strict",
    is_flag=True,
    help="Make an error of what a device's compiler may refuse, and of a source that no validator checked.",
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
    help="Write the file also if some compiles, or some kernels of OpenCL C for Vulkan, fail. The exit status is 1 all the same.",
)
@click.option(
    "-q", "--quiet", is_flag=True, help="Print nothing if there is no error and no warning."
)
@debug_option
@in_shell
def command(
    sources: _Sources,
    targets: tuple[str, ...],
    output: Path | None,
    werror: bool,
    strict: bool,
    compress: str | None,
    with_sources: bool,
    mixed: bool,
    partial: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Compile each SOURCE for the targets that take its language, into one file. No device, driver
    or runtime is needed.

    SOURCE is a file, or - for standard input.
    """
    within = ""
    if output is None:
        output = _default_output(sources[0])
        within = os.curdir  # a file in the current folder may be a stranger's link
    _check_overwrites(sources, output)
    if compress or with_sources:
        _check_bundle(output)
    flags = {"--werror": werror, "--strict": strict, "--partial": partial}
    arguments = _arguments(given, flags, shared=len(sources) > 1)
    assignments = assign(sources, targets, arguments["language"])
    compiles = []
    for each in assignments:
        for target in variants(each.target):
            compiles.append((each, target))
    _check_output(output, len(compiles))
    _check_architectures(sources, assignments)

    with noting_interrupts(*_files(output)), progress(quiet=quiet) as show:
        built, failures = _compile(sources, compiles, arguments, show)
        modules = [module for _, module in built]
        _check_names(sources, built)
        failure = None
        incomplete = _incomplete(sources, built)
        if failures or incomplete:
            failure = _failure(failures, incomplete, len(modules), output if partial else None)
            if not (partial and modules):
                raise failure
        else:
            _check_used(arguments)
        root = modules[0] if len(modules) == 1 else devmod.bundle(*modules, mixed=mixed)
        options: _Arguments = {"compress": compress, "with_sources": with_sources}
        if str(output) == STDOUT:
            write_standard_output(devmod.dumps(root, **options))
        elif _is_bundle(output):
            devmod.save(root, output, **options, within=within)
        else:
            _write_payload(root, output)

    if not quiet and str(output) != STDOUT:
        _print_built(built)
        if arguments["name"] is None:
            _print_main_notes(sources, built)
        echo(f"{output}: {size(output.stat().st_size)}", marks=_MARKS)
    if failure is not None:
        raise failure


def _default_output(source: Path) -> Path:
    """Return the file that is written for a first source."""
    if str(source) == STDIN:
        raise click.UsageError(
            "the source is standard input, so the file to write needs a name: -o FILE, or -o - for standard output"
        )
    return Path(source.stem + ".devmod")


def _check_bundle(output: Path) -> None:
    """Raise UsageError for an output that is a raw payload."""
    if not _is_bundle(output):
        raise click.UsageError(
            f"--compress and --with-sources are for files that end in .devmod, and {output} is a raw payload"
        )


def _check_output(output: Path, count: int) -> None:
    """Raise an error for an output that cannot be written, or not with so many payloads."""
    if not _is_bundle(output) and count > 1:
        raise click.UsageError(
            f"{output} holds one raw payload, and this is {count}; choose a name that ends in .devmod"
        )
    if str(output) != STDOUT:
        check_writable(output)


def _is_bundle(output: Path) -> bool:
    """Return whether the output is a file of devmod, and no raw payload."""
    return str(output) == STDOUT or output.suffix.lower() == ".devmod"


def _check_overwrites(sources: _Sources, output: Path) -> None:
    """Raise UsageError for an output that is a source."""
    if str(output) == STDOUT or not output.exists():
        return
    for source in sources:
        if source.exists() and output.samefile(source):
            raise click.UsageError(f"{output} is a source; writing to it would overwrite it")


def _arguments(given: _Arguments, flags: dict[str, bool], *, shared: bool) -> _Arguments:
    """Return the arguments of `devmod.compile`.

    Parameters
    ----------
    given
        The values of the command line, by the name of the option.
    flags
        Whether each option of devmod itself is given.
    shared
        Whether there are several sources. Each then takes the defaults that are for its functions.

    Raises
    ------
    click.UsageError
        A value is invalid, or is for one source.
    """
    try:
        arguments = {name: option.parse(given[name]) for name, option in OPTIONS.items()}
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    arguments["options"] += tuple(name for name, is_given in flags.items() if is_given)
    if not shared:
        return arguments

    if arguments["fmap"] or arguments["name_expressions"]:
        raise click.UsageError(
            "--function and --name-expression are for one source; compile the sources separately, and join the files: devmod bundle"
        )
    for name, option in OPTIONS.items():
        if option.keyed_by and isinstance(arguments[name], dict):
            arguments[name] = SharedDefaults(arguments[name])
    return arguments


#: Arguments of `devmod.compile`.
_Arguments = dict[str, Any]
_Built: TypeAlias = "list[tuple[Assignment, devmod.Module]]"
_Failures = list[tuple[str, CompileError]]


def _compile(
    sources: _Sources,
    compiles: Iterable[tuple[Assignment, Target]],
    arguments: _Arguments,
    show: Callable[[str], None],
) -> tuple[_Built, _Failures]:
    """Return the modules, and the source and the target of each compile that failed, with the
    error.
    """
    texts = _read_sources(sources)
    built = []
    failures = []
    for each, target in compiles:
        subject = f"{sources[each.source]} for {target}"
        show(subject)
        own = arguments | {"language": each.language}
        try:
            built.append((each, devmod.compile(texts[each.source], target, **own)))
        except CompileError as error:
            failures.append((subject, error))
    return built, failures


def _print_built(built: _Built) -> None:
    """Print a line for each source and target: the kind, the formats, the functions and the
    validator.
    """
    shown: set[str] = set()
    rows = []
    lines = []
    for own in grouped(built).values():
        formats = ", ".join(dict.fromkeys(module.format for module in own))
        found = dict.fromkeys(name for module in own for name in module.functions)
        names = f"{', '.join(found)}{_validation(own[0], shown)}"
        rows.append((own[0].kind, formats, names))
        lines.append(f"{own[0].kind} {formats}: {names}")
    if len(lines) == 1:
        echo(lines[0], marks=_MARKS)
    else:
        print_table(("kind", "format", "functions"), rows, plain=lines)


def _incomplete(sources: _Sources, built: _Built) -> list[str]:
    """Return a line for each compile that left out kernels: its source and target, and the kernels
    with their places.
    """
    lines = []
    for each, module in built:
        left_out = left_out_of(module)
        if left_out:
            names = [f"{name!r} ({place})" for name, place in left_out.items()]
            lines.append(f"{sources[each.source]} for {each.target}: without {', '.join(names)}")
    return lines


def _failure(
    failures: Sequence[tuple[str, CompileError]],
    incomplete: Sequence[str],
    compiled: int,
    output: Path | None,
) -> CompileError:
    """Return the error of the compiles that failed, with a line for each; the compile's own if all
    have the same.

    Parameters
    ----------
    failures
        The source and the target of each, and the error.
    incomplete
        The same of the compiles that left out kernels, as lines.
    compiled
        The number of the others.
    output
        The file that contains the others; None if it is not written.
    """
    total = len(failures) + compiled
    if not failures:
        text = (
            f"{len(incomplete)} of {total} compiles left out kernels, and {output} has the others:"
        )
        return CompileError("\n  ".join([text, *incomplete]))
    first = failures[0][1]
    if not compiled and len({(str(error), error.log) for _, error in failures}) == 1:
        return first
    count = f"{len(failures)} of {total} compiles failed"
    if not compiled:
        state = "nothing was written"
    elif output:
        state = f"{output} has the others"
    else:
        state = "nothing was written; --partial keeps the others"
    lines = [f"{subject}: {' '.join(str(error).splitlines())}" for subject, error in failures]
    lines += incomplete
    return CompileError("\n  ".join([f"{count}, and {state}:", *lines]), kind=first.kind)


def _check_used(arguments: _Arguments) -> None:
    """Raise UsageError for a default of several sources that is for none of their functions."""
    for name, option in OPTIONS.items():
        value = arguments[name]
        if isinstance(value, SharedDefaults) and value.unused:
            raise click.UsageError(
                f"{option.flags[0]} {next(iter(value.unused))}=: no source has this {option.keyed_by}"
            )


def _print_main_notes(sources: _Sources, built: _Built) -> None:
    """Print a note for each entry point whose function has the name of its file: the other sources
    may have another name for it.
    """
    if len(sources) == 1:
        return
    notes: dict[str, None] = {}
    for each, module in built:
        for name, info in module.functions.items():
            if name != info.name and info.name in MAIN_SYMBOLS:
                text = f"the entry point 'main' of {sources[each.source]} is the function {name!r}, after the file"
                notes[f"{text}. For another name: --name NAME"] = None
    for text in notes:
        echo(f"devmod: note: {text}", err=True)


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
    if validator:
        return f" (validated by {validator})"
    return ""


def _files(output: Path) -> list[Path]:
    """Return the files that the command writes: none for standard output, and the metadata beside a
    raw payload.
    """
    if str(output) == STDOUT:
        return []
    if _is_bundle(output):
        return [output]
    return [output, output.with_suffix(".tvm_meta.json")]


def _write_payload(module: devmod.Module, output: Path) -> None:
    """Write a raw payload. Raise UsageError if the suffix is not one of the module's format."""
    spec = find_spec(module.kind)
    if spec is not None and output.suffix[1:].lower() not in spec.suffixes:
        for suffix, fmt in spec.suffixes.items():
            if fmt == module.format:
                raise click.UsageError(
                    f"{output}: {module.kind} has no files of that suffix; choose a name that ends in .devmod, "
                    f"or in .{suffix} for the raw payload"
                )
    module.write_to_file(output)


def _read_sources(sources: _Sources) -> list[Path | str | bytes]:
    """Return the sources for `devmod.compile`. Standard input is text, or SPIR-V according to its
    first bytes.
    """
    result: list[Path | str | bytes] = [*sources]
    places = [index for index, source in enumerate(sources) if str(source) == STDIN]
    if len(places) > 1:
        raise click.UsageError("standard input (-) is given twice as a source")
    for index in places:
        data = standard_input()
        if detect_form(data[:4]) == "spirv":
            result[index] = data
        else:
            result[index] = decode_source(data, "standard input", "")
    return result


def _check_architectures(sources: _Sources, assignments: list[Assignment]) -> None:
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


def _check_names(sources: _Sources, built: Sequence[tuple[Assignment, devmod.Module]]) -> None:
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
    kinds = {}
    for target in targets:
        if target in kinds:
            raise click.UsageError(f"the target {target!r} is given twice")
        kinds[target] = Target.parse(target).kind
    specs = {}
    for kind in kinds.values():
        spec = find_spec(kind)
        if spec is not None:
            specs[kind] = spec
    is_unknown = len(specs) < len(set(kinds.values()))  # compiling reports an unknown kind
    result = []
    if len(sources) * len(targets) == 1 or is_unknown:
        for index in range(len(sources)):
            result += [Assignment(index, target, language) for target in targets]
        return result

    languages = [_own_language(each, len(sources), specs.values(), language) for each in sources]
    taken = _kinds_of_sources(sources, languages, specs)
    for index, own in enumerate(languages):
        for target, kind in kinds.items():
            if kind in taken[index]:
                result.append(Assignment(index, target, own))
    used = {each.target for each in result}
    for target, kind in kinds.items():
        if target not in used:
            raise click.UsageError(
                f"no source is for the target {target!r}: {kind} takes {describe_languages(specs[kind])}. Add a source, or leave it out"
            )
    return result


def _kinds_of_sources(
    sources: Sequence[Path], languages: Sequence[str | None], specs: dict[str, TargetSpec]
) -> list[list[str]]:
    """Return for each source the kinds that compile it. Raise UsageError for one without a kind."""
    names = [own or suffix_of(source.name) for source, own in zip(sources, languages, strict=True)]
    chosen = {kind: chosen_sources(spec, names) for kind, spec in specs.items()}
    result = []
    for index, (source, own, name) in enumerate(zip(sources, languages, names, strict=True)):
        kinds = [kind for kind in specs if chosen[kind][index]]
        # The compiler of the only kind may take a suffix that no kind has.
        if not kinds and len(specs) == 1 and own is None and owner_of(name) is None:
            kinds = list(specs)
        if not kinds:
            other = other_choice(chosen, names, index)
            raise click.UsageError(_no_taker(source, name, own, specs, other))
        result.append(kinds)
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
    if takers and all(language not in names for names in takers):
        return None
    return language


def _no_taker(
    source: Path, name: str, language: str | None, specs: dict[str, TargetSpec], choice: str
) -> str:
    """Return the error for a source that no target compiles. `choice` is why the targets that take
    its language compile another one.
    """
    if choice:
        return f"{source} is for none of the targets: {choice}. Compile it into a file of its own"
    takes = "; ".join(f"{kind} takes {describe_languages(spec)}" for kind, spec in specs.items())
    if str(source) == STDIN and language is None:
        return f"standard input has no suffix, so its language is unknown; give it with --language. {takes}"
    other = owner_of(name)
    if language is not None:
        text = f"no target takes the language {language!r}: {takes}"
        return text if other is None else f"{text}. It is a language of {other.kind}"
    if other is None:
        return (
            f"the suffix of {source} does not show its language; give it with --language. {takes}"
        )
    return f"{source} is {other.languages[name]}, which none of the targets takes: {takes}. Add -t {other.kind}, or give --language"
