"""Targets: the build side, a folder for each backend.

``spec.py`` in each folder is a TargetSpec: what core must know of a kind to wrap, save, load and inspect its payloads with
no toolchain, no driver and no runtime wheel. ``compile.py``, where there is one, drives the toolchain.
A wheel of a third party brings a kind of its own through the entry-point group ``devmod.targets``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from devmod._payload import Binary


class TargetSpec:
    """What core knows of a kind. Importable with no toolchain and no driver; this is the reference of its fields.

    Parameters
    ----------
    kind
        The kind, of the form ``[a-z][a-z0-9_]{0,31}``.
    title
        The backend's name in messages, such as "OpenCL".
    distribution
        The wheel that brings the runtime, such as "devmod-opencl". The hint in errors is ``pip install`` with it.
    formats
        The formats of its payloads, the first being the default.
    text_formats
        Those of them whose code is text (UTF-8).
    source_formats
        Those of the text formats that are source, which the receiver compiles (R30) and whose compiler may be replaced (R31). None:
        all of them. CUDA's PTX is text and what a compiler makes, so it is not one.
    shader_map
        Whether the code is a map of entry name to bytes instead of bytes.
    fields
        The fields of the module's bytes in their order (R17); ``("fmap", "code")`` for a kind of one format only.
    source_keys
        The keys under which a compiler of this kind gives sources and listings.
    default_source
        The keys that ``inspect_source("")`` tries in order when the payload itself is no text.
    suffixes
        File suffix, without the dot, to format: what `devmod.load_from_file` and `write_to_file` go by.
    aliases
        Further names of ``devmod.load_from_bytes`` that give modules of this kind.
    languages
        Source-file suffix, without the dot, to language; the first is the default language. One whose suffix is that of a payload that
        is no text (SPIR-V) is no text either: the compiler is given its bytes, `CompileRequest.data`.
    compiler
        ``"module:function"`` of the compiler, called as ``f(request: CompileRequest) -> Payload``; "" where there is none.
    compiled_as
        What bytes from a replaced compiler (R31) are taken for, by their magic: ``{"elf": format, "spirv": format, "text":
        format}``, where "text" stands for everything without a magic. A key that is not there is refused.
    build_extra
        The extra of devmod-core that brings the toolchain, such as "build-opencl"; "" where there is none.
    architecture
        ``f(fmt, code) -> str``: the variant of one binary, read from the payload itself (R40); "" where it cannot be read.
        It never raises. A string ``"module:function"`` is imported when it is first called. None: every payload has the variant "".
    rank
        ``f(variant, arch) -> int | None``: how well a variant fits a device of architecture `arch`, None for not at all, the
        greatest is best. A string as for `architecture`. None: every variant fits equally.
    has_grid
        Whether a launch has a grid and a block (False for a kind that is one call).
    pack, unpack
        For a kind whose raw file is not the bytes of the module's code (SPIR-V words and their flag): the file's bytes from
        a code, and back. None: they are the same.
    """

    __slots__ = (
        "aliases",
        "architecture",
        "build_extra",
        "compiled_as",
        "compiler",
        "default_source",
        "distribution",
        "fields",
        "formats",
        "has_grid",
        "kind",
        "languages",
        "pack",
        "rank",
        "shader_map",
        "source_formats",
        "source_keys",
        "suffixes",
        "text_formats",
        "title",
        "unpack",
    )

    def __init__(
        self,
        kind: str,
        *,
        title: str,
        distribution: str,
        formats: Iterable[str],
        text_formats: Iterable[str] = (),
        source_formats: Iterable[str] | None = None,
        shader_map: bool = False,
        fields: Iterable[str] = ("fmt", "fmap", "code"),
        source_keys: Iterable[str] = (),
        default_source: Iterable[str] = (),
        suffixes: Mapping[str, str] | None = None,
        aliases: Iterable[str] = (),
        languages: Mapping[str, str] | None = None,
        compiler: str = "",
        compiled_as: Mapping[str, str] | None = None,
        build_extra: str = "",
        architecture: Callable[[str, Binary], str] | str | None = None,
        rank: Callable[[str, str], int | None] | str | None = None,
        has_grid: bool = True,
        pack: Callable[[Binary], Binary] | None = None,
        unpack: Callable[[Binary], Binary] | None = None,
    ) -> None:
        self.kind = kind
        self.title = title
        self.distribution = distribution
        self.formats = tuple(formats)
        self.text_formats = frozenset(text_formats)
        self.source_formats = self.text_formats if source_formats is None else frozenset(source_formats)
        self.shader_map = shader_map
        self.fields = tuple(fields)
        self.source_keys = tuple(source_keys)
        self.default_source = tuple(default_source)
        self.suffixes = dict(suffixes) if suffixes is not None else {fmt: fmt for fmt in self.formats}
        self.aliases = tuple(aliases)
        self.languages = dict(languages or {})
        self.compiler = compiler
        self.compiled_as = dict(compiled_as or {})
        self.build_extra = build_extra
        self.architecture: Callable[[str, Binary], str] | None = _later(architecture) if isinstance(architecture, str) else architecture
        self.rank: Callable[[str, str], int | None] | None = _later(rank) if isinstance(rank, str) else rank
        self.has_grid = has_grid
        self.pack = pack
        self.unpack = unpack

    @property
    def install(self) -> str:
        """The command that adds the runtime, as errors print it."""
        return f"pip install {self.distribution}"

    def __repr__(self) -> str:
        return f"<TargetSpec {self.kind}: {', '.join(self.formats)}>"


def _later(reference: str) -> Callable[..., Any]:
    """The function that ``"module:function"`` names, imported when it is first called: a spec is imported for little else."""
    module, _, name = reference.partition(":")

    def call(*args: Any) -> Any:
        return getattr(__import__(module, fromlist=[name]), name)(*args)

    return call


#: The kinds that core knows by itself, in the order of the contract.
BUILT_IN = ("cuda", "rocm", "metal", "vulkan", "opencl", "hexagon", "webgpu")

#: The aliases in their specs, so that a look-up need not import seven specs to find that a name is none of them.
BUILT_IN_ALIASES = {"hsaco": "rocm", "hip": "rocm"}


def find_spec(kind: str) -> TargetSpec | None:
    """The spec of a kind, of core or of an installed wheel; None where nobody brings one.

    Raises
    ------
    PluginError
        A wheel claims the kind's target and is broken, or two do.
    """
    from devmod import _registry

    found = _registry.find("devmod.targets", kind)
    assert found is None or isinstance(found, TargetSpec)  # the registry has checked it
    return found


def spec_of_format(fmt: str) -> TargetSpec | None:
    """The spec of the kind that a payload file of this format belongs to; None where there is none.

    A shared object's format names its machine (``so_hexagon``), which is the kind.
    """
    from devmod._discovery import held

    if fmt.startswith("so_"):
        return find_spec(fmt[3:])
    with held():
        return next((spec for spec in _specs() if fmt in spec.suffixes.values()), None)


def spec_of_loader(name: str) -> TargetSpec | None:
    """The spec of the kind that ``devmod.load_from_bytes.<name>`` gives: the kind's own, or the one with that alias."""
    from devmod._discovery import held

    with held():
        found = find_spec(BUILT_IN_ALIASES.get(name, name))
        return found or next((spec for spec in _specs(built_in=False) if name in spec.aliases), None)


def format_of_suffix(suffix: str) -> str:
    """The format of a file with this suffix (without the dot): a spec's answer, else the suffix itself."""
    from devmod._discovery import held

    with held():
        return next((spec.suffixes[suffix] for spec in _specs() if suffix in spec.suffixes), suffix)


def _specs(*, built_in: bool = True) -> Iterator[TargetSpec]:
    """The specs of core, then those of installed wheels that are sound: a broken one must not spoil the others."""
    from devmod import _registry
    from devmod.errors import PluginError

    others = [kind for kind in _registry.registered("devmod.targets") if kind not in BUILT_IN]
    for kind in (*(BUILT_IN if built_in else ()), *others):
        try:
            spec = find_spec(kind)
        except PluginError:
            continue
        if spec is not None:
            yield spec
