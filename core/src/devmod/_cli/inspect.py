"""`devmod inspect`: show the modules of a file and the runtimes to install, or which candidate of
each function a machine gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from operator import methodcaller
from shlex import quote
from typing import Any

import click

from devmod._cli._describe import describe, open_file
from devmod._cli._known import KNOWN
from devmod._cli._options import complete_function, complete_kind, debug_option, quiet_drivers
from devmod._cli._output import echo, echo_all, plugins_at_work, print_json, size
from devmod._formats.index import COMPRESSION, newer_features
from devmod._modules.module import walk
from devmod._modules.stored import StoredModule
from devmod._plugins.discovery import shared_scan
from devmod.errors import function_not_found
from devmod.targets import PROGRAM

#: The maximum number of functions in a line, and of a program's steps.
_MAX_NAMES, _MAX_STEPS = 8, 24
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
  1  an error, or with --here or --device a function without a candidate that can run there
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
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
    functions: tuple[str, ...],
    here: bool,
    devices: tuple[str, ...],
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
            option, other = "--verify" if verify else "--source", "--here" if here else "--device"
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
    with shared_scan():  # functions and sources are read during printing
        lines: list[str] = []

        # Of a large file the first line is printed before the others are known.
        def begin(line: str, count: int | None) -> None:
            if count is not None and count > _LARGE and not as_json:
                echo(line)
            else:
                lines.append(line)

        description = describe(file, verify=verify, source=source, begin=begin)
        if as_json:
            print_json(description)
            return
        echo_all(chain(lines, _lines_of(description["module"], "", [])))
    echo()
    if "signers" in description:
        keys = ", ".join(map(repr, description["signers"][:_MAX_NAMES])) or "none that can be read"
        echo(
            f"Keys of the signatures beside it, not checked: {keys}. To check them: devmod check {quote(file)}"
        )
        echo()
    if verify:
        echo(f"Digests compared: {description['verified']}; all match.")
        programs = description["programs"]
        if programs["checked"] or programs["problem"]:
            checked = f"Programs checked with each candidate of their kernels: {programs['checked']}; all are valid."
            echo(f"Programs not checked: {programs['problem']}" if programs["problem"] else checked)
        echo()
    _print_missing(description)


def _show_choice(
    context: click.Context,
    file: str,
    functions: tuple[str, ...],
    devices: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the candidates of functions, or of all. The exit status is 1 if one of the functions has
    none that can run.
    """
    from devmod import Explanation, explain

    quiet_drivers()
    with plugins_at_work(), shared_scan():
        module = open_file(file)[1]
        found = [
            [explain(module, name, device) for name in functions or (None,)]
            for device in devices or (None,)
        ]
    explanations = [
        Explanation(parts[0].device, {k: v for each in parts for k, v in each.functions.items()})
        for parts in found
    ]
    if as_json:
        documents = [each.to_dict() for each in explanations]
        print_json(documents if len(devices) > 1 else documents[0])
    else:
        echo_all("\n".join(map(str, explanations)).splitlines() or ["The file has no functions."])
    if any(each.best(name) is None for each in explanations for name in each.functions):
        if not as_json:
            echo(
                "A function without a candidate that can run there is an error: the exit status is 1."
            )
        context.exit(1)


def _show_temporaries(file: str, functions: tuple[str, ...], text: str, as_json: bool) -> None:
    """Show the bytes of the temporaries of programs, or of all, which devmod-runtime computes."""
    try:
        lengths = {
            name.strip(): int(number)
            for name, number in (part.split("=") for part in text.split(","))
        }
    except ValueError:
        raise click.UsageError(
            f"--lengths: expected NAME=NUMBER, separated by commas, got {text!r}"
        ) from None
    with plugins_at_work(), shared_scan():
        modules = [
            each
            for each in walk(open_file(file)[1])
            if isinstance(each, StoredModule) and each.kind == PROGRAM
        ]
        owners = {name: each for each in modules for name in each}
        if unknown := [each for each in functions if each not in owners]:
            raise function_not_found(PROGRAM, unknown[0], list(owners))
        found = {
            name: owners[name]._use(methodcaller("temporary_bytes", name, lengths))
            for name in functions or owners
        }
    if as_json:
        print_json(found)
    for name, count in () if as_json else found.items():
        echo(
            f"{name}: {size(count)} of temporaries for {', '.join(f'{each}={number}' for each, number in lengths.items())}"
        )


def _print_missing(description: dict[str, Any]) -> None:
    """Print what to install, or that nothing is missing."""
    lines = []
    if description["install"]:
        lines += ["To run all of it here:", *(f"  {line}" for line in description["install"])]
    for choice in description["choices"]:
        names = choice["functions"]
        text = ", ".join(names[:_MAX_NAMES]) + (
            f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        )
        lines += [
            f"To run {text} here, install one of:",
            *(f"  {line}" for line in choice["install"]),
        ]
    if not lines:
        lines = [
            "Every function has an installed runtime here."
            if description["others"]
            else "All runtimes that it needs are installed here; --here shows whether a device fits."
        ]
    if description["others"]:
        lines += [
            "Not needed, for the other candidates:",
            *(f"  {line}" for line in description["others"]),
        ]
    for line in lines:
        echo(line)


def _lines_of(module: dict[str, Any], indent: str, modules: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a module and of its imports. `modules` has the modules already printed, by
    number.
    """
    modules.append(module)
    head = _head(module)
    if module["bytes"] is not None:
        head += f", {size(module['bytes'])}"
        head += f" ({size(module['stored'])} in the file)" if "stored" in module else ""
    if "features" in module:
        head += f" — needs {newer_features(module['features'])}"
    runtime = module["runtime"]
    if runtime is not None:
        missing = f"excluded by {runtime['excluded']}" if runtime["excluded"] else "not installed"
        head += f" — runtime: {runtime['installed'] or missing}"
    yield indent + head
    inner = indent + "  "
    for function in module[
        "functions"
    ]():  # none for a bundle: its functions are those of its candidates
        yield inner + function["signature"]
        yield from _lines_of_program(function.get("program", {}), inner + "  ")
    for function in module["common"]() if "common" in module else ():
        owners = f"of {', '.join(function['kinds'])}" if "kinds" in function else ""
        yield f"{inner}{f'every candidate {owners}'.rstrip()}: {function['signature']}"
    origin = module["origin"]
    if origin:
        parts = [f"target {origin['target']!r}"] if origin.get("target") else []
        parts += [origin["toolchain"]] if origin.get("toolchain") else []
        parts += [f"options {' '.join(origin['options'])}"] if origin.get("options") else []
        parts += [
            f"{name} sha256 {digest[:12]}…" for name, digest in origin.get("sources", {}).items()
        ]
        if parts:
            yield f"{inner}from {', '.join(parts)}"
        if origin.get(COMPRESSION):
            yield f"{inner}compressed by {origin[COMPRESSION]}"
    for name, text in module["source"]().items() if "source" in module else ():
        yield f"{inner}source {name}:"
        if isinstance(text, str):
            yield from (
                f"{inner}  | {line}" for line in _lines_of_text(text)
            )  # behind the mark, :: at the beginning is not escaped
        elif isinstance(text, int):
            yield f"{inner}  of the {_head(modules[text])} module above"
        else:
            yield f"{inner}  {size(len(text))} of binary"
    again: dict[str, None] = {}
    for child in module["imports"]():
        if isinstance(child, int):
            again[_head(modules[child])] = None
        else:
            yield from _lines_of(child, inner, modules)
    if again:
        yield (
            f"{inner}also imports, shown above: {', '.join(list(again)[:12])}{', …' if len(again) > 12 else ''}"
        )


def _lines_of_program(program: dict[str, Any], indent: str) -> Iterator[str]:
    """Yield the lines of a program below its signature."""
    for key in ("temporaries", "constants", "states", "samplers", "requires"):
        if texts := program.get(key):
            more = f", and {len(texts) - _MAX_NAMES} more" if len(texts) > _MAX_NAMES else ""
            yield f"{indent}{key}: {', '.join(texts[:_MAX_NAMES])}{more}"
    if program.get("backward"):
        yield f"{indent}backward: {program['backward']}"
    steps = program.get("steps", ())
    yield from (
        f"{indent}step {number}: {text}" for number, text in enumerate(steps[:_MAX_STEPS], 1)
    )
    if len(steps) > _MAX_STEPS:
        yield f"{indent}and {len(steps) - _MAX_STEPS} more steps, which --json has"
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


def _head(module: dict[str, Any]) -> str:
    return " ".join(filter(None, (module["kind"], module["format"], module["variant"])))
