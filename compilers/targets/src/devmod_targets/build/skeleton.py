"""A commented manifest for the sources in a folder. `devmod init` writes it."""

from __future__ import annotations

import json
import os
import re
from string import Template

from devmod import Target, registered
from devmod.backend import COMPRESS_LEVELS, escape, find_spec
from devmod.errors import FormatError, ToolchainNotFoundError
from devmod.targets import KINDS
from devmod_targets._compilers import chosen_sources, is_own, other_choice
from devmod_targets._groups import grouped
from devmod_targets._paths import below, with_slashes
from devmod_targets._text import header_text
from devmod_targets._toolchain import find_toolchain
from devmod_targets.build.document import key_text
from devmod_targets.build.matrix import parse_target, suffix_of
from devmod_targets.build.options import schema_of
from devmod_targets.build.progress import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from devmod import TargetSpec
    from devmod_targets._toolchain import Toolchain
    from devmod_targets.build.plan import Job
    from devmod_targets.build.result import JobResult

#: The reason why a kernel does not compile for a kind, by both.
Failures = dict[tuple[str, str], str]
#: The file with the JSON schema beside a manifest, which its first line names for editors.
SCHEMA_NAME = "devmod.schema.json"
#: By suffix, the pattern of a source with a kernel in a language of several kinds. Those of a kind
#: have it in their toolchain. Files of these suffixes without a match are headers.
_ENTRIES = {"slang": r"\bnumthreads\b"}
#: The bytes of the types of OpenCL C and Metal.
_BYTES = {
    "char": 1,
    "uchar": 1,
    "short": 2,
    "ushort": 2,
    "half": 2,
    "int": 4,
    "uint": 4,
    "float": 4,
    "long": 8,
    "ulong": 8,
    "double": 8,
}
_SKIPPED_FOLDERS = frozenset(
    ("build", "dist", "node_modules", "venv", "__pycache__", "site-packages")
)
_MAX_FILES = 100_000
_MAX_TEXT = 4 << 20


def schema_text() -> str:
    """Return the JSON schema of manifests: a frame, with the options of `devmod.compile` and the
    compressions that core has.
    """
    schema = json.loads(header_text(__package__, "schema_frame.json"))
    properties = schema["properties"]
    properties |= schema_of(in_kernel=False)
    properties["compress"]["enum"] = ["", *(level for level in COMPRESS_LEVELS if level)]

    tables = schema["$defs"]
    tables["common"]["properties"] |= schema_of(in_kernel=False)
    for name in ("section", "kernel"):
        tables[name]["properties"] |= schema_of(in_kernel=True)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def find_sources(folder: str, kinds: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Return the sources with kernels in a folder and below it, sorted, with slashes; and those
    whose names no manifest can have.

    Parameters
    ----------
    folder
        The folder. Hidden folders, and folders of builds and environments, are left out.
    kinds
        The kinds whose sources to find. Default: all kinds, without the suffixes that most often
        belong to other files. Binaries of other compilers, such as PTX, are not included.
    """
    specs = _specs(kinds)
    suffixes: set[str] = set()
    for spec in specs:
        suffixes.update(spec.languages)
    entries = dict(_ENTRIES)
    for toolchain in _toolchains(kinds):
        entries.update(toolchain.entries)
        suffixes.difference_update(toolchain.declared)
        if not kinds:
            suffixes.difference_update(toolchain.ambiguous)
    result = []
    unusable = []
    for number, path in enumerate(_files(folder)):
        if number >= _MAX_FILES:
            break
        suffix = suffix_of(path)
        if suffix in suffixes and _has_kernel(folder, path, entries.get(suffix, "")):
            # Bytes that are not UTF-8 are lone surrogates here, which are not printable.
            if path.isprintable() and "\\" not in path:
                result.append(path)
            else:
                unusable.append(path)
    return sorted(result), sorted(unusable)


class Collected(Progress):
    """Collects the results of a build's compiles.

    Attributes
    ----------
    results
        The results so far.
    """

    def __init__(self) -> None:
        self.results: list[JobResult] = []

    def add(self, result: JobResult) -> None:
        """Collect a result."""
        self.results.append(result)


def jobs_to_try(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return the jobs of the kernels with a source for several kinds, which may have something that
    one of the kinds lacks.
    """
    jobs = tuple(jobs)
    kinds: dict[tuple[str, str], set[str]] = {}
    for job in jobs:
        kinds.setdefault((job.kernel, job.source), set()).add(job.kind)
    shared: set[str] = set()
    for (kernel, _), group in kinds.items():
        if len(group) > 1:
            shared.add(kernel)
    return tuple(job for job in jobs if job.kernel in shared)


def failures_in(results: Iterable[JobResult]) -> Failures:
    """Return the kernels and the kinds for which a compile failed, with the reason, if the kernel
    compiles for another kind.

    A missing compiler is no reason, since other machines have it. Nor is an error for every kind:
    the manifest may lack a macro.
    """
    failures: Failures = {}
    kinds: dict[str, set[str]] = {}
    for each in results:
        if each.failure is None or each.failure.error != ToolchainNotFoundError.__name__:
            kinds.setdefault(each.job.kernel, set()).add(each.job.kind)
            if each.failure is not None:
                text = " ".join(each.failure.message.splitlines())
                failures.setdefault((each.job.kernel, each.job.kind), escape(f"{each.job}: {text}"))
    # What fails for every kind may lack a macro.
    for kernel, group in kinds.items():
        keys = [(kernel, kind) for kind in group]
        if failures.keys() >= set(keys):
            for key in keys:
                del failures[key]
    return failures


def manifest_text(
    folder: str,
    sources: Sequence[str],
    targets: Sequence[str] = (),
    *,
    output: str = "kernels.devmod",
    failures: Failures | None = None,
) -> str:
    """Return the manifest of some sources.

    Parameters
    ----------
    folder
        The manifest's folder.
    sources
        The sources, relative to the folder.
    targets
        The targets. Default: one for each kind that takes a source, with the architectures of its
        spec's example where it needs some.
    output
        The bundle.
    failures
        The kernels and the kinds that are left out, with the reasons.
    """
    failures = failures or {}
    kinds = [Target.parse(text).kind for text in targets]
    specs = _specs_of(sources, kinds)
    targets = targets or [_example(spec, sources) for spec in specs]
    for kind in kinds:
        if all(spec.kind != kind for spec in specs):
            raise FormatError(f"no source is for the target {kind!r}")

    kernels = [_Kernel(name, own, specs) for name, own in _kernels(sources).items()]
    absent = _absent_kinds(kernels, specs, failures)
    lines = []
    for each in kernels:
        lines += each.lines(folder, absent, failures)
    absent_targets = {}
    for text in targets:
        kind = parse_target(text).kind
        if kind in absent:
            absent_targets[text] = absent[kind]
    texts = {
        "output": _quote(output),
        "targets": _array(targets, 88, absent_targets),
        "kernels": "\n".join(lines),
    }
    template = Template(header_text(__package__, "skeleton.toml"))
    return f"#:schema ./{SCHEMA_NAME}\n" + template.substitute(texts)


def _absent_kinds(
    kernels: Sequence[_Kernel],
    specs: Sequence[TargetSpec],
    failures: Failures,
) -> dict[str, str]:
    """Return the kinds for which every kernel fails, each with the first reason. They are left out
    of the targets.
    """
    result = {}
    for spec in specs:
        users = [(each.name, spec.kind) for each in kernels if spec.kind in each.kinds]
        if failures.keys() >= set(users):
            result[spec.kind] = next(text for key, text in failures.items() if key in users)
    return result


def _specs_of(sources: Sequence[str], kinds: Sequence[str]) -> list[TargetSpec]:
    """Return the specs of the kinds that take a source."""
    suffixes = {suffix_of(source) for source in sources}
    result = []
    for spec in _specs(kinds):
        taken = [each for each in suffixes if each in spec.languages]
        # CUDA C++ alone makes no target of rocm: that is a choice of the user's.
        if (taken and kinds) or any(is_own(spec, each) for each in taken):
            result.append(spec)
    return result


class _Kernel:
    """A kernel of the manifest, with the kinds that take one of its sources."""

    def __init__(self, name: str, sources: list[str], specs: Sequence[TargetSpec]) -> None:
        self.name = name
        self._sources = sources
        self._suffixes = [suffix_of(each) for each in sources]
        self._takers: list[TargetSpec] = []
        self._other_kinds: list[str] = []
        for spec in specs:
            if spec.languages.keys().isdisjoint(self._suffixes):
                self._other_kinds.append(spec.kind)
            else:
                self._takers.append(spec)
        self.kinds = [spec.kind for spec in self._takers]

    def lines(self, folder: str, absent: Collection[str], failures: Failures) -> list[str]:
        """Return the lines of its table."""
        unused = self._unused()
        own = [each for each in self._sources if each not in unused]
        result = ["", f"[{key_text(('kernels', self.name))}]", f"sources = {_array(own, 110)}"]
        for source, reason in unused.items():
            result.append(f"# {_quote(source)} is left out: {reason}")
        skip = [kind for kind in self._other_kinds if kind not in absent]
        failed = []
        for kind in self.kinds:
            if (self.name, kind) in failures and kind not in absent:
                failed.append(kind)
                result.append(f"# {kind} is left out: {failures[self.name, kind]}")
        if failed:
            result.append(f"skip = {_array([*skip, *failed], 110)}")
        elif skip:
            result.append(f"skip = {_array(skip, 110)}  # the targets without a source")
        return result + _local_lines(folder, self.name, own)

    def _unused(self) -> dict[str, str]:
        """Return the sources that no kind takes beside the others, with the reasons."""
        chosen = {spec.kind: chosen_sources(spec, self._suffixes) for spec in self._takers}
        result = {}
        for index, source in enumerate(self._sources):
            if not any(row[index] for row in chosen.values()):
                result[source] = other_choice(chosen, self._suffixes, index)
        return result


def example_target(source: str) -> str:
    """Return an example of a target that takes a source."""
    return _example(_first_kind(source), [source])


def _first_kind(source: str) -> TargetSpec:
    """Return the first kind that takes a source in a language of its own."""
    suffix = suffix_of(source)
    takers = (spec for spec in _specs(()) if suffix in spec.languages)
    return next(spec for spec in takers if is_own(spec, suffix))


def _example(spec: TargetSpec, sources: Sequence[str]) -> str:
    """Return a target for the first of the sources that a kind takes."""
    suffix = next(filter(spec.languages.__contains__, map(suffix_of, sources)))
    language = spec.languages[suffix]
    return str(Target(spec.kind, arch=spec.needs_arch.get(language, "")))


def _toolchains(kinds: Sequence[str]) -> Iterator[Toolchain]:
    """Yield the toolchains of core's kinds, whose languages others have too, and of `kinds`, by
    default all. A broken wheel stops the use of its own kind alone.
    """
    wanted: Sequence[str] = ()
    if kinds:
        wanted = [*dict.fromkeys((*KINDS, *kinds))]
    for spec in _specs(wanted):
        toolchain = find_toolchain(spec.kind)
        if toolchain is not None:
            yield toolchain


def _specs(kinds: Sequence[str]) -> list[TargetSpec]:
    specs = map(find_spec, kinds or dict.fromkeys((*KINDS, *registered("devmod.targets"))))
    return [spec for spec in specs if spec is not None and spec.compiler]


def _files(folder: str) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        kept = [each for each in folders if not each.startswith(".")]
        folders[:] = sorted(set(kept) - _SKIPPED_FOLDERS)
        relative = with_slashes(parent, folder)
        prefix = "" if relative == "." else f"{relative}/"
        for name in sorted(names):
            yield prefix + name


def _has_kernel(folder: str, path: str, pattern: str) -> bool:
    return (
        os.path.isfile(below(folder, path)) and re.search(pattern, _text(folder, path)) is not None
    )


def _text(folder: str, path: str) -> str:
    """Return the text of a source; "" if it cannot be read."""
    try:
        with open(below(folder, path), encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_TEXT)
    except OSError:
        return ""


def _local_lines(folder: str, kernel: str, sources: Sequence[str]) -> list[str]:
    """Return comments with the default sizes of local memory, in the tables of the targets with
    such parameters if others have none.
    """
    keys = {}
    for source in sources:
        found = _locals(folder, source)
        if found:
            keys[source] = f"# local = {{ {', '.join(found)} }}"
    if len(set(keys.values())) == 1 and len(keys) == len(sources):
        return [f"{next(iter(keys.values()))}  # a default size, so that calls omit the parameter"]
    lines = []
    for source, key in keys.items():
        kind = _first_kind(source).kind
        lines += [
            f"# [{key_text(('kernels', kernel, 'target', kind))}]  # a default size, so that one call fits every target",
            key,
        ]
    return lines


def _locals(folder: str, source: str) -> list[str]:
    """Return the keys of the parameters of local memory in a source, ``scratch = "4/thread"``, with
    the bytes of an element.
    """
    suffix = suffix_of(source)
    takers = [spec.kind for spec in _specs(()) if suffix in spec.languages]
    toolchains = _toolchains(takers)
    word = next((each.local[suffix] for each in toolchains if suffix in each.local), None)
    if word is None:
        return []
    heads = re.findall(r"\bkernel\b[^{;]*|\b__kernel\b[^{;]*", _text(folder, source))
    found = re.findall(
        rf"\b{word}\s+(?:const\s+|volatile\s+)*([a-z]+)(\d*)\s*\*\s*(?:(?:restrict|const)\s+)*(\w+)",
        " ".join(heads),
    )
    sizes: dict[str, int] = {}
    for type_, lanes, name in found:
        if lanes == "3":
            lanes = "4"  # a vector of three takes the place of four
        if type_ in _BYTES:
            sizes[name] = _BYTES[type_] * int(lanes or 1)
    return [f'{name} = "{size}/thread"' for name, size in sizes.items()]


def _kernels(sources: Iterable[str]) -> dict[str, list[str]]:
    """Return the sources by kernel. Sources with the same stem are one kernel, unless two of them
    have the same language.
    """
    groups = grouped((source.rpartition("/")[2].rpartition(".")[0], source) for source in sources)
    kernels: dict[str, list[str]] = {}
    for stem, group in groups.items():
        if len({suffix_of(source) for source in group}) == len(group):
            kernels.setdefault(stem, []).extend(group)
            continue
        for source in group:
            name = source.rpartition(".")[0].replace("/", "-")
            kernels.setdefault(name, []).append(source)
    return dict(sorted(kernels.items()))


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # JSON's escapes are TOML's


def _array(items: Sequence[str], width: int, absent: Mapping[str, str] | None = None) -> str:
    """Return an array on one line, or on a line for each item if that is too long, or an item is
    commented out with a reason.
    """
    absent = absent or {}
    line = f"[{', '.join(map(_quote, items))}]"
    if len(line) <= width and not absent:
        return line
    lines = []
    for each in items:
        if each in absent:
            lines.append(f"    # {_quote(each)},  # {absent[each]}\n")
        else:
            lines.append(f"    {_quote(each)},\n")
    return f"[\n{''.join(lines)}]"
