"""`devmod inspect`: show the modules of a file and the runtimes to install, or which candidate of
each function a machine gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from operator import itemgetter, methodcaller
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from devmod._formats.index import COMPRESSION, newer_features
from devmod._modules.stored import StoredModule
from devmod.backend import duration_text, walk
from devmod.errors import function_not_found, list_names, pip_install
from devmod.plugins import shared_scan
from devmod.targets import PROGRAM
from devmod_workbench._cli._describe import Description, describe, open_file
from devmod_workbench._cli._known import KNOWN
from devmod_workbench._cli._options import (
    complete_function,
    complete_kind,
    debug_option,
    json_option,
    quiet_drivers,
)
from devmod_workbench._cli._output import echo, echo_all, plugins_at_work, print_json, size

if TYPE_CHECKING:
    from devmod._values.code import Fields, Names
    from devmod_workbench._explain import Explanation

#: The maximum number of functions in a line, and of a program's steps.
_MAX_NAMES = 8
_MAX_STEPS = 24
#: What stands out: the modules, the functions, and what is missing or damaged.
_MARKS = (
    (r"^\s*([^,(\n]+), [\d.]+ [kMG]?B\b", "kind"),
    (r"^\s*(\w+)\(", "name"),
    (r"^\s*(from .*)$", "aside"),
    (r"— runtime: (not installed|excluded by .*)$", "care"),
    (r"( is damaged: )", "bad"),
)
#: The size from which on a file is a large one.
_LARGE = 1 << 20
#: The maximum number of characters of a source in a line.
_MAX_LINE = 1 << 16


@click.command(
    "inspect",
    short_help=KNOWN["inspect"].help,
    epilog="""\b
Examples:
  devmod inspect k.devmod
  devmod inspect k.devmod --json
  devmod inspect k.devmod --verify  # reads all of it, and compares the digests
  devmod inspect k.devmod --source  # with the sources
  devmod inspect - < k.devmod       # standard input
  devmod inspect https://example.com/k.devmod
  devmod inspect k.ptx              # a raw payload; k.tvm_meta.json is beside it
  devmod inspect k.tvmimports       # TVM's imports blob, or a library (.so) that TVM exported
  devmod inspect k.devmod --here    # which candidate of each function runs on this machine, and why
  devmod inspect k.devmod softmax --device vulkan:1    # of one function, on one device
  devmod inspect k.devmod --device cuda:sm_90 --json   # on a device that is not here, as data
  devmod inspect n.devmod normalize --lengths rows=64,columns=32    # the memory of a program's temporaries

\b
Exit status:
  0  done
  1  an error, a damaged function, or with --here or --device a function without a candidate that can run there
""",
)
@click.argument("file", type=click.Path(allow_dash=True))
@click.argument("functions", nargs=-1, metavar="[FUNCTION]...", shell_complete=complete_function)
@click.option(
    "--here",
    is_flag=True,
    help="Show which candidate of each function a call gets on this machine, and why not the others.",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="KIND[:NUMBER|:ARCH]",
    shell_complete=complete_kind("devmod.targets"),
    help="The same for a device of this machine, or for another one's kind and architecture. It may be repeated.",
)
@json_option
@click.option(
    "--verify",
    is_flag=True,
    help="Read every payload, compare it with its digest in the index, and check the launch tags and the programs.",
)
@click.option(
    "--lengths",
    metavar="NAME=NUMBER[,...]",
    help="Show how many bytes the temporaries of a program have for these lengths.",
)
@click.option(
    "--source",
    is_flag=True,
    help="Show the sources of each module, if FILE has them, and payloads that are text.",
)
@debug_option
@click.pass_context
def command(
    context: click.Context,
    file: str,
    functions: Names,
    here: bool,
    devices: Names,
    as_json: bool,
    verify: bool,
    lengths: str | None,
    source: bool,
) -> None:
    """Show the modules in FILE: kinds, functions with signatures, the steps of programs, sizes,
    origins, and the runtime that each needs.

    FILE is a .devmod bundle, also at a URL, a raw payload, TVM's imports blob or a library that TVM
    exported. Standard input (-) is a bundle or an imports blob. Without --verify, --source and a
    policy no digest is compared. No backend is imported: `devmod verify` also runs the kernels.
    `devmod check` says who signed FILE.

    With --here or --device, show for each FUNCTION, or for all, the candidate that a call gets, the
    others that fit, and why each other one is refused. The drivers list their devices, unless
    --device describes one; no payload is loaded or compiled.
    """
    if here or devices:
        if here and devices:
            raise click.UsageError("expected --here or --device, got both")
        if verify or source:
            option = "--verify" if verify else "--source"
            other = "--here" if here else "--device"
            raise click.UsageError(
                f"{option} shows the modules of FILE, and {other} what runs. Give one of them"
            )
        _show_choice(context, file, functions, devices, as_json)
        return
    if lengths is not None:
        _show_temporaries(file, functions, lengths, as_json)
        return
    if functions:
        raise click.UsageError(
            f"FUNCTION {functions[0]!r} needs --here, --device or --lengths: without them all of FILE is shown"
        )
    damaged = _show_file(file, as_json, verify, source)
    if damaged:
        context.exit(1)


def _show_file(file: str, as_json: bool, verify: bool, source: bool) -> list[str]:
    """Show all modules of a file, and what to install. Return the names of the damaged
    functions.
    """
    damaged: list[str] = []
    with shared_scan():  # functions and sources are read during printing
        lines = []

        # Of a large file the first line is printed before the others are known.
        def begin(line: str, count: int | None) -> None:
            if count is not None and count > _LARGE and not as_json:
                echo(line)
            else:
                lines.append(line)

        description = describe(file, verify=verify, source=source, begin=begin, damaged=damaged)
        if as_json:
            print_json(description)
            return damaged
        lines_of_modules = _lines_of(description["module"], "", [])
        echo_all(chain(lines, lines_of_modules), marks=_MARKS)
    echo()
    if "unknown" in description:
        echo_all(_lines_of_unknown(description["unknown"]))
        echo()
    if "tuning" in description:
        echo_all(_lines_of_records(description["tuning"]))
        echo()
    if "tuning_problems" in description:
        echo_all(description["tuning_problems"])
        echo()
    if "claimed_keys" in description:
        keys = (
            ", ".join(map(repr, description["claimed_keys"][:_MAX_NAMES]))
            or "none that can be read"
        )
        echo(
            f"Keys of the signatures beside it, not checked: {keys}. To check them: devmod check {quote(file)}"
        )
        echo()
    if verify:
        echo(f"Digests compared: {description['verified']}; all match.")
        programs = description["programs"]
        if programs["problem"]:
            echo(f"Programs not checked: {programs['problem']}")
        elif programs["checked"]:
            echo(
                f"Programs checked with each candidate of their kernels: {programs['checked']}; all are valid."
            )
        echo()
    _print_missing(description)
    if damaged:
        echo()
        text = f"Damaged functions: {list_names(damaged)}. The exit status is 1."
        echo(text, marks=((r"^Damaged functions", "bad"),))
    return damaged


def _show_choice(
    context: click.Context,
    file: str,
    functions: Names,
    devices: Names,
    as_json: bool,
) -> None:
    """Show the candidates of functions, or of all. The exit status is 1 if one of the functions has
    none that can run.
    """
    from devmod import Explanation, explain

    quiet_drivers()
    explanations = []
    with plugins_at_work(), shared_scan():
        module = open_file(file)[1]
        for device in devices or (None,):
            parts = [explain(module, name, device) for name in functions or (None,)]
            candidates: Fields = {}
            variants: Fields = {}
            for part in parts:
                candidates |= part.functions
                variants |= part.variants
            explanations.append(Explanation(parts[0].device, candidates, variants))

    if as_json:
        documents = [each.to_dict() for each in explanations]
        print_json(documents if len(devices) > 1 else documents[0])
    else:
        lines = "\n".join(map(str, explanations)).splitlines()
        echo_all(lines or ["The file has no functions."])

    if all(_all_run(each) for each in explanations):
        return
    if not as_json:
        echo("A function without a candidate that can run there is an error: the exit status is 1.")
    context.exit(1)


def _all_run(explanation: Explanation) -> bool:
    """Return whether each function has a candidate that can run."""
    return all(explanation.best(name) is not None for name in explanation.functions)


def _show_temporaries(file: str, functions: Names, text: str, as_json: bool) -> None:
    """Show the bytes of the temporaries of programs, or of all, which devmod-runtime computes."""
    lengths = _read_lengths(text)
    owners: dict[str, StoredModule] = {}
    with plugins_at_work(), shared_scan():
        for module in walk(open_file(file)[1]):
            if isinstance(module, StoredModule) and module.kind == PROGRAM:
                owners |= dict.fromkeys(module, module)
        for name in functions:
            if name not in owners:
                raise function_not_found(PROGRAM, name, list(owners))

        counts = {}
        for name in functions or owners:
            counts[name] = owners[name]._use(methodcaller("temporary_bytes", name, lengths))

    if as_json:
        print_json(counts)
        return
    given = ", ".join(f"{name}={number}" for name, number in lengths.items())
    for name, count in counts.items():
        echo(f"{name}: {size(count)} of temporaries for {given}")


def _read_lengths(text: str) -> dict[str, int]:
    """Parse the value of --lengths."""
    lengths = {}
    try:
        for part in text.split(","):
            name, number = part.split("=")
            lengths[name.strip()] = int(number)
    except ValueError:
        raise click.UsageError(
            f"--lengths: expected NAME=NUMBER, separated by commas, got {text!r}"
        ) from None
    return lengths


def _print_missing(description: Description) -> None:
    """Print what to install, or that nothing is missing."""
    if description["install"]:
        _print_list("To run all of it here:", description["install"])
    for choice in description["choices"]:
        names = choice["functions"]
        text = ", ".join(names[:_MAX_NAMES])
        if len(names) > _MAX_NAMES:
            text += f" and {len(names) - _MAX_NAMES} more"
        _print_list(f"To run {text} here, install one of:", choice["install"])

    nothing_missing = not description["install"] and not description["choices"]
    if nothing_missing and description["others"]:
        echo("Every function has an installed runtime here.")
    elif nothing_missing:
        echo("All runtimes that it needs are installed here; --here shows whether a device fits.")
    if description["others"]:
        _print_list("Not needed, for the other candidates:", description["others"])


def _print_list(title: str, lines: list[str]) -> None:
    echo(title)
    for line in lines:
        echo(f"  {line}")


def _lines_of(module: Description, indent: str, modules: list[Description]) -> Iterator[str]:
    """Yield the lines of a module and of its imports. `modules` has the modules already printed, by
    number.
    """
    modules.append(module)
    yield indent + _head_line(module)
    inner = indent + "  "
    # A bundle has none: its functions are those of its candidates.
    for function in module["functions"]():
        yield inner + function["signature"]
        yield from _lines_of_program(function.get("program", {}), inner + "  ")
    if "common" in module:
        yield from _lines_of_common(module["common"](), inner)
    if module["origin"]:
        yield from _lines_of_origin(module["origin"], inner)
    if "source" in module:
        yield from _lines_of_sources(module["source"](), inner, modules)

    again: dict[str, None] = {}
    for child in module["imports"]():
        if isinstance(child, int):
            again[_head(modules[child])] = None
        else:
            yield from _lines_of(child, inner, modules)
    if again:
        more = ", …" if len(again) > 12 else ""
        yield f"{inner}also imports, shown above: {', '.join(list(again)[:12])}{more}"


def _head_line(module: Description) -> str:
    """Return the line of a module: what it is, its size, and the state of its runtime."""
    line = _head(module)
    if module["bytes"] is not None:
        line += f", {size(module['bytes'])}"
        if "stored" in module:
            line += f" ({size(module['stored'])} in the file)"
    if "features" in module:
        line += f" — needs {newer_features(module['features'])}"

    runtime = module["runtime"]
    if runtime is None:
        return line
    if runtime["installed"]:
        return f"{line} — runtime: {runtime['installed']}"
    if runtime["excluded"]:
        return f"{line} — runtime: excluded by {runtime['excluded']}"
    return f"{line} — runtime: not installed"


def _lines_of_common(functions: Iterable[Description], indent: str) -> Iterator[str]:
    """Yield the lines of functions that several candidates have."""
    for function in functions:
        owners = "every candidate"
        if "kinds" in function:
            owners += f" of {', '.join(function['kinds'])}"
        yield f"{indent}{owners}: {function['signature']}"


def _lines_of_origin(origin: Description, indent: str) -> Iterator[str]:
    parts = []
    if origin.get("target"):
        parts.append(f"target {origin['target']!r}")
    if origin.get("toolchain"):
        parts.append(origin["toolchain"])
    if origin.get("options"):
        parts.append(f"options {' '.join(origin['options'])}")
    for name, digest in origin.get("sources", {}).items():
        parts.append(f"{name} sha256 {digest[:12]}…")

    if parts:
        yield f"{indent}from {', '.join(parts)}"
    left_out = origin.get("left_out")
    if isinstance(left_out, dict):
        yield f"{indent}left out, for they did not compile: {', '.join(map(str, left_out))}"
    if origin.get(COMPRESSION):
        yield f"{indent}compressed by {origin[COMPRESSION]}"


def _lines_of_sources(
    sources: dict[str, str | bytes | int], indent: str, modules: list[Description]
) -> Iterator[str]:
    for name, text in sources.items():
        yield f"{indent}source {name}:"
        if isinstance(text, str):
            # Behind the mark, :: at the beginning of a line is not escaped.
            for line in _lines_of_text(text):
                yield f"{indent}  | {line}"
        elif isinstance(text, int):
            yield f"{indent}  of the {_head(modules[text])} module above"
        else:
            yield f"{indent}  {size(len(text))} of binary"


def _lines_of_unknown(rows: list[Description]) -> Iterator[str]:
    """Yield the lines of what this devmod does not know."""
    yield f"Not known to this devmod; a newer one may: {pip_install('--upgrade devmod-core')}"
    for row in rows[:_MAX_NAMES]:
        line = f"  the {row['what']} {row['name']!r}"
        if "function" in row:
            line += f" of {row['function']!r}"
        if "bytes" in row:
            line += f", {size(row['bytes'])}"
        yield f"{line}: a save {row['save']}"
    if len(rows) > _MAX_NAMES:
        yield f"  and {len(rows) - _MAX_NAMES} more, which --json has"


def _lines_of_records(records: list[Description]) -> Iterator[str]:
    """Yield the lines of tuning records, with the fastest variants."""
    yield f"Tuning records: {len(records)}, which --json has"
    for record in records[:_MAX_NAMES]:
        measured = record["measured"]
        yield (
            f"  {record['function']} for {record['kind']} on {record['device']}, driver {record['driver'] or 'unknown'}, "
            f"tuples of sizes: {len(measured)}"
        )
        for each in measured[:_MAX_NAMES]:
            times = [(seconds, values) for values, seconds, *_ in each["times"] if seconds]
            text = "every variant failed"
            if times:
                seconds, values = min(times, key=itemgetter(0))
                text = f"{_assignments(record['constants'], values)} takes {duration_text(seconds)}"
            yield f"    {_assignments(record['sizes'], each['sizes']) or 'any size'}: {text}"


def _assignments(names: list[str], values: list[Any]) -> str:
    return ", ".join([f"{name}={value}" for name, value in zip(names, values, strict=True)])


def _lines_of_program(program: Description, indent: str) -> Iterator[str]:
    """Yield the lines of a program below its signature."""
    for key in ("temporaries", "constants", "states", "samplers", "requires"):
        texts = program.get(key)
        if texts:
            line = f"{indent}{key}: {', '.join(texts[:_MAX_NAMES])}"
            if len(texts) > _MAX_NAMES:
                line += f", and {len(texts) - _MAX_NAMES} more"
            yield line
    if program.get("backward"):
        yield f"{indent}backward: {program['backward']}"

    steps = program.get("steps", ())
    for number, text in enumerate(steps[:_MAX_STEPS], 1):
        yield f"{indent}step {number}: {text}"
    if len(steps) > _MAX_STEPS:
        yield f"{indent}and {len(steps) - _MAX_STEPS} more steps, which --json has"
    for text in program.get("repeats", ())[:_MAX_STEPS]:
        yield f"{indent}repeat: {text}"
    if program.get("problem"):
        yield f"{indent}its steps are not shown: {program['problem']}"


def _lines_of_text(text: str) -> Iterator[str]:
    """Yield the lines of a text, which may be large. Lines longer than the limit are continued on
    the next.
    """
    at = 0
    while at < len(text):
        end = text.rfind("\n", at, at + _MAX_LINE) + 1 or at + _MAX_LINE
        yield from text[at:end].splitlines()
        at = end


def _head(module: Description) -> str:
    return " ".join(filter(None, (module["kind"], module["format"], module["variant"])))
