"""The readers to fuzz, which read strangers' bytes, and the properties that each must have.

A reader takes bytes, uses everything that it read, and raises `Breach` if a property does not hold.
An error of devmod (`DevmodError`) is the right result for a damaged file. Any other exception is a
finding.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache, partial
from importlib.util import find_spec
from math import prod
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import devmod
from devmod.interop import tvm
from devmod.targets import KINDS
from fuzzing import manifests, mutation, seeds

#: Characters that control a terminal or the direction of text. A tab and a newline are harmless.
HOSTILE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

#: The number of modules of a tree that are used one by one. A call may walk all imports, so all
#: modules would take quadratic time.
_MOST_MODULES = 3

#: The suffixes of raw payloads.
RAW = (
    "cl",
    "clbin",
    "xclbin",
    "aocx",
    "spv",
    "metal",
    "metallib",
    "wgsl",
    "ptx",
    "cubin",
    "fatbin",
    "cu",
    "hsaco",
    "hip",
    "so",
)

#: Nested templates without an end, for which clang takes exponential time. A compiler may take any
#: time (SECURITY.md).
_OPEN_TEMPLATES = re.compile(r"(?:\w+\s*<\s*){12}")

_ESCAPED = re.compile(r"Traceback \(most recent call last\)|--debug shows the traceback")

#: The functions of the recorded containers.
_ADD = {"add": devmod.FunctionInfo("add", ("handle", "handle", "handle", "int32"))}


class Breach(Exception):
    """A property does not hold."""


class Reader(NamedTuple):
    """One target of the fuzzer.

    Attributes
    ----------
    name
        Its name, also the folder of its corpus.
    read
        Reads and uses some bytes.
    mutate
        Changes an input.
    seeds
        Makes the inputs to start from.
    passes
        The number of times that it reads its input.
    weight
        Its share of the time, relative to the other readers.
    executions
        The number of its inputs in ``make test-all``; ``make test`` has a thirty-second of it.
    native
        Whether most of its work is done by a library that is not Python.
    """

    name: str
    read: Callable[[bytes], None]
    mutate: mutation.Mutator
    seeds: Callable[[], list[bytes]]
    passes: int = 1
    weight: int = 2
    executions: int = 400
    native: bool = False


def check_text(text: str, what: str) -> None:
    """Raise Breach if a text that a person reads has characters that control a terminal."""
    hit = HOSTILE.search(text)
    if hit:
        around = text[max(hit.start() - 60, 0) : hit.end() + 20]
        raise Breach(f"{what} holds U+{ord(hit[0]):04X}: {around!r}")


# -- modules


def walk(root: devmod.Module) -> Iterator[devmod.Module]:
    """Yield each module of a tree once."""
    seen, pending = set(), [root]
    while pending:
        module = pending.pop()
        if id(module) not in seen:
            seen.add(id(module))
            yield module
            pending.extend(module.imports)


def index_problem(data: bytes) -> str:
    """Return why the index of a bundle is refused; "" if it is not."""
    try:
        for _ in walk(devmod.loads(data)):
            pass
    except devmod.FormatError as error:
        return str(error)
    return ""


def use(root: devmod.Module) -> None:
    """Use everything of a tree that needs no runtime."""
    for number, module in enumerate(walk(root)):
        saved = attempt(module.save_to_bytes)
        if saved is not None and module.kind == "const_loader":
            check_constants(saved)
        if number < _MOST_MODULES:
            use_module(module)
    whole = attempt(lambda: quietly(lambda: devmod.dumps(root)))
    # It is saved as its one candidate.
    alone = root.kind == "bundle" and len({*map(id, root.imports)}) < 2
    if whole is not None and not alone and devmod.dumps(devmod.loads(whole)) != whole:
        raise Breach("dumps(loads(dumps(m))) is not dumps(m)")


def use_module(module: devmod.Module) -> None:
    """Call the methods of a module, and read its attributes."""
    shown = attempt(lambda: repr(module)) or ""
    check_text(shown, "repr(module)")
    if len(shown) > 10_000:
        raise Breach(f"repr(module) has {len(shown)} characters")
    for info in (attempt(lambda: dict(module.functions)) or {}).values():
        check_structs(info)
        attempt(partial(use_variants, info))
    attempt(module.inspect_source)
    attempt(lambda: module.source)
    attempt(lambda: module.get_function("no such function", query_imports=True))
    attempt(lambda: module["no such function"])
    with_runtime(module.kind, lambda: module.get_global("no such global"))
    attempt(lambda: (module.origin, getattr(module, "variant", "")))


def check_structs(info: devmod.FunctionInfo) -> None:
    """Pack a record of each struct by value, and raise Breach if its dtype or its bytes have
    another size than the struct. A struct that ends before the padding of an array has a longer
    dtype (`devmod.Param.dtype`).
    """
    from devmod_runtime._launch.arguments import Signature

    if info.interface is None or not any(param.members for param in info.interface.params):
        return
    import numpy as np

    launcher = SimpleNamespace(kind="", interface=None, bool_bytes=1, vec3_lanes=4)
    for param, argument in zip(
        info.interface.params, Signature("", info.name, info, launcher, None).arguments, strict=True
    ):
        dtype = attempt(partial(getattr, param, "dtype")) if param.members else None
        if dtype is None or argument.pack is None:
            continue
        record = np.zeros((), dtype) if dtype.names else np.zeros(dtype.shape, dtype.base)
        size = devmod.backend.parse_dtype(param.type)[2]
        may_be_longer = any(member.shape for member in param.members)
        wrong = dtype.itemsize < size if may_be_longer else dtype.itemsize != size
        if dtype.names and wrong:
            raise Breach(f"the dtype of a struct of {size} bytes has {dtype.itemsize}")
        try:
            packed = argument.pack(record)
        except devmod.backend.ConversionError as error:
            check_text(str(error), "the error of a record")
            continue
        if len(packed) != size:
            raise Breach(f"a struct of {size} bytes is packed to {len(packed)}")


def use_variants(info: devmod.FunctionInfo) -> None:
    """Evaluate the launch of each variant of a tuned function, and make its interface."""
    tuning = devmod.backend.tuning_of(info.interface)
    if tuning is None or info.interface is None:
        return
    arguments = dict.fromkeys(devmod.backend.integer_arguments(info.interface), 1000)
    for variant in tuning.variants:
        attempt(partial(devmod.backend.variant_interface, info.interface, variant))
        try:
            sizes = (*variant.grid_of(arguments), *variant.block_of())
        except devmod.backend.ExpressionError as error:
            check_text(str(error), "the error of a launch")
            continue
        if len(sizes) > 6 or min(sizes, default=0) < 0:
            raise Breach(f"a launch has the sizes {sizes}")


def attempt(act: Callable[[], Any]) -> Any:
    """Return what a call returns; None if it raises an error of devmod, whose text is checked."""
    try:
        return act()
    except devmod.DevmodError as error:
        check_error(error)
        return None


#: Kinds whose runtime is not installed. Each look-up of one lists the installed distributions,
#: which would take most of the time.
_missing: set[str] = set()


def with_runtime(kind: str, act: Callable[[], Any]) -> Any:
    """Return what a call returns that needs the runtime of a kind; None if the runtime is missing
    or raises an error of devmod.
    """
    if kind in _missing:
        return None
    try:
        return act()
    except devmod.DevmodError as error:
        check_error(error)
        if isinstance(error, devmod.NotRegisteredError):
            _missing.add(kind)
        return None


def check_error(error: BaseException) -> None:
    """Raise Breach if the text of an error is too short, too long, or has characters that control a
    terminal.
    """
    text = str(error)
    if not 10 < len(text) < 10_000:
        raise Breach(f"an error of {len(text)} characters: {text[:300]!r}")
    check_text(text, f"{type(error).__name__}")
    for note in getattr(error, "__notes__", ()):
        check_text(note, "a note")


def check_constants(data: bytes) -> None:
    """Read every constant of a const_loader, and raise Breach if a view is longer than the
    constant's bytes in the file.
    """
    try:
        sizes = {name: len(value[2]) for name, value in mutation.unpack_all(data)[0]}
    except (ValueError, TypeError, IndexError):
        sizes = {}
    module = devmod.load_from_bytes("const_loader", data)
    if module.save_to_bytes() != data:
        raise Breach("a const_loader saves other bytes than it was loaded from")
    for symbol in module.functions:
        module.get_function(symbol)()
    for name, size in sizes.items():
        check_array(module.get_global(name), size)


def check_array(array: Any, size: int) -> None:
    """Read every view of an array over `size` bytes, and raise Breach if one is longer."""
    repr(array)
    with suppress(BufferError, TypeError, ValueError, NotImplementedError):
        view = memoryview(array)
        if view.nbytes > size:
            raise Breach(
                f"a view of {view.nbytes} bytes over {size}: {array.dtype} of shape {array.shape}"
            )
        view.tobytes()
        lengths: tuple[int, ...] = view.shape or ()
        if prod(length or 1 for length in lengths) < 4096:  # [2**31, 0] makes as many lists
            view.tolist()
    with suppress(BufferError, TypeError, ValueError, NotImplementedError, RuntimeError):
        import numpy as np

        shared = np.from_dlpack(array)
        if shared.nbytes > size:
            raise Breach(
                f"DLPack shares {shared.nbytes} bytes of {size}: {array.dtype} of shape {array.shape}"
            )
        shared.sum()
    if size < 1 << 20:
        with suppress(BufferError, TypeError, ValueError, NotImplementedError):
            array.numpy()


def read_bundle(data: bytes) -> None:
    """Read a bundle with `devmod.loads`, and one in eight also with `devmod.load` from a file."""
    root = devmod.loads(data)
    use(root)
    if not data[-1] % 8:
        path = scratch("k.devmod", data)
        if quietly(lambda: devmod.dumps(devmod.load(path)) != devmod.dumps(root)):
            raise Breach("load and loads differ")


def read_lookup(data: bytes) -> None:
    """A bundle of several pages: look-ups by pages, then all modules, then the same look-ups."""
    root: Any = devmod.loads(data)
    for _ in range(2 if root.kind == "bundle" else 0):
        for name in ("f", "g", "größe", "h", "none", ""):
            for module in attempt(partial(root._owners_of, name)) or ():
                if name not in module.function_names:
                    raise Breach(f"a module without the function {name!r} is found for it")
                attempt(module.save_to_bytes)
        attempt(lambda: root.imports)
    use(root)


def read_wire(kind: str, data: bytes) -> None:
    """Read a module's bytes in a valid bundle, and with `load_from_bytes`."""
    packed, blobs = mutation.assemble(
        [mutation.Pairs([("roots", [0]), ("modules", [mutation.Pairs([("kind", kind)])])])], [data]
    )
    module = devmod.loads(mutation.bundle_of(packed, blobs))
    if module.save_to_bytes() != data:
        raise Breach("a stored module saves other bytes")
    use(module)
    real = with_runtime(kind, lambda: devmod.load_from_bytes(kind, data))
    if real is not None:
        if real.save_to_bytes() != data:
            raise Breach("a real module saves other bytes than it was loaded from")
        use(real)


def read_programs(data: bytes) -> None:
    """Read programs, and compute their lengths; what is read is written as a program that is the
    same.
    """
    from devmod_readers.programs import (
        ExpressionError,
        check_names,
        evaluate,
        interface_of,
        pack_steps,
        read_program,
    )

    read_wire("program", data)
    module: Any = devmod.load_from_bytes("program", data)
    for name, info in module.functions.items():
        check_text(repr(info), "repr of a program")
        attempt(partial(module.get_function, name))
        program = attempt(partial(read_program, name, info, module.code.get(name, b"")))
        if program is None:
            continue
        # A nan is not itself.
        if repr(read_program(name, interface_of(program), pack_steps(program))) != repr(program):
            raise Breach(f"a program that was written differs when it is read: {program!r:.300}")
        program.lifetimes()
        if attempt(lambda program=program: [check_names(program)]) is None:  # type: ignore[misc, func-returns-value]
            continue
        expressions: list[Any] = []
        for each in program.arrays():
            expressions += each.shape
        for step in program.steps:
            expressions += (*step.grid, *step.threads, *step.block)
        values: dict[Any, int] = dict.fromkeys([each.name for each in program.scalars], 3)
        values |= dict.fromkeys([each for each in expressions if isinstance(each, str)], 3)
        for expression in expressions:
            try:
                if not -(2**63) <= evaluate(expression, values) < 2**63:
                    raise Breach(f"{expression!r:.300} has more than 64 bits")
            except ExpressionError as error:
                check_text(str(error), "the error of an expression")


def read_constants(data: bytes) -> None:
    """Read a const_loader's bytes."""
    use(devmod.load_from_bytes("const_loader", data))
    check_constants(data)


def read_signatures(data: bytes) -> None:
    """Read a file of signatures with its payload, or a payload."""
    from devmod_trust._envelope import name_problem, read_envelope, read_statement

    try:
        if b'"signatures"' in data:
            envelope = read_envelope(data)
            if read_envelope(envelope.to_bytes()) != envelope:
                raise Breach("an envelope that was written differs when it is read")
            data = envelope.payload
        statement = read_statement(data)
        if problem := name_problem(statement.name):
            raise Breach(problem)
    except ValueError as error:
        check_error(devmod.TrustError(f"the file of signatures: {error}"))


def read_metadata(data: bytes) -> None:
    """Read the text of a metadata file."""
    for info in devmod.load_metadata_from_json(data).values():
        check_text(repr(info), "repr(FunctionInfo)")
    with suppress(UnicodeDecodeError):
        devmod.load_metadata_from_json(data.decode())


def read_triton_record(data: bytes) -> None:
    """Read a record of Triton's kernels, and what is written of it."""
    from devmod_readers.triton import choices_text, read_choices, read_record, write_record

    version, kernels, choices = read_record(data, "the record")
    text = write_record(version, kernels, choices)
    again, same, _ = read_record(text, "the record")
    if again != version or write_record(again, same, choices) != text:
        raise Breach("a record is not the same after it was written")
    check_text(str(kernels), "the kernels")
    file = choices_text(version, choices)
    if choices_text(*read_choices(file, "the choices")) != file:
        raise Breach("the choices of a file are not the same after they were written")


def read_raw(data: bytes) -> None:
    """Read a raw payload with its metadata file with `load_from_file`."""
    suffix = RAW[data[0] % len(RAW)] if data else "cl"
    metadata, _, payload = data[1:].partition(b"\0")
    scratch("k.tvm_meta.json", metadata)
    module = devmod.load_from_file(scratch(f"k.{suffix}", payload))
    use(module)


def read_payload(kind: str, data: bytes) -> None:
    """Save and load a payload: the save reads its architecture."""
    spec = devmod.backend.find_spec(kind)
    if spec is None:
        raise Breach(f"no spec of {kind}")
    info = {"f": devmod.FunctionInfo("f", ["handle"])}
    for fmt in spec.formats:
        code: Any = spec.unpack(data) if spec.unpack is not None else data
        module = devmod.create_with_fallback(
            kind, {"f": code} if spec.shader_map else code, fmt, info
        )
        use(devmod.loads(devmod.dumps(module)))


def read_tvm_imports(data: bytes) -> None:
    """Read TVM's imports blob."""
    root = tvm.load_imports(data)
    if tvm.dump_imports(root) != data:
        raise Breach("dump_imports gives other bytes than load_imports took")
    use(root)


def read_tvm_module(kind: str, data: bytes) -> None:
    """Read TVM's bytes of one module."""
    module = tvm.load_module_bytes(kind, data)
    if tvm.dump_module_bytes(module) != data:
        raise Breach("dump_module_bytes gives other bytes than load_module_bytes took")
    use(module)


def read_library(data: bytes) -> None:
    """Read a shared library: as one that TVM exported, and as a payload by its ELF machine."""
    path = scratch("k.so", data)
    with suppress(FileNotFoundError):
        os.remove(path[:-3] + ".tvm_meta.json")
    root = attempt(lambda: tvm.load_library(path))
    if root is not None:
        use(root)
    scratch("k.tvm_meta.json", b'{"func_info": {"f": {"name": "k", "arg_types": ["handle"]}}}')
    attempt(lambda: devmod.load_from_file(path))


# -- sources and shaders


def quietly(act: Callable[[], Any]) -> Any:
    """Return what a call returns. Its warnings are checked and not shown."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = act()
    for each in caught:
        check_text(str(each.message), "a warning")
    return result


def read_wgsl(data: bytes) -> None:
    """Read WGSL with the reader, with and without values of constants, and with the checks before
    naga.
    """
    from devmod_wgsl import check_for_naga, read_wgsl

    text = data.decode("utf-8", "replace")
    for act in (
        lambda: read_wgsl(text, "k.wgsl"),
        lambda: read_wgsl(text, "k.wgsl", {"TILE": 4, "scale": 0.5}),
        lambda: check_for_naga(text, "k.wgsl"),
    ):
        attempt(act)
    module = attempt(lambda: quietly(lambda: devmod.compile(text, "webgpu")))
    if module is not None:
        use(module)


def read_spirv(data: bytes) -> None:
    """Read SPIR-V with the build side's reader, and with the runtime's if that is installed."""
    from devmod_readers.spirv import (
        SpirvConstants,
        loses_turns,
        read_axes,
        read_code,
        read_imports,
        read_kernels,
        read_lengths,
        read_module,
        read_samplings,
        reflect,
        relax_atomics,
        with_atomic_fences,
    )
    from devmod_targets.spirv_ptx import translate

    module = attempt(lambda: read_module(data))
    if module is None:
        return
    attempt(lambda: (read_kernels(module), read_imports(module)))
    rewrites = (with_atomic_fences, relax_atomics)
    for read in (read_axes, read_lengths, read_samplings, loses_turns, *rewrites, read_code):
        attempt(partial(read, module))
    found: list[Any] = []
    for declared in (True, False):
        found += attempt(partial(reflect, module, "k.spv", include_unused=declared)) or []
    for given in (1, -1, True, math.nan):
        values = {
            each.id: given
            for each in attempt(lambda: SpirvConstants(module).listed) or ()
            if each.id is not None
        }
        attempt(
            lambda values=values: reflect(  # type: ignore[misc]
                module, "k.spv", include_unused=False, constants=SpirvConstants(module, values)
            )
        )
    attempt(partial(translate, data))
    with suppress(ImportError):
        from devmod_vulkan._shader import Shader

        spec = devmod.backend.find_spec("vulkan")
        packed = spec.unpack(data) if spec is not None and spec.unpack is not None else b""
        for symbol in {each.symbol for each in found}:
            attempt(
                partial(
                    Shader, "f", devmod.FunctionInfo(symbol, ["handle", "handle", "int32"]), packed
                )
            )


def read_source(target: str, data: bytes) -> None:
    """Compile a source that libclang reads."""
    text = data.decode("utf-8", "replace").replace("\0", " ")
    if _OPEN_TEMPLATES.search(text):
        return
    module = quietly(lambda: devmod.compile(text, target))
    use(module)


def read_closed(data: bytes) -> None:
    """Parse a source payload as a receiver's compiler does: whether the files that it names exist
    must make no difference.
    """
    from devmod.targets.opencl import SPEC
    from devmod_readers.sources import closed_source
    from devmod_targets.authoring.clang import load_libclang
    from devmod_targets.authoring.zig import run_zig

    text = data.decode("utf-8", "replace").replace("\0", " ")
    if _OPEN_TEMPLATES.search(text):
        return
    folders = [os.path.join(_folder(), name) for name in ("herefolder", "gonefolder")]
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    Path(folders[0], "named.h").write_bytes(b"#define VALUE 1\n")
    library = load_libclang(SPEC, "OpenCL C")
    for kind, options in (
        ("opencl", ("-x", "cl", "-cl-std=CL2.0", "-target", "spir64")),
        ("rocm", ("-x", "c++", "-std=c++17", "-trigraphs")),
    ):
        seen = []
        for folder in folders:
            base = os.path.basename(folder)
            closed = attempt(
                partial(closed_source, kind, text.replace("FOLDER", folder).replace("BASE", base))
            )
            if closed is None:
                break
            main = os.path.join(folder, "k.c")
            arguments = [*options, "-nostdinc", f"-I{folder}", "-ferror-limit=0", "-Wno-everything"]
            unit = library.parse(
                main, arguments, [(main, closed)], kind=kind, description="the source"
            )
            names = [
                f"{each.location.line}: {each.spelling}"
                for each in (*unit.cursor.get_children(), *unit.diagnostics)
            ]
            # A mutated text may have the path as program text.
            seen.append([name.replace(base, "BASE") for name in names])
            if list(unit.get_includes()):
                raise Breach("a source payload includes a file")
            if "sm" in closed:  # the keyword, or a part of it
                language = "cl -cl-no-stdinc" if kind == "opencl" else "c++ -std=gnu++17"
                command = f"clang -x {language} -target x86_64-linux-gnu -O1 -fno-pic -nostdinc -ferror-limit=0 -w -c k.c -o k.o"
                result = run_zig(command.split(), {"k.c": closed.encode()}, kind=kind)
                seen[-1] += [str(result.status), *result.log.replace(base, "BASE").splitlines()]
        if len(seen) == 2 and seen[0] != seen[1]:
            raise Breach(
                f"a source payload depends on a file: {sorted(set(seen[0]) ^ set(seen[1]))[:3]}"
            )


def read_cuda(data: bytes) -> None:
    """Read a CUDA C++ source with libclang, without NVRTC."""
    from devmod_readers.nvidia import KernelEntry
    from devmod_targets.authoring import CompileRequest, complete_source
    from devmod_targets.cuda.signatures.reader import match_kernels
    from devmod_targets.cuda.signatures.source import read_source as read_kernels

    text = data.decode("utf-8", "replace").replace("\0", " ")
    if _OPEN_TEMPLATES.search(text):
        return
    request = CompileRequest(text, devmod.Target("cuda"))
    source = attempt(lambda: complete_source(request, lambda _: True))
    kernels = source and attempt(
        lambda: read_kernels(request, source, macros={}, expressions=("g<float>",))
    )
    if kernels:
        entries = {
            each.symbol: KernelEntry(each.symbol, ()) for each in kernels.by_signature.values()
        }
        for kernel in match_kernels(entries, {}, kernels).values():
            attempt(partial(kernel.function, None, (), dict.fromkeys(entries, -1), {}))


def compile_naga(data: bytes) -> None:
    """Compile WGSL with wgpu if the checks accept it: it may not end the process."""
    text = data.decode("utf-8", "replace")
    from devmod_wgsl import read_wgsl

    entries = read_wgsl(text, "k.wgsl")
    if not entries or not naga_devices():
        return
    module = quietly(lambda: devmod.compile(text, "webgpu"))
    real = devmod.load_from_bytes("webgpu", module.save_to_bytes())
    for name in list(real.functions)[:2]:
        attempt(partial(real.get_function, name))


@cache
def naga_devices() -> bool:
    """Return whether WebGPU has a device on this machine."""
    try:
        return bool(devmod.device("webgpu"))
    except devmod.DevmodError:
        return False


# -- commands


def run_command(*arguments: str) -> tuple[int, str, str]:
    """Run a command in this process and return its exit code, standard output and standard
    error.
    """
    from devmod_workbench._cli import main

    out = io.StringIO()
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


def read_inspect(suffix: str, data: bytes) -> None:
    """Run `devmod inspect` for text and for JSON."""
    if suffix == "raw":
        suffix = RAW[data[0] % len(RAW)] if data else "cl"
        metadata, _, data = data[1:].partition(b"\0")
        path = scratch(f"i.{suffix}", data)
        scratch("i.tvm_meta.json", metadata)
    else:
        path = scratch(f"j.{suffix}", data)
    for arguments in (("inspect", path), ("inspect", path, "--json")):
        check_output(arguments, *run_command(*arguments))


def check_output(arguments: tuple[str, ...], code: int, out: str, err: str) -> None:
    """Raise Breach if a command's exit code and output do not agree, or if it printed a traceback
    or invalid JSON.
    """
    what = " ".join((arguments[0], *arguments[2:]))
    if code not in (0, 1):
        raise Breach(f"devmod {what} exits with {code}")
    if _ESCAPED.search(err):
        raise Breach(f"devmod {what} ends in an error that is not devmod's: {err.strip()[-300:]}")
    if (code == 1) != bool(err.strip()):
        raise Breach(f"devmod {what}: exit code {code}, and standard error {err[:200]!r}")
    check_text(out, f"devmod {what}")
    check_text(err, f"devmod {what}, standard error,")
    if "--json" in arguments and code == 0:
        try:
            json.loads(out, parse_constant=_refuse_constant)
        except ValueError as error:
            raise Breach(f"devmod {what} prints no valid JSON: {error}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# -- containers of other compilers


def read_offload(data: bytes) -> None:
    """Take a container of device code apart, and load it as variants."""
    from devmod_readers.offload import OffloadImage, read_images
    from devmod_targets.interop import offload

    images: list[OffloadImage] = attempt(partial(read_images, data)) or []
    size = sum(len(image.data) for image in images)
    # All decompressed bytes are at most 1 MiB and 256 times the file, and images may share bytes.
    if size > 16 * ((1 << 20) + 257 * len(data)):
        raise Breach(f"{len(data)} bytes contain images of {size} bytes")
    module = attempt(partial(offload.load, data, _ADD)) if images else None
    if module is not None:
        use(module)


def read_hidden(data: bytes) -> None:
    """Export the hidden functions of an object for Hexagon, as a compile of objects does."""
    from devmod_targets.hexagon.compile import export_hidden

    attempt(partial(export_hidden, data, ()))


# -- images of CUDA


def read_ptx(data: bytes) -> None:
    """Read the kernels and the variables of a PTX text."""
    from devmod_readers import nvidia, variables

    variables.read_variables(data)
    check_kernels(attempt(lambda: nvidia.read_ptx(data.decode("utf-8", "replace"))))


def read_cubin(data: bytes) -> None:
    """Read the kernels and the variables of a cubin."""
    from devmod_readers import nvidia, variables

    variables.read_variables(data)
    check_kernels(attempt(lambda: nvidia.read_cubin(data)))


def read_amdgpu(data: bytes) -> None:
    """Read the kernels of an AMD code object, and their descriptors."""
    from devmod_readers import amdgpu

    kernels = attempt(lambda: amdgpu.read_code_object(data)) or {}
    attempt(lambda: amdgpu.check_code_object(data, [kernel.symbol for kernel in kernels.values()]))


def read_metal_library(data: bytes) -> None:
    """Read the kernels of a library of Metal."""
    from devmod_readers import metallib

    for function in (attempt(lambda: metallib.read_metallib(data)) or {}).values():
        if len(function.types) != len(function.params):
            raise Breach("a kernel has other types than params")


def read_rocm_binary(data: bytes) -> None:
    """Run the checks of devmod-rocm before a driver gets a code object, or one of a container."""
    if find_spec("devmod_rocm"):
        from devmod_rocm._binaries import read_binary

        for processor in ("gfx1100", "gfx900:sramecc+:xnack-"):
            device: Any = _Processor(processor)
            attempt(partial(read_binary, data, device, ("add",)))


class _Processor:
    """A device as far as the checks of a binary use it."""

    is_simulated = False

    def __init__(self, arch: str) -> None:
        self.arch = arch

    def __str__(self) -> str:
        return "rocm:0"


def read_cuda_binary(data: bytes) -> None:
    """Run the checks of devmod-cuda before a driver gets a binary."""
    if find_spec("devmod_cuda"):
        from devmod_cuda._binaries import read_binary

        device: Any = _Processor("sm_90:ptx8.3")
        for fmt in ("cubin", "fatbin", "ptx"):
            binary = attempt(partial(read_binary, fmt, data, device, ()))
            if binary is not None:
                attempt(partial(check_kernels, binary[1]))


def read_hexagon_binary(data: bytes) -> None:
    """Run the checks of devmod-hexagon before a runner gets a shared object."""
    if find_spec("devmod_hexagon"):
        from devmod_hexagon._binary import MAX_SPAN, read_extent

        found = attempt(partial(read_extent, data))
        if found is not None and not 0 < found[0] <= MAX_SPAN:
            raise Breach(f"a binary of {found[0]} bytes")


def read_includes(data: bytes) -> None:
    """The includes that a build finds in a source, and those that are left in a text without
    includes.
    """
    from devmod_targets._included import unresolved_names
    from devmod_targets.build.closure import SourceTree, closure_of

    source = scratch("k.inc.cl", data)
    closure = closure_of(source, (), SourceTree(), definitions=('NAME "k.inc.cl"',))
    if os.path.realpath(source) not in closure.files:
        raise Breach("a source does not belong to its own files")
    unresolved_names(data.decode("utf-8", "replace"), parents=True)


def read_fatbin(data: bytes) -> None:
    """Read the members of a fatbin, and their images."""
    from devmod_readers import nvidia

    for member in attempt(lambda: nvidia.fatbin_members(data)) or ():
        check_text(f"{member!r}", "the repr of a fatbin's member")
        image = attempt(partial(getattr, member, "data"))
        if image is not None and len(image) > member.size:
            raise Breach(f"a member of {member.size} bytes has {len(image)}")


def read_mangled(data: bytes) -> None:
    """Read the mangled name of a kernel, and that of the probe's variable."""
    from devmod_targets.authoring import _mangled

    symbol = data.decode("utf-8", "replace")
    for parts in (_mangled.parse_function(symbol), _mangled.parse_function("_Z" + symbol)):
        if parts is not None and not parts.name:
            raise Breach("a function without a name")
    for type_ in _mangled.parse_signature(symbol) or ():
        type_.spelling()


def check_kernels(kernels: Any) -> None:
    """Raise Breach if the parameters of a kernel overlap."""
    for name, entry in (kernels or {}).items():
        end = 0
        for place in sorted(entry.params or (), key=lambda place: (place.offset, place.size)):
            if place.offset < end:
                raise Breach(f"two parameters of {name!r} overlap")
            end = place.offset + place.size


# -- files


@cache
def _folder() -> str:
    return tempfile.mkdtemp(
        prefix="devmod-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None
    )


def scratch(name: str, data: bytes) -> str:
    """Write a file of this process and return its path."""
    path = os.path.join(_folder(), name)
    with suppress(FileNotFoundError):
        os.remove(path)  # a mapped file is not changed in place
    Path(path).write_bytes(data)
    return path


def remove_scratch() -> None:
    """Remove the files of this process."""
    import shutil

    shutil.rmtree(_folder(), ignore_errors=True)
    _folder.cache_clear()


def read_onnx(data: bytes) -> None:
    """Read a model. Its constants have no more elements than the file and the external data below
    its folder have bytes.
    """
    from devmod_models.onnx import Range, read_model

    Path(scratch("weights.bin", bytes(64)))
    model = read_model(scratch("k.onnx", data), {"": [1, (2, 3)]} if data[-1:] < b"\x80" else {})
    known = {"", *model.inputs, *model.constants}
    for name, (_, shape) in model.inputs.items():
        for length in shape:
            is_valid = length.low <= length.high if isinstance(length, Range) else length > 0
            if not is_valid:
                raise Breach(f"the input {name!r} has the shape {shape}")
    for node in model.nodes:
        if not known.issuperset(node.inputs):
            raise Breach(f"the node {node.operator!r} uses a value before it is made")
        known.update(node.outputs)
    if not known.issuperset(model.outputs):
        raise Breach(f"an output of {model.outputs} is made by no node")
    for each in model.constants.values():
        if each.nbytes > len(data) + 64:
            raise Breach(f"a constant of {each.nbytes} bytes over {len(data)}")
        each.tobytes()


# -- the list


def _read_js(data: bytes) -> None:
    from fuzzing.javascript import compare_bundle

    compare_bundle(data)


def _read_c(data: bytes) -> None:
    from fuzzing.c_reader import compare_bundle

    compare_bundle(data)


def _read_differential(data: bytes) -> None:
    from fuzzing.differential import read

    read(data)


def _mutate_differential(data: bytes, random: Random) -> bytes:
    from fuzzing.differential import mutate

    return mutate(data, random)


def _differential_seeds() -> list[bytes]:
    from fuzzing.differential import seeds

    return seeds()


def _read_in_all(kind: str, data: bytes) -> None:
    """Compare the readers of a module's bytes; of metadata, for the kind ""."""
    from fuzzing.differential import compare, compare_module

    if kind:
        compare_module(kind, data)
    else:
        compare(data)


def _read_specification(data: bytes) -> None:
    from fuzzing.specification import compare_bundle

    compare_bundle(data)


# Where to change: a reader that `make fuzz` fuzzes
#   here: `_readers`; `seeds.py` has the sound bytes
#   tests: `tests/fuzz/test_fuzz.py`, `tests/fuzz/test_harness.py`
def _readers() -> Iterator[Reader]:
    bundle, msgpack, elf, tvm_blob = (
        mutation.mutate_bundle,
        mutation.mutate_msgpack,
        mutation.mutate_elf,
        mutation.mutate_tvm,
    )
    files = partial(seeds.golden, ".devmod")
    blobs = partial(seeds.vectors, "tvm", "imports")
    yield Reader("bundle", read_bundle, bundle, files, passes=4, weight=4, executions=2000)
    for kind in KINDS:
        yield Reader(
            f"module-{kind}",
            partial(read_wire, kind),
            msgpack,
            partial(seeds.wire, kind),
            passes=6,
            weight=1,
            executions=500,
        )
    programs = partial(seeds.golden, "program.bytes")
    yield Reader(
        "module-program",
        read_programs,
        mutation.mutate_program,
        programs,
        passes=10,
        executions=1200,
    )
    yield Reader(
        "const_loader",
        read_constants,
        msgpack,
        partial(seeds.wire, "const_loader"),
        passes=6,
        executions=2000,
    )
    yield Reader(
        "signatures",
        read_signatures,
        mutation.mutate_json,
        seeds.signatures,
        weight=1,
        executions=2000,
    )
    yield Reader(
        "metadata",
        read_metadata,
        mutation.mutate_json,
        seeds.metadata,
        passes=2,
        weight=1,
        executions=3000,
    )
    yield Reader(
        "triton-record",
        read_triton_record,
        mutation.mutate_json,
        seeds.triton_records,
        passes=4,
        weight=1,
        executions=2000,
    )
    yield Reader(
        "raw",
        read_raw,
        mutation.mutate_head(mutation.mutate_json, mutation.mutate_bytes),
        seeds.raw,
        passes=4,
        weight=1,
        executions=600,
    )
    for kind, suffixes in {
        "cuda": (".cubin", ".ptx", ".fatbin"),
        "rocm": (".hsaco",),
        "hexagon": (".so",),
        "vulkan": (".spv",),
    }.items():
        mutate = mutation.mutate_spirv if kind == "vulkan" else elf
        yield Reader(
            f"payload-{kind}",
            partial(read_payload, kind),
            mutate,
            partial(_payloads, suffixes),
            passes=12,
            weight=1,
            executions=200,
        )
    ptx = [*_payloads((".ptx",)), seeds.PTX.encode()]
    yield Reader(
        "simulated-ptx",
        load_simulated,
        mutation.mutate_text(seeds.words_of(ptx)),
        lambda: list(ptx),
        passes=20,
    )
    yield Reader(
        "ptx",
        read_ptx,
        mutation.mutate_text(seeds.words_of(ptx)),
        lambda: list(ptx),
        passes=8,
        weight=1,
        executions=600,
    )
    yield Reader(
        "cubin",
        read_cubin,
        elf,
        partial(_payloads, (".cubin",)),
        passes=4,
        weight=1,
        executions=600,
    )
    yield Reader(
        "code-object",
        read_amdgpu,
        elf,
        partial(_payloads, (".hsaco",)),
        passes=4,
        weight=1,
        executions=600,
    )
    yield Reader(
        "metallib",
        read_metal_library,
        mutation.mutate_bytes,
        seeds.metallibs,
        passes=4,
        weight=1,
        executions=600,
    )
    yield Reader(
        "fatbin",
        read_fatbin,
        mutation.mutate_bytes,
        partial(_payloads, (".fatbin",)),
        passes=4,
        weight=1,
        executions=400,
    )
    yield Reader(
        "mangled",
        read_mangled,
        mutation.mutate_bytes,
        lambda: list(seeds.MANGLED),
        passes=4,
        weight=1,
        executions=2000,
    )
    yield Reader(
        "tvm-imports",
        read_tvm_imports,
        tvm_blob,
        lambda: [*blobs(), *seeds.golden(".tvmimports")],
        passes=4,
        weight=3,
        executions=1200,
    )
    for kind in (*KINDS, "const_loader"):
        yield Reader(
            f"tvm-module-{kind}",
            partial(read_tvm_module, kind),
            tvm_blob,
            partial(_tvm_seeds, kind),
            passes=4,
            weight=1,
            executions=300,
        )
    yield Reader("offload", read_offload, elf, seeds.containers, passes=6, executions=600)
    kpack = [each for each in seeds.containers() if each[:4] == b"KPAK"]
    yield Reader(
        "kpack",
        read_offload,
        mutation.mutate_kpack,
        lambda: list(kpack),
        passes=6,
        weight=1,
        executions=300,
    )
    rocm = [*_payloads((".hsaco",)), *seeds.containers()]
    yield Reader(
        "binary-rocm", read_rocm_binary, elf, lambda: list(rocm), passes=8, weight=1, executions=200
    )
    cuda = [*_payloads((".cubin", ".ptx", ".fatbin"))]
    yield Reader(
        "binary-cuda", read_cuda_binary, elf, lambda: list(cuda), passes=8, weight=1, executions=200
    )
    yield Reader(
        "binary-hexagon",
        read_hexagon_binary,
        elf,
        partial(_payloads, (".so",)),
        passes=2,
        weight=1,
        executions=300,
    )
    yield Reader(
        "pages",
        read_lookup,
        mutation.mutate_pages,
        seeds.lookups,
        passes=6,
        weight=1,
        executions=500,
    )
    includes = seeds.includes()
    words = seeds.words_of(includes)
    yield Reader(
        "includes",
        read_includes,
        mutation.mutate_text(words),
        lambda: list(includes),
        passes=8,
        weight=1,
        executions=400,
    )
    closed = seeds.closed_sources()
    words = [
        *seeds.words_of(closed),
        "\\\n",
        "\\ \n",
        "??/\n",
        "\r",
        "/*",
        "*/",
        "//",
        "\f",
        "\u00a0",
        "\\\u00a0\n",
    ]
    words += [
        "\\\x1c\n",
        "??=",
        "#??=",
        "##",
        "%:",
        "__as##m__",
        "\\u0069",
        '#include "named.h"',
        "asm(",
        'S(.inc) "',
        '"\n"',
        'R"(',
    ]
    yield Reader(
        "closed-source",
        read_closed,
        mutation.mutate_text(words),
        lambda: list(closed),
        passes=10,
        executions=60,
        native=True,
    )
    yield Reader(
        "hidden-functions",
        read_hidden,
        elf,
        partial(_payloads, (".so",)),
        passes=4,
        weight=1,
        executions=300,
    )
    yield Reader("tvm-library", read_library, elf, seeds.libraries, passes=2, executions=200)
    manifest = manifests.MANIFEST.encode()
    yield Reader(
        "manifest",
        lambda data: manifests.read_manifest_file(data, scratch, Breach),
        mutation.mutate_text(seeds.words_of([manifest])),
        lambda: [manifest],
        passes=12,
        executions=150,
    )
    yield Reader(
        "safetensors",
        lambda data: manifests.read_safetensors(data, scratch, Breach),
        mutation.mutate_head(mutation.mutate_json, mutation.mutate_bytes),
        manifests.safetensors_seeds,
        passes=4,
        weight=1,
        executions=600,
    )
    yield from _source_readers()
    yield Reader(
        "simulated-instructions",
        _run_instructions,
        mutation.mutate_bytes,
        lambda: [number.to_bytes(4, "little") for number in range(16)],
        executions=640,
        native=True,
    )
    yield Reader("javascript", _read_js, bundle, files, passes=2, executions=1500, native=True)
    yield Reader(
        "differential",
        _read_differential,
        _mutate_differential,
        _differential_seeds,
        passes=20,
        weight=4,
        executions=3200,
        native=True,
    )
    yield Reader("c-reader", _read_c, bundle, files, passes=2, executions=1500, native=True)
    yield Reader("specification", _read_specification, bundle, files, passes=6, executions=1000)
    mutators: dict[str, mutation.Mutator] = {"program": mutation.mutate_program}
    for kind in ("webgpu", "const_loader", "opencl", "program"):
        yield Reader(
            f"differential-{kind}",
            partial(_read_in_all, kind),
            mutators.get(kind, msgpack),
            programs if kind == "program" else partial(seeds.wire, kind),
            passes=20,
            weight=1,
            executions=1000,
            native=True,
        )
    yield Reader(
        "differential-metadata",
        partial(_read_in_all, ""),
        mutation.mutate_json,
        seeds.metadata,
        passes=20,
        weight=1,
        executions=1000,
    )
    yield Reader(
        "inspect-devmod", partial(read_inspect, "devmod"), bundle, files, passes=4, executions=300
    )
    yield Reader(
        "inspect-tvmimports",
        partial(read_inspect, "tvmimports"),
        tvm_blob,
        blobs,
        passes=4,
        weight=1,
        executions=200,
    )
    yield Reader(
        "inspect-so",
        partial(read_inspect, "so"),
        elf,
        seeds.libraries,
        passes=2,
        weight=1,
        executions=80,
    )
    yield Reader(
        "inspect-raw",
        partial(read_inspect, "raw"),
        mutation.mutate_head(mutation.mutate_json, elf),
        seeds.raw,
        passes=4,
        executions=250,
    )


def load_simulated(data: bytes) -> None:
    """Load a module of PTX as the simulated GPU does."""
    if not find_spec("devmod_simulators"):
        return
    from devmod_simulators.ptx import Module, PtxError

    try:
        module = Module(data.decode("utf-8", "replace"))
        module.check()
    except PtxError as error:
        if len(str(error)) > 1000:
            raise Breach(f"an error of {len(str(error))} characters") from None


def _run_instructions(data: bytes) -> None:
    if find_spec("devmod_simulators"):
        from fuzzing.instructions import compare_instructions

        compare_instructions(data)


def _source_readers() -> Iterator[Reader]:
    def texts(
        name: str, suffix: str, *own: str
    ) -> tuple[mutation.Mutator, Callable[[], list[bytes]]]:
        found = [*seeds.examples(name, suffix), *map(str.encode, own)]
        return mutation.mutate_text(seeds.words_of(found)), lambda: list(found)

    wgsl, opencl, metal, cuda = (
        texts(*each)
        for each in (
            ("webgpu", ".wgsl", seeds.WGSL, seeds.WGSL_MACROS),
            ("opencl", ".cl", seeds.OPENCL),
            ("metal", ".metal", seeds.METAL),
            ("cuda", ".cu", seeds.CUDA),
        )
    )
    yield Reader("cuda-source", read_cuda, *cuda, passes=10, executions=40, native=True)
    yield Reader("wgsl", read_wgsl, *wgsl, passes=10, weight=4, executions=400)
    yield Reader("wgsl-naga", compile_naga, *wgsl, passes=10, weight=3, executions=25, native=True)
    yield Reader(
        "spirv", read_spirv, mutation.mutate_spirv, seeds.spirv, passes=4, weight=3, executions=4800
    )
    yield Reader(
        "onnx",
        read_onnx,
        mutation.mutate_onnx,
        seeds.onnx_models,
        passes=8,
        weight=3,
        executions=600,
        native=True,
    )
    yield Reader(
        "opencl-source",
        partial(read_source, "opencl"),
        *opencl,
        passes=10,
        executions=40,
        native=True,
    )
    yield Reader(
        "metal-source", partial(read_source, "metal"), *metal, passes=10, executions=40, native=True
    )


def _payloads(suffixes: tuple[str, ...]) -> list[bytes]:
    payloads: list[bytes] = []
    for suffix in suffixes:
        payloads += seeds.vectors("arch", suffix)
    return payloads


def _tvm_seeds(kind: str) -> list[bytes]:
    """Return TVM's bytes of a kind: those of its own files, and devmod's valid module dumped in
    TVM's form.
    """
    made = seeds.tvm_modules(kind)
    for data in seeds.wire(kind)[:1]:
        with suppress(devmod.DevmodError):
            packed, blobs = mutation.assemble(
                [mutation.Pairs([("roots", [0]), ("modules", [mutation.Pairs([("kind", kind)])])])],
                [data],
            )
            made.append(tvm.dump_module_bytes(devmod.loads(mutation.bundle_of(packed, blobs))))
    return made or [b""]


#: Every reader by its name.
READERS: dict[str, Reader] = {reader.name: reader for reader in _readers()}
