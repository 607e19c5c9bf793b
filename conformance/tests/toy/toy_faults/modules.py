"""Faults of modules: creating, loading, saving and inspecting them, and the entry points of the
distribution.
"""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
import tempfile

import devmod_toy._entries as entries
from devmod_toy import TARGET
from devmod_toy._device import driver
from devmod_toy._module import ToyModule, kernels

import devmod
from devmod import FunctionInfo, Interface
from devmod.backend import decode
from toy_faults._fault import fault, replaces

BROKEN = "PluginError: devmod.{}.toy is broken: devmod-toy 1.0 returned {}. Report it to its publisher, or uninstall it"

# -- the entry points

# load_from_bytes is not registered.
fault(
    "no_loader",
    "R1-keys",
    reason="devmod.load_from_bytes.toy is not registered",
    without=(("devmod.load_from_bytes", "toy"),),
)
# The name of an entry-point group is misspelt.
fault(
    "misspelt_group",
    "R1-groups",
    reason="devmod-toy 1.0 declares the entry point 'toy' in the group 'devmod.devices', which devmod-core … does not have, so the entry "
    "point is ignored. Did you mean 'devmod.device'?",
    groups=("devmod.devices",),
)
# An alias of the target has no loader.
fault(
    "no_alias",
    "R2-aliases",
    reason="NotRegisteredError: devmod.load_from_bytes.toyish is not registered: devmod-toy 1.0 is installed and does not provide it. To "
    "upgrade it: pip install --upgrade devmod-toy",
    without=(("devmod.load_from_bytes", "toyish"),),
)
# A format has no file loader.
fault(
    "no_format",
    "R2-formats",
    reason="devmod.load_from_file.toybin is not registered, but toy is",
    without=(("devmod.load_from_file", "toybin"),),
)


# -- create


@replaces(entries, "create", "R11", reason=BROKEN.format("create", "NoneType, not a devmod.Module"))
def no_module(before, code, fmt, fmap, source):
    """create returns None."""
    return


# The kind of a module differs from its entry.
fault(
    "other_kind", "R11", "R18", reason=BROKEN.format("create", "a module of kind 'toy2', not 'toy'")
).sets(ToyModule, "kind", "toy2")


@replaces(entries, "create", "R14", reason="FormatError: toybin is not supported")
def one_format(before, code, fmt, fmap, source):
    """create raises for one of the formats."""
    if fmt == "toybin":
        raise devmod.FormatError("toybin is not supported", kind="toy")
    return before(code, fmt, fmap, source)


@replaces(
    entries,
    "create",
    "R12",
    "R18",
    "R23-same-kind",
    reason="the function names of a created module: expected ['negate', 'axpy'], got ['axpy', 'negate']",
)
def sorted_functions(before, code, fmt, fmap, source):
    """create sorts the functions."""
    return before(code, fmt, dict(sorted(fmap.items())), source)


@replaces(
    entries,
    "create",
    "R13",
    "R26",
    reason="the source: expected {'listing': '; a listing'}, got {}",
)
def loses_source(before, code, fmt, fmap, source):
    """create drops the source."""
    return before(code, fmt, fmap, None)


@replaces(entries, "create", "R39", reason="create does subprocess.Popen(…")
def shells_out(before, code, fmt, fmap, source):
    """create starts a program."""
    subprocess.run([sys.executable, "-S", "-c", ""], check=True)
    return before(code, fmt, fmap, source)


@replaces(
    ToyModule,
    "__init__",
    "R40-wraps",
    reason="CompileError: the toy payload does not begin with the line 'toy 1'",
)
def reads_payload(before, self, *args, **keywords):
    """Creating a module parses the payload."""
    before(self, *args, **keywords)
    kernels(self.format, self.code)


# -- load_from_bytes


@replaces(
    entries,
    "load_from_bytes",
    "R5-buffers",
    reason="TypeError: a bytes-like object is required, not 'bytearray'",
)
def bytes_only(before, data):
    """load_from_bytes accepts bytes and no other buffer."""
    if not isinstance(data.obj, bytes):
        raise TypeError(f"a bytes-like object is required, not {type(data.obj).__name__!r}")
    return before(data)


@replaces(
    entries,
    "load_from_bytes",
    "R5-no-file",
    reason="load_from_bytes opens … to write; does tempfile.mkstemp(…",
)
def temporary_file(before, data):
    """load_from_bytes writes a temporary file."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        return before(data)


@replaces(
    entries,
    "load_from_bytes",
    "R24-runs",
    "R12",
    "R19-same",
    reason=BROKEN.format("load_from_bytes", "a fallback; a fallback exists at build time only"),
)
def fallback_loaded(before, data):
    """load_from_bytes returns a fallback."""
    fmt, fmap, code = decode(TARGET, data)
    os.environ["DEVMOD_COMPILE_FORCE_FALLBACK"] = "1"
    try:
        return devmod.create_with_fallback("toy", code, fmt, fmap)
    finally:
        del os.environ["DEVMOD_COMPILE_FORCE_FALLBACK"]


@replaces(
    entries,
    "load_from_bytes",
    "R19-refused",
    reason="… of … variants of damaged bytes fail; the first (empty): error: unpack_from requires a buffer of at least 8 bytes …",
)
def bare_error(before, data):
    """load_from_bytes does not check the length of its input."""
    struct.unpack_from("<Q", data)
    return before(data)


@replaces(
    entries,
    "load_from_bytes",
    "R19-refused",
    reason="… of … variants of damaged bytes fail; the first (one more byte): the bytes are loaded, and saving returns other bytes",
)
def half_read(before, data):
    """load_from_bytes ignores bytes after the last field."""
    try:
        return before(data)
    except devmod.FormatError:
        return before(data[:-1])


@replaces(
    entries,
    "load_from_bytes",
    "R19-forms",
    reason="bytes in msgpack's longest forms, after loading and saving: expected … bytes, got …; they differ from byte …",
)
def resaved(before, data):
    """A loaded module encodes its fields again."""
    fmt, fmap, code = decode(TARGET, data)
    return ToyModule(TARGET, fmt, fmap, code)


@replaces(
    entries,
    "load_from_bytes",
    "R19-keys",
    reason="bytes with unknown keys, after loading and saving: expected … bytes, got …; they differ from byte …",
)
def forgets_keys(before, data):
    """Unknown keys of an interface are dropped."""
    fmt, stored, code = decode(TARGET, data)
    fmap = dict(stored)
    for name, info in fmap.items():
        there = info.interface
        references = there and Interface(there.params, there.blocks, there.block)
        fmap[name] = FunctionInfo(
            info.name, info.arg_types, info.launch_param_tags, info.arg_extra_tags, references
        )
    return ToyModule(TARGET, fmt, fmap, code)


@replaces(
    entries,
    "load_from_bytes",
    "R19-same",
    reason="the bytes after loading and saving: expected 316 bytes, got 315; they differ from byte …",
)
def stripped(before, data):
    """A loaded module saves another payload."""
    fmt, fmap, code = decode(TARGET, data)
    return ToyModule(TARGET, fmt, fmap, bytes(code).rstrip())


# -- saving


@replaces(
    ToyModule,
    "wire_parts",
    "R17",
    "R24-stored",
    reason="the joined wire_parts: expected 316 bytes, got 320; they differ from byte …",
)
def parts_differ(before, self):
    """wire_parts and save_to_bytes differ."""
    return (b"TOY1", *before(self))


@parts_differ.replaces(ToyModule, "save_to_bytes")
def _(before, self):
    return before(self)[4:]


@replaces(
    ToyModule,
    "wire_parts",
    "R18",
    "R17",
    "R24-stored",
    reason="the saved bytes of the backend's module and of the fallback: expected 316 bytes, got 317; they differ from byte 316 on: "
    "expected b'', got b'\\x00'",
)
def other_bytes(before, self):
    """A module saves one byte more than the fallback."""
    return (*before(self), b"\0")


@replaces(
    ToyModule,
    "launcher",
    "R19-used",
    reason="the saved bytes after get_function: expected 316 bytes, got 328; they differ from byte …",
)
def compiled_saved(before, self, name, info):
    """After get_function, a module saves the built payload."""
    result = before(self, name, info)
    self._code = bytes(self.code) + b"# sm_9"
    return result


@replaces(
    ToyModule,
    "write_to_file",
    "R22-round",
    reason="the file *.toy of the backend's module and of the fallback: expected … bytes, got …; they differ from byte …",
)
def other_file(before, self, path):
    """write_to_file writes other bytes than the payload."""
    before(self, path)
    with open(path, "r+b") as file:
        data = file.read()
        file.seek(0)
        file.write(b"\n" + data)


@replaces(
    ToyModule,
    "write_to_file",
    "R22-clash",
    reason="write_to_file over the metadata of other functions: expected FormatError, but no error was raised",
)
def overwrites(before, self, path):
    """write_to_file overwrites the metadata of another module."""
    with contextlib.suppress(OSError):
        os.remove(os.path.splitext(path)[0] + ".tvm_meta.json")
    before(self, path)


@replaces(
    entries,
    "create",
    "R38-saved",
    "R23-lazy",
    reason="sample 1 saves other bytes without the driver: the saved bytes must not depend on the host",
)
def host_driver(before, code, fmt, fmap, source):
    """The saved bytes depend on the driver."""
    try:
        driver()
    except devmod.DeviceNotFoundError:
        code = bytes(code) + b"\n"
    return before(code, fmt, fmap, source)


@replaces(
    entries,
    "create",
    "R38-saved",
    reason="the format of sample 1 with another hash seed and no visible device: expected 'toy', got 'toybin'",
)
def host_payload(before, code, fmt, fmap, source):
    """The format depends on the host."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return before(b"TOY\0" + bytes(code).replace(b"\n", b"\0"), "toybin", fmap, source)
    return before(code, fmt, fmap, source)


@replaces(
    entries,
    "create",
    "R38-saved",
    "R12",
    reason="sample 1 saves other bytes with another user, folder, time and environment: the saved bytes must not depend on the host",
)
def host_user(before, code, fmt, fmap, source):
    """The saved bytes contain the user's home folder."""
    tag = os.path.expanduser("~")
    functions = {
        name: FunctionInfo(
            info.name, info.arg_types, [*info.launch_param_tags, tag], (), info.interface
        )
        for name, info in fmap.items()
    }
    return before(code, fmt, functions, source)


# -- inspecting and imports

# The property_mask lacks the bit for running.
fault(
    "wrong_mask",
    "R24-runs",
    reason="the property_mask of a created module: expected the bits 1 (can be saved) and 2 (can run), got 1",
).sets(ToyModule, "property_mask", 1)
# import_module has no effect.
fault(
    "no_imports",
    "R21",
    reason="the imports after import_module: expected the imported module, got ()",
).sets(ToyModule, "imports", ())


@replaces(
    ToyModule,
    "inspect_source",
    "R26",
    reason="inspect_source(''): expected 'the toy of a sample', got ''",
)
def silent_inspection(before, self, format=""):
    """inspect_source returns no text."""
    return ""


# -- get_function


@replaces(
    ToyModule,
    "get_function",
    "R24-runs",
    reason="a created module behaves as a fallback: install the runtime",
)
def acts_as_fallback(before, self, name, query_imports=False):
    """get_function raises RuntimeNotLinkedError, although this is the runtime."""
    self.find_function(name)
    raise devmod.RuntimeNotLinkedError("install the runtime", kind="toy")


@replaces(
    ToyModule,
    "launcher",
    "R24-runs",
    reason="no sample finds a device, but devmod.device returns toy device 0 (toy number 0): no toy device. Install one",
)
def never_found(before, self, name, info):
    """get_function raises DeviceNotFoundError, although there is a device; the rows that launch
    would all be skipped.
    """
    raise devmod.DeviceNotFoundError("no toy device. Install one", kind="toy")


@replaces(
    ToyModule,
    "get_function",
    "R25-unknown",
    "R23-lazy",
    reason="get_function('no_such_function') of a created module: expected FunctionNotFoundError, got KeyError: 'no_such_function'",
)
def key_error(before, self, name, query_imports=False):
    """An unknown function name raises KeyError."""
    self.functions[name]
    return before(self, name, query_imports)


@replaces(
    ToyModule,
    "get_function",
    "R25-unknown",
    reason="the error of get_function('no_such_function') of a created module (use devmod.backend.function_not_found): expected \"the toy "
    "module has no function 'no_such_function'; it has: 'negate', 'axpy'\", got 'no such function'",
)
def other_words(before, self, name, query_imports=False):
    """The error for an unknown function name has not core's text."""
    if name not in self.functions:
        raise devmod.FunctionNotFoundError("no such function", kind="toy", function=name)
    return before(self, name, query_imports)


@replaces(ToyModule, "launcher", "R33-functions", reason="FunctionNotFoundError: no negative")
def one_function(before, self, name, info):
    """get_function finds a kernel by its symbol only."""
    if name != info.name:
        raise devmod.FunctionNotFoundError(f"no {name}", kind="toy")
    return before(self, name, info)


@replaces(
    ToyModule,
    "launcher",
    "R33-freed",
    reason="after a call of 'axpy' and the last reference to its module, objects refer to each other, and wait for the garbage collector: …, "
    "ToyLauncher, ToyModule, …. Let what a launcher refers to have no reference to the module",
)
def late_free(before, self, name, info):
    """A launcher refers to its module, which refers to the launcher."""
    launcher = before(self, name, info)
    launcher.module = self
    return launcher
