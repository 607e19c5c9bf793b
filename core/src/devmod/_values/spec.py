"""TargetSpec: the properties of a kind by which core wraps, saves, loads and inspects its payloads.

No toolchain, driver or runtime is needed for that.
"""

from __future__ import annotations

from devmod.errors import pip_install

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    from devmod._values.code import Binary
    from devmod._values.info import FunctionInfo

    AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


class TargetSpec:
    """The properties of a kind. This is the reference of its fields.

    A spec is imported without a toolchain and without a driver.

    Parameters
    ----------
    kind
        The kind, a name of the form ``[a-z][a-z0-9_]{0,31}``.
    title
        The backend's name in messages, such as "OpenCL".
    distribution
        The wheel with the runtime, such as "devmod-opencl". Errors print ``pip install`` with this
        name.
    formats
        The formats of its payloads. The first is the default.
    format_aliases
        The formats of alias names, such as ``{"vulkan": "spv"}``. A payload with an alias is read
        and run as the format, and saved with the alias.
    text_formats
        The formats with code in text (UTF-8).
    source_formats
        The text formats that are source: the receiver compiles them (R30), with a compiler that can
        be replaced (R31). None: all text formats. CUDA's PTX is text but no source.
    headers
        The headers of the receiver's compiler that a source payload may include, by the beginnings
        of their names: ``("hip/",)``. With ``("",)`` it may include each relative name.
        `devmod_readers.sources.closed_source` removes other includes.
    assembler
        Whether the receiver's compiler assembles inline assembly: `closed_source` then checks it
        for directives that read files.
    shader_map
        Whether the code is a map of entry name to bytes instead of bytes.
    fields
        The fields of the module's bytes in their order (R17); ``("fmap", "code")`` for a kind with
        one format.
    source_keys
        The keys of sources and listings from a compiler of this kind.
    source_aliases
        Further names of source keys for ``inspect_source``, such as ``{"s": "asm"}``.
    default_source
        The keys that ``inspect_source("")`` tries, in order, if the payload is not text.
    suffixes
        The formats of file suffixes (without the dot), for `devmod.load_from_file` and
        `write_to_file`.
    aliases
        Further names under ``devmod.load_from_bytes`` that load modules of this kind.
    languages
        The languages of source-file suffixes (without the dot). The first is the default language.
        If the suffix is that of a binary payload (SPIR-V) or "bc", the compiler receives the bytes
        in `CompileRequest.data`.
    compiler
        ``"module:function"`` of the compiler, called as ``f(request: CompileRequest) -> Payload``
        (`devmod_targets.authoring` has both classes); "" if there is none.
    toolchain
        ``"module:NAME"`` of what a build knows of the compiler without importing it, a
        `devmod_targets.authoring.Toolchain`; "" if there is none.
    compiled_as
        The format of bytes from a replaced compiler (R31), by their form: "elf", "spirv", "fatbin",
        "metallib", "offload_bundle", "compressed_offload_bundle", "offload_binary", "pocl" (by the
        magic), or "text" for UTF-8 text. Other forms are rejected.
    build_extra
        The extra of devmod-core with the toolchain, such as "build-opencl"; "" if there is none.
    preprocessed
        The languages with a preprocessor, whose compiles take `defines` and `include`. The settings
        of a manifest for all kernels are not for the other languages.
    needs_arch
        The languages for which a target must name an architecture, unless it keeps the source
        (``-format=`` with one of `source_formats`). Each has the architectures of an example for
        messages: ``{"CUDA C++": "sm_80,sm_90"}``.
    architecture
        ``f(fmt, code) -> str``: reads the variant of a binary from its bytes (R40); "" if it cannot
        be read. It never raises. A string ``"module:function"`` is imported at the first call.
        None: every payload has the variant "".
    rank
        ``f(variant, arch) -> int | None``: rates a variant for a device of architecture `arch`. The
        greatest number is the best; None means that the variant cannot run. It may be a string, as
        for `architecture`. None: all variants are equal.
    check
        ``f(fmt, data, functions) -> bool``: checks one binary of a payload for `devmod.verify`,
        without a device. It raises FormatError or CompileError if no device can use it, or if it
        lacks a function of `functions`, the FunctionInfo of each name, and returns whether it can
        read the format. A shader map has a call for each shader. Text is UTF-8. A string
        ``"module:function"`` is imported at the first call. None: contents are not checked; nor are
        they where the module is in a wheel of devmod that is not installed.
    dimensions
        ``f(fmt, data, name, info) -> int``: the dimensions of the grid in which the function `name`
        reads its place, from the binary with it; 1 also if they are unknown, or if it reads the
        size of the grid, as a kernel for any launch does. `devmod.guard` and ``devmod run`` warn of
        a launch with fewer. It may be a string, as for `check`. None: they are unknown.
    has_conditions
        Whether the receiver compiles sources with conditions on the device, such as ``#ifdef
        cl_khr_fp16``. The error for a missing function then names its condition.
    handles
        The classes of other libraries that the runtime adopts (``devmod.adopt``), by the package:
        ``{"pyopencl": ("CommandQueue",)}``. The error for an object of such a class names the wheel
        if it is not installed.
    tvm_kind
        The name of the kind in TVM; "" if it is the same.
    has_grid
        Whether a launch has a grid and a block. False for a kind whose launch is one call.
    pack, unpack
        Functions from a module's code to the bytes of its payload file, and back, for a kind where
        they differ (SPIR-V words with their flag). None: they are equal.
    """

    def __init__(
        self,
        kind: str,
        *,
        title: str,
        distribution: str,
        formats: Iterable[str],
        format_aliases: Mapping[str, str] | None = None,
        text_formats: Iterable[str] = (),
        source_formats: Iterable[str] | None = None,
        headers: Iterable[str] = (),
        assembler: bool = True,
        shader_map: bool = False,
        fields: Iterable[str] = ("fmt", "fmap", "code"),
        source_keys: Iterable[str] = (),
        source_aliases: Mapping[str, str] | None = None,
        default_source: Iterable[str] = (),
        suffixes: Mapping[str, str] | None = None,
        aliases: Iterable[str] = (),
        languages: Mapping[str, str] | None = None,
        compiler: str = "",
        toolchain: str = "",
        compiled_as: Mapping[str, str] | None = None,
        build_extra: str = "",
        preprocessed: Iterable[str] = (),
        needs_arch: Mapping[str, str] | None = None,
        architecture: Callable[[str, Binary], str] | str | None = None,
        rank: Callable[[str, str], int | None] | str | None = None,
        check: Callable[[str, Binary, Mapping[str, FunctionInfo]], bool] | str | None = None,
        dimensions: Callable[[str, Binary, str, FunctionInfo], int] | str | None = None,
        has_conditions: bool = False,
        handles: Mapping[str, Iterable[str]] | None = None,
        tvm_kind: str = "",
        has_grid: bool = True,
        pack: Callable[[Binary], Binary] | None = None,
        unpack: Callable[[Binary], Binary] | None = None,
    ) -> None:
        self.kind = kind
        self.title = title
        self.distribution = distribution
        self.formats = tuple(formats)
        self.format_aliases = dict(format_aliases or {})
        self.text_formats = frozenset(text_formats)
        self.source_formats = self.text_formats
        if source_formats is not None:
            self.source_formats = frozenset(source_formats)
        self.headers = tuple(headers)
        self.assembler = assembler
        self.fields = tuple(fields)
        self.shader_map = shader_map
        self.source_keys = tuple(source_keys)
        self.source_aliases = dict(source_aliases or {})
        self.default_source = tuple(default_source)
        if suffixes is None:
            suffixes = dict(zip(self.formats, self.formats, strict=True))
        self.suffixes = dict(suffixes)
        self.aliases = tuple(aliases)
        self.languages = dict(languages or {})
        self.compiler = compiler
        self.toolchain = toolchain
        self.build_extra = build_extra
        self.compiled_as = dict(compiled_as or {})
        self.preprocessed = frozenset(preprocessed)
        self.needs_arch = dict(needs_arch or {})
        self.architecture = _imported(architecture)
        self.rank = _imported(rank)
        self.check = _imported(check)
        self.dimensions = _imported(dimensions)
        self.has_conditions = has_conditions
        self.handles = {name: tuple(classes) for name, classes in (handles or {}).items()}
        self.tvm_kind = tvm_kind or kind
        self.has_grid = has_grid
        self.pack = pack
        self.unpack = unpack

    @property
    def install(self) -> str:
        """The command that installs the runtime, for messages."""
        return pip_install(self.distribution)

    @property
    def build_distribution(self) -> str:
        """What pip installs for the compiler, for messages."""
        if self.build_extra:
            return f"devmod-core[{self.build_extra}]"
        return "devmod-targets"

    def canonical_format(self, name: str) -> str:
        """Return the format of an alias; other names are unchanged."""
        if not isinstance(name, str):  # a mistake that the caller reports
            return name
        return self.format_aliases.get(name, name)

    def __repr__(self) -> str:
        from devmod._util.text import escape_line

        return escape_line(f"<TargetSpec {self.kind}: {', '.join(self.formats)}>")


def _imported(reference: AnyFunction | str | None) -> AnyFunction | None:
    """Return a function; for ``"module:function"`` one that imports it at its first call. Most
    users of a spec never call it.
    """
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    function: Callable[..., Any] | None = None

    def call(*args: Any) -> Any:
        nonlocal function
        if function is None:
            function = getattr(__import__(module, fromlist=[name]), name)
        return function(*args)

    return call  # type: ignore[return-value]  # its parameters are those of the function
