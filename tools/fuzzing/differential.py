"""What four readers read of one file, compared: devmod in Python, `compilers/readers/c`,
`extras/browser/js`, and `tests/spec_reader.py`.

A *reading* is a map of what a reader has of a file, before it is rounded or limited for a device.
Readers are compared by the keys that both have.
"""

from __future__ import annotations

import atexit
import json
import math
import struct
import subprocess
import warnings
from collections.abc import Callable
from functools import cache
from itertools import combinations
from random import Random
from typing import Any

import devmod
from devmod.backend import (
    ExpressionError,
    decode,
    find_spec,
    join_records,
    read_tuning_file,
    tuning_of,
    variant_interface,
)
from devmod_readers.programs import check_names, read_program
from fuzzing import c_reader, grammar, javascript
from fuzzing.readers import Breach, scratch, walk
from fuzzing.specification import spec_reader

ARGUMENTS = {"n": 1000, "m": 5}
#: The most variants that are compared.
POSITIONS = 4
_EXACT = 2**53
_NO_NUMBER = -1

#: What a reader refuses: the index and the modules, these with the origins and the sources, or a
#: part of the file.
VERDICTS = ("refused", "of_origins", "of_all")

Reading = dict[str, Any]

_BLOCK: dict[str, Any] = {"at": None, "size": 0, "name": ""}

_MEMBER: dict[str, Any] = {
    "name": "",
    "offset": 0,
    "type": "",
    "members": [],
    "size": 0,
    "shape": [],
    "strides": [],
}


def plain(value: Any) -> Any:
    """Return a value as JSON of JavaScript has it: with one type of numbers, and bytes in
    hexadecimal.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return _rounded(value)
    if type(value) is int:
        return value if abs(value) <= _EXACT else _rounded(value)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return value


def _rounded(value: float) -> float:
    number = float(value)
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def attempt(act: Callable[[], Any], *errors: type[Exception]) -> Any:
    """Return what a call returns; None if it raises one of these errors."""
    try:
        return act()
    except errors:
        return None


# -- devmod in Python


def read_in_python(data: bytes) -> Reading:
    """Return what devmod reads.

    ``refused`` is the verdict of the index and of the modules, ``of_origins`` that with the
    origins and the sources, and ``of_all`` that with the rest of the file. ``form`` is a problem of
    the bytes of one function: readers refuse it, or the module.
    """
    result: Reading = {"refused": "", "of_origins": "", "of_all": "", "form": ""}
    try:
        root: Any = devmod.loads(data)
        index = root._devmod_file
        modules = {id(getattr(each, "entry", None)): each for each in walk(root)}
        records = []
        for number, entry in enumerate(index.entries()):
            record = _record(number, entry)
            if entry.kind and entry.offset is not None and not entry.features:
                record |= _supported(modules[id(entry)])
            records.append(record)
            for info in record.get("infos", ()):
                result["form"] = info.get("problem", result["form"])
    except devmod.FormatError as error:
        return {**dict.fromkeys(result, str(error)), "form": ""}
    result["records"] = records
    try:
        for module in walk(root):
            _ = module.origin, module.source
    except devmod.FormatError as error:
        result["of_origins"] = result["of_all"] = str(error)
    try:
        index.check_rest()
    except devmod.FormatError as error:
        result["of_all"] = str(error)
    if not result["of_all"]:
        result["tuning"] = _tuning_records(index)
    return result


def _record(number: int, entry: Any) -> Reading:
    """Return a record of the index."""
    result = {"number": number, "kind": entry.kind}
    if entry.kind:
        result |= {"format": entry.fmt, "variant": entry.variant, "imports": entry.imports}
        result |= {"functions": entry.functions, "parts": entry.parts}
        result["rank"] = _number(entry.rank)
        result["sources"] = _number(entry.sources)
    if entry.offset is not None:
        result["size"] = entry.size
    return result | {"features": entry.features}


def _number(value: int | None) -> int:
    return _NO_NUMBER if value is None else value


def _supported(module: Any) -> Reading:
    """Return what a module's bytes have, unless only a newer devmod reads them."""
    try:
        return _contents(module)
    except devmod.FormatError as error:
        if "which a newer devmod reads" in str(error):
            return {"unsupported": True}
        raise


def _contents(module: Any) -> Reading:
    """Return what a module's bytes have."""
    saved = module.save_to_bytes()
    _ = [*module.functions]
    result: Reading = {"bytes": saved}
    if module.kind == "const_loader":
        devmod.load_from_bytes(module.kind, saved)
    spec = find_spec(module.kind)
    if spec is None:
        return result
    functions = module.functions
    code = decode(spec, memoryview(saved))[2]
    result["infos"] = [_info(module.kind, functions, name, code) for name in functions]
    return result


def _info(kind: str, functions: Any, name: str, code: Any) -> Reading:
    """Return a function of a module."""
    try:
        info = functions[name]
    except devmod.FormatError as error:
        if isinstance(error.__context__, devmod.FormatError):
            return {"state": "damaged"}
        return {"problem": str(error)}
    result: Reading = {"symbol": info.name, "types": info.arg_types}
    result["tags"] = info.launch_param_tags
    known = info.interface
    if known is not None and known.newer:
        return result | {"state": "newer", "unknown_need": True}
    result["state"] = "valid"
    result["unknown_need"] = known is not None and not spec_reader().NEEDS.issuperset(known.needs)
    if known is None:
        return result
    result["interface"] = known.to_dict()
    result["script"] = whole_interface(result["interface"])
    if kind == "program":
        result["kernels"] = attempt(lambda: _program(name, info, code), devmod.FormatError)
    if "tune" in known.extra:
        result |= _variants(known)
    return result


def _program(name: str, info: Any, code: Any) -> list[str]:
    program: Any = read_program(name, info, code.get(name, b""))
    check_names(program)
    return sorted({step.kernel for step in program.steps})


def _variants(known: Any) -> Reading:
    """Return the variants of a function: their expressions, the numbers of a call, and their
    interfaces. One that is refused is None, and the last one.
    """
    tuning = attempt(lambda: tuning_of(known), devmod.FormatError)
    if tuning is None:
        result: Reading = {"tune": None, "launches": [None], "variants": [None]}
        if not json.dumps(plain(known.extra["tune"]), ensure_ascii=False).isascii():
            del result["launches"]  # C takes other characters as letters of a name
        return result
    result = {"tune": [], "launches": [], "variants": []}
    is_read = True
    for each in tuning.variants:
        fields = {"constants": each.constants, "grid": each.grid, "block": each.block}
        result["tune"].append(fields)
        grid = attempt(lambda each=each: each.grid_of(ARGUMENTS), ExpressionError, KeyError)  # type: ignore[misc]
        block = attempt(each.block_of, ExpressionError)
        launch = None
        if grid is not None and block is not None:
            constants = [_constant(*pair) for pair in each.constants.items()]
            launch = {"specialized": tuning.specialized, "constants": constants}
            launch |= {"grid": grid, "block": block}
        result["launches"].append(launch)
        own = attempt(lambda each=each: variant_interface(known, each), devmod.FormatError)  # type: ignore[misc]
        if own is not None and own.newer:
            result["tune"].pop()
            continue
        is_read = is_read and own is not None
        variant = None
        if own is not None and block is not None:
            threads = (*block, 1, 1)[:3] if block else own.block
            variant = {"grid": grid, "threads": threads}
            variant["set"] = each.constants if tuning.specialized else {}
        result["variants"].append(variant)
    if not is_read:
        result["tune"] = None
    if not result["variants"]:
        result["variants"] = [None]  # all are newer
    for key in ("launches", "variants"):
        result[key] = _until_refused(result[key])
    return result


def _constant(name: str, value: Any) -> list[Any]:
    mark = {bool: "b", int: "i", float: "f", str: "s"}[type(value)]
    return [name, mark, int(value) if mark == "b" else value]


def _until_refused(variants: list[Any]) -> list[Any]:
    """Return the first variants, up to one that is refused."""
    found = variants[:POSITIONS]
    if None in found:
        return found[: found.index(None) + 1]
    return found


def _tuning_records(index: Any) -> list[Any]:
    """Return the tuning records of each function, and how many are skipped."""
    found = []
    for each in index.attachments():
        if each.entry.tag != "tuning+":
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            records = index.tuning_records(each.entry.function)
        rows = [_tuning_record(record._asdict()) for record in records]
        found.append([each.entry.function, rows, len(caught)])
    return sorted(found, key=repr)


def _tuning_record(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a tuning record with lists for the maps of sizes and values."""
    lists = {key: list(fields[key].items()) for key in ("measured", "turns")}
    return fields | lists


# -- the reader that is written from the page


def read_in_specification(data: bytes) -> Reading:
    """Return what the reader that is written from docs/formats.md reads."""
    spec = spec_reader()
    try:
        found = spec.read_bundle(data)
        records = [_spec_record(number, each) for number, each in enumerate(found["records"])]
    except spec.SpecError as error:
        return {"of_all": str(error) or "refused"}
    tuning = []
    for each in found.get("attached", []):
        if each["tag"] == "tuning+":
            kept, problems = spec.read_tuning(each)
            joined = join_records([devmod.TuningRecord(**record) for record in kept])
            rows = [_tuning_record(record._asdict()) for record in joined]
            tuning.append([each["function"], rows, len(problems)])
    return {"of_all": "", "records": records, "tuning": sorted(tuning, key=repr)}


def _spec_record(number: int, record: dict[str, Any]) -> Reading:
    spec = spec_reader()
    kind = record.get("kind", "")
    result = {"number": number, "kind": kind, "features": record.get("features", [])}
    if "size" in record:
        result["size"] = record["size"]
    if not kind:
        return result
    for key in ("format", "variant", "imports", "functions"):
        result[key] = record[key]
    result["parts"] = record.get("parts", [])
    result["rank"] = record.get("rank", _NO_NUMBER)
    result["sources"] = record.get("sources", _NO_NUMBER)
    if "bytes" not in record or record["features"]:
        return result
    result["bytes"] = record["bytes"]
    if kind == "const_loader":
        result["constants"] = spec.read_constants(record["bytes"])["constants"]
    if kind in spec.KINDS:
        found = spec.read_module(kind, record["bytes"])
        result["infos"] = []
        for name, info in found["functions"].items():
            result["infos"].append(_spec_info(kind, name, info, found["code"]))
    return result


def _spec_info(kind: str, name: str, info: dict[str, Any], code: Any) -> Reading:
    spec = spec_reader()
    if "damaged" in info:
        return {"state": "damaged"}
    result: Reading = {"symbol": info["name"], "types": info["arg_types"]}
    result["tags"] = info["launch_param_tags"]
    if "newer" in info:
        return result | {"state": "newer", "unknown_need": True}
    result["state"] = "valid"
    if "interface" not in info:
        return result
    result["interface"] = info["interface"]
    if kind == "program":
        steps = attempt(
            lambda: spec.read_program(name, info, code.get(name, b""))["steps"], spec.SpecError
        )
        result["kernels"] = steps and sorted({step[0] for step in steps})
    if "tune" in info["interface"]:
        found = attempt(lambda: spec.variants_of(info), spec.SpecError)
        result["tune"] = found and [
            {key: each[key] for key in ("constants", "grid", "block")} for each in found
        ]
    return result


# -- JavaScript and C


def read_in_javascript(data: bytes) -> Reading:
    """Return what the reader in JavaScript reads."""
    process = javascript.node()
    assert process is not None
    answer = process.ask("*", data)
    if answer.get("error", "FormatError") != "FormatError":
        raise Breach(f"JavaScript raises {answer['error']}: {answer['message'][:300]}")
    if "ok" not in answer:
        return {"of_origins": answer["message"]}
    records = []
    for each in answer["records"]:
        record = each
        for key in ("rank", "sources"):
            record[key] = _number(each[key])
        if not each["kind"]:
            record = {key: each[key] for key in ("number", "kind", "size", "features")}
        if each.get("offset") is None:
            record.pop("size", None)
        if not record.get("constants"):
            record.pop("constants", None)
        if "infos" in record:
            record["infos"] = [_script_info(info) for info in record["infos"]]
        records.append(record)
    return {"of_origins": "", "records": records}


def _script_info(info: dict[str, Any]) -> Reading:
    if info["error"]:
        return {"state": "damaged"}
    result = {"symbol": info["name"], "types": info["argTypes"], "tags": info["launchParamTags"]}
    if info["newer"]:
        return result | {"state": "newer"}
    result |= {"state": "valid", "kernels": info["kernels"] and sorted(info["kernels"])}
    result["variants"] = _until_refused(info["variants"])
    if info["interface"]:
        result["script"] = _script_interface(info["interface"])
    return result


def _script_interface(known: dict[str, Any]) -> Reading:
    """Return the fields of an interface that JavaScript keeps, by the names of the page."""
    known |= {"default_block": known["defaultBlock"], "open_block": known["openBlock"]}
    known["shared_memory"] = known["sharedMemory"]
    if isinstance(known["shared_memory"], dict):
        known["shared_memory"] = {"per_thread": known["shared_memory"]["perThread"]}
    return whole_interface(known)


#: The keys of maps that JavaScript keeps, and what a missing one means.
_INTERFACE: dict[str, Any] = {
    "block": None,
    "default_block": None,
    "subgroup": None,
    "shared_memory": 0,
}
_INTERFACE |= {"needs": [], "open_block": False, "blocks": [], "params": []}
_PARAM: dict[str, Any] = dict.fromkeys(("name", "kind", "type", "access", "format", "sample"), "")
_PARAM |= {"at": None, "align": 0, "size": 0, "members": [], "pack": []}


def _whole(fields: dict[str, Any], keys: dict[str, Any]) -> Reading:
    return {key: fields.get(key, missing) for key, missing in keys.items()}


def whole_interface(fields: dict[str, Any]) -> Reading:
    """Return an interface with all the keys that JavaScript keeps."""
    result = _whole(fields, _INTERFACE)
    result["blocks"] = [_whole(each, _BLOCK) for each in result["blocks"]]
    result["params"] = [_with_members(each, _PARAM) for each in result["params"]]
    return result


def _with_members(fields: dict[str, Any], keys: dict[str, Any]) -> Reading:
    result = _whole(fields, keys)
    result["members"] = [_with_members(each, _MEMBER) for each in result["members"]]
    return result


@cache
def _c_process() -> subprocess.Popen[bytes]:
    sources = [c_reader.READER, c_reader.TESTS / "reading.c"]
    built = c_reader.build(sources, *c_reader.SANITIZERS, *c_reader.zstd())
    process = subprocess.Popen(
        [str(built)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=c_reader._unlimited,
    )

    def close() -> None:
        process.kill()
        process.communicate()

    atexit.register(close)
    return process


def read_in_c(data: bytes) -> Reading:
    """Return what the reader in C reads."""
    process = _c_process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(struct.pack("<I", len(data)) + data)
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        _c_process.cache_clear()  # the next file has another one
        raise Breach(f"the reader in C ended with {process.wait()}")
    answer = json.loads(line)
    if answer["result"]:
        return {"refused": _text(answer["refused"])}
    spec = spec_reader()
    records = []
    for record in answer["records"]:
        for key in ("kind", "format", "variant", "fmt"):
            if key in record:
                record[key] = _text(record[key])
        for key in ("functions", "features"):
            record[key] = [*map(_text, record[key])]
        for constant in record.get("constants", {}).values():
            constant["type"] = spec.type_name(constant["type"])
        if not record["kind"]:
            record = {
                key: record[key] for key in ("number", "kind", "size", "features") if key in record
            }
        if "infos" in record:
            record["infos"] = [_c_info(info) for info in record["infos"]]
        records.append(record)
    return {"refused": "", "records": records}


def _c_info(info: dict[str, Any]) -> Reading:
    numbers = info["types"]
    types = [numbers[at : at + 3] for at in range(0, len(numbers), 3)]
    result: Reading = {"symbol": _text(info["symbol"]), "tags": [*map(_text, info["tags"])]}
    result["types"] = [spec_reader().type_name(each) for each in types]
    result["is_read"] = info["needs"] != 1
    if info["needs"] == 1:
        return {"is_read": False}
    result["unknown_need"] = info["needs"] == 3
    launches: list[Any] = []
    for each in info["variants"]:
        launch = None
        if isinstance(each, dict):
            constants = []
            for name, mark, value in each["constants"]:
                constants.append([_text(name), mark, _text(value) if mark == "s" else value])
            launch = each | {"constants": constants}
        launches.append(launch)
    if launches[:1] == [None]:
        result["is_read"] = False  # or the first launch has no grid
    return result | {"launches": _until_refused(launches)}


def _text(digits: str) -> str:
    return bytes.fromhex(digits).decode()


# -- the comparison


def readers() -> dict[str, Callable[[bytes], Reading]]:
    """Return the readers that are here, by name."""
    found: dict[str, Callable[[bytes], Reading]]
    found = {"Python": read_in_python, "the specification's reader": read_in_specification}
    if javascript.node() is not None:
        found["JavaScript"] = read_in_javascript
    if c_reader.compiler() is not None:
        found["C"] = read_in_c
    return found


def difference(one: Any, other: Any, place: str = "") -> str:
    """Return where two readings differ in what both have; "" if they do not."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one:
            if key in (*VERDICTS, "form"):
                continue
            found = key in other and difference(one[key], other[key], f"{place}.{key}")
            if found:
                return found
        return ""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, pair in enumerate(zip(one, other, strict=True)):
            found = difference(*pair, f"{place}[{at}]")
            if found:
                return found
        return ""
    if json.dumps(one) == json.dumps(other):
        return ""
    return f"{place}: {one!r:.200} and {other!r:.200}"


def _refuses(reading: Reading) -> bool:
    """Return whether a reader refuses a file, or one of the functions."""
    if any(reading.get(key) for key in VERDICTS):
        return True
    for record in reading["records"]:
        for info in record.get("infos", ()):
            if info.get("state") == "damaged" or not info.get("is_read", True):
                return True
    return False


def _verdict(one: Reading, other: Reading) -> str:
    """Return how the verdicts of two readings differ; "" if they do not."""
    for each in (*one.get("records", ()), *other.get("records", ())):
        if each.get("unsupported"):
            return ""  # the other may refuse what this one does not read
    if one.get("form"):
        return "" if _refuses(other) else f"a function: {one['form']} and 'accepted'"
    for key in VERDICTS:
        if key in one and key in other and bool(one[key]) != bool(other[key]):
            return f"{key}: {one[key] or 'accepted'!r:.300} and {other[key] or 'accepted'!r:.300}"
    return ""


def compare(data: bytes) -> None:
    """Raise Breach if two readers differ in a file, or in a text of JSON."""
    if not data.startswith(b"\x89"):
        _compare_json(data)
        return
    readings = {name: plain(read(data)) for name, read in readers().items()}
    for (name, one), (second, other) in combinations(readings.items(), 2):
        found = _verdict(one, other)
        if not found:
            found = difference(one, other)
        if found:
            raise Breach(f"{name} and {second} differ in {found}")


def compare_module(kind: str, data: bytes) -> None:
    """Raise Breach if two readers differ in a module's bytes."""
    compare(grammar.file_of_module(kind, data))


def _compare_json(data: bytes) -> None:
    """Read a text as metadata and as a file of tuning records, in Python and as the page says."""
    spec = spec_reader()

    def listed(read: Callable[[], Any]) -> Any:
        joined = join_records([devmod.TuningRecord(**each) for each in read()])
        return [_tuning_record(each._asdict()) for each in joined]

    path = scratch("records.json", data)
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "metadata": (
            lambda: _metadata(devmod.load_metadata_from_json(data)),
            lambda: spec.read_metadata(data)["functions"],
        ),
        "tuning records": (
            lambda: listed(lambda: [each._asdict() for each in read_tuning_file(path)]),
            lambda: listed(lambda: spec.read_tuning_file(data)),
        ),
    }
    for what, (read, read_second) in pairs.items():
        first = plain(attempt(read, devmod.FormatError))
        second = plain(attempt(read_second, spec.SpecError))
        found = difference(first, second, what)
        if found:
            raise Breach(f"Python and the specification's reader differ in {found}")


def _metadata(functions: dict[str, devmod.FunctionInfo]) -> Reading:
    result: Reading = {}
    for name, info in functions.items():
        result[name] = {"name": info.name, "arg_types": info.arg_types}
        result[name]["launch_param_tags"] = info.launch_param_tags
        result[name]["arg_extra_tags"] = info.arg_extra_tags
        if info.interface is not None and info.interface.newer:
            result[name]["newer"] = info.interface.newer
        elif info.interface is not None:
            result[name]["interface"] = info.interface.to_dict()
    return result


def check(sample: grammar.Sample, tree: Any, random: Random | None = None) -> None:
    """Compare the readers of a tree's file. Breach has the smallest tree with the difference."""
    try:
        compare(sample.write(tree, random))
        return
    except Breach as breach:
        text = str(breach)
    kind = text.partition(":")[0]

    def differs(smaller: Any) -> bool:
        nonlocal text
        try:
            compare(sample.write(smaller, None))
        except Breach as breach:
            if not str(breach).startswith(kind):
                return False
            text = str(breach)
            return True
        return False

    tree = grammar.smallest(tree, differs)
    raise Breach(f"{sample.name}: {text}; the smallest: {tree!r:.2000}")


# -- as a reader of the fuzzer

#: The last file that was made, with its sample and its tree.
_last: list[tuple[bytes, grammar.Sample, Any]] = []


def seeds() -> list[bytes]:
    """Return all samples as files."""
    return [each.write(each.tree, None) for each in grammar.all_samples()]


def mutate(_: bytes, random: Random) -> bytes:
    """Return a nearly valid file."""
    sample = grammar.choose(random)
    tree = grammar.changed(sample.tree, random)
    data = sample.write(tree, None if random.randrange(4) else random)
    _last[:] = [(data, sample, tree)]
    return data


def read(data: bytes) -> None:
    """Compare the readers of a file."""
    if _last and _last[0][0] == data:
        check(*_last[0][1:])  # a difference is made smaller
    compare(data)
