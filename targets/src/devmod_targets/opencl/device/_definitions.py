"""Write definitions of built-in functions in OpenCL C, for the types that a program calls them with.

The headers of this folder have the functions of numbers, with names that begin with ``m_``. A function of vectors calls them for each lane.
"""

from __future__ import annotations

import re

from devmod_targets.opencl.device._images import FUNCTIONS, SAMPLER_FUNCTION, image_body, spelling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from devmod_targets.opencl.device._names import Builtin, Type

_FLOATS = ("half", "float", "double")
_SIZES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8, "half": 2, "float": 4, "double": 8}
_INTEGERS = tuple(name for name in _SIZES if name not in _FLOATS)

#: The functions that apply to each lane, by their kind of numbers. Those of a family exist for vectors of all sizes.
_MATH = [
    "acos",
    "acosh",
    "acospi",
    "asin",
    "asinh",
    "asinpi",
    "atan",
    "atan2",
    "atan2pi",
    "atanh",
    "atanpi",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "cospi",
    "erf",
    "erfc",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "fabs",
    "fdim",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "fract",
    "frexp",
    "hypot",
    "ilogb",
    "ldexp",
    "lgamma",
    "lgamma_r",
    "log",
    "log10",
    "log1p",
    "log2",
    "logb",
    "mad",
    "maxmag",
    "minmag",
    "modf",
    "nan",
    "nextafter",
    "pow",
    "pown",
    "powr",
    "remainder",
    "remquo",
    "rint",
    "rootn",
    "round",
    "rsqrt",
    "sin",
    "sincos",
    "sinh",
    "sinpi",
    "sqrt",
    "tan",
    "tanh",
    "tanpi",
    "tgamma",
    "trunc",
]
_NATIVE = [
    f"native_{name}"
    for name in ["cos", "divide", "exp", "exp2", "exp10", "log", "log2", "log10", "powr", "recip", "rsqrt", "sin", "sqrt", "tan"]
]
_HALF = [
    f"half_{name}"
    for name in ["cos", "divide", "exp", "exp2", "exp10", "log", "log2", "log10", "powr", "recip", "rsqrt", "sin", "sqrt", "tan"]
]
_INTEGER = [
    "abs",
    "abs_diff",
    "add_sat",
    "clz",
    "ctz",
    "hadd",
    "mad24",
    "mad_hi",
    "mad_sat",
    "mul24",
    "mul_hi",
    "popcount",
    "rhadd",
    "rotate",
    "sub_sat",
    "upsample",
]
_COMMON = ["clamp", "degrees", "max", "min", "mix", "radians", "sign", "smoothstep", "step"]
_RELATIONAL = [
    "isequal",
    "isfinite",
    "isgreater",
    "isgreaterequal",
    "isinf",
    "isless",
    "islessequal",
    "islessgreater",
    "isnan",
    "isnormal",
    "isnotequal",
    "isordered",
    "isunordered",
    "signbit",
]
_LANES = frozenset((*_MATH, *_NATIVE, *_HALF, *_INTEGER, *_COMMON, *_RELATIONAL, "select", "bitselect"))
_IDS = {
    "get_global_id": "(size_t)devmod_group(a0) * devmod_size(a0) + devmod_local(a0)",
    "get_local_id": "devmod_local(a0)",
    "get_group_id": "devmod_group(a0)",
    "get_local_size": "devmod_size(a0)",
    "get_enqueued_local_size": "devmod_size(a0)",
    "get_num_groups": "devmod_groups(a0)",
    "get_global_size": "(size_t)devmod_groups(a0) * devmod_size(a0)",
    "get_global_offset": "0",
    "get_work_dim": "devmod_groups(2) * devmod_size(2) > 1 ? 3 : devmod_groups(1) * devmod_size(1) > 1 ? 2 : 1",
    "get_local_linear_id": "devmod_linear()",
    "get_global_linear_id": "(((size_t)devmod_group(2) * devmod_size(2) + devmod_local(2)) * devmod_groups(1) * devmod_size(1) + "
    "(size_t)devmod_group(1) * devmod_size(1) + devmod_local(1)) * devmod_groups(0) * devmod_size(0) + "
    "(size_t)devmod_group(0) * devmod_size(0) + devmod_local(0)",
    "get_sub_group_size": "devmod_lanes()",
    "get_max_sub_group_size": "DEVMOD_WAVE",
    "get_num_sub_groups": "(devmod_threads() + DEVMOD_WAVE - 1) / DEVMOD_WAVE",
    "get_enqueued_num_sub_groups": "(devmod_threads() + DEVMOD_WAVE - 1) / DEVMOD_WAVE",
    "get_sub_group_id": "devmod_linear() / DEVMOD_WAVE",
    "get_sub_group_local_id": "devmod_lane()",
    "sub_group_all": "devmod_all(a0, devmod_lanes())",
    "sub_group_any": "devmod_any(a0, devmod_lanes())",
}
_STATEMENTS = {
    "barrier": "devmod_barrier();",
    "work_group_barrier": "devmod_barrier();",
    "sub_group_barrier": "devmod_sub_barrier();",
    "mem_fence": "devmod_fence();",
    "read_mem_fence": "devmod_fence();",
    "write_mem_fence": "devmod_fence();",
    "atomic_work_item_fence": "devmod_fence();",
    "prefetch": "",
}
_SUB_GROUPS = ["sub_group_broadcast", "sub_group_shuffle", "sub_group_shuffle_xor", "sub_group_shuffle_up", "sub_group_shuffle_down"]
_COLLECTIVES = [
    f"{scope}_group_{way}_{operation}"
    for scope in ("sub", "work")
    for way in ("reduce", "scan_inclusive", "scan_exclusive")
    for operation in ("add", "min", "max")
]
_GEOMETRIC = ["cross", "distance", "dot", "fast_distance", "fast_length", "fast_normalize", "length", "normalize"]
_OPERATIONS = {"add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "min": "min", "max": "max"}
_ATOMICS = [f"atomic_{name}" for name in ["add", "sub", "xchg", "inc", "dec", "cmpxchg", "min", "max", "and", "or", "xor"]]
_ATOMICS += [f"atom_{name}" for name in ["add", "sub", "xchg", "inc", "dec", "cmpxchg", "min", "max", "and", "or", "xor"]]
_C11 = [f"atomic_fetch_{name}" for name in _OPERATIONS] + ["atomic_init", "atomic_load", "atomic_store", "atomic_exchange"]
_C11 += ["atomic_compare_exchange_strong", "atomic_compare_exchange_weak", "atomic_flag_test_and_set", "atomic_flag_clear"]
_C11 += [f"{name}_explicit" for name in _C11 if name != "atomic_init"]
_CONVERT = re.compile(r"convert_(u?(?:char|short|int|long)|half|float|double)(2|3|4|8|16)?(_sat)?(?:_(rte|rtz|rtp|rtn))?")
_MEMORY = re.compile(r"(?P<way>vload|vstore)(?P<aligned>a)?(?:_half(?P<half>\d{0,2})|(?P<lanes>\d{1,2}))(?:_(?P<mode>rte|rtz|rtp|rtn))?")
_OTHERS = ("all", "any", "shuffle", "shuffle2", "async_work_group_copy", "async_work_group_strided_copy", "wait_group_events", "vec_step")

#: The functions by the chapter of the specification, for the documentation.
GROUPS = {
    "Work-items": sorted(name for name in _IDS if name.startswith("get_") and "sub_group" not in name),
    "Mathematics": sorted(_MATH),
    "Mathematics, fast": sorted((*_NATIVE, *_HALF)),
    "Integers": sorted(_INTEGER),
    "Numbers": sorted(_COMMON),
    "Geometry": sorted(_GEOMETRIC),
    "Relations": sorted((*_RELATIONAL, "all", "any", "bitselect", "select")),
    "Vectors": sorted(
        (
            *("shuffle", "shuffle2"),
            *(f"{way}{lanes}" for way in ("vload", "vstore") for lanes in (2, 3, 4, 8, 16)),
            *(
                f"{way}_half{lanes}"
                for way in ("vload", "vstore", "vloada", "vstorea")
                for lanes in ("", 2, 3, 4, 8, 16)
                if lanes or "a_" not in f"{way}_"
            ),
        )
    ),
    "Conversions": [f"convert_{name}" for name in _SIZES],
    "Barriers and fences": sorted(name for name in _STATEMENTS if not name.startswith(("sub_", "prefetch"))),
    "Copies": sorted((*_OTHERS[4:7], "prefetch")),
    "Atomics of OpenCL C 1.x": sorted(_ATOMICS),
    "Atomics of OpenCL C 2.0": sorted(_C11),
    "Sub-groups": sorted(
        (
            *(name for name in _IDS if "sub_group" in name),
            *_SUB_GROUPS,
            "sub_group_barrier",
            *(n for n in _COLLECTIVES if n.startswith("sub")),
        )
    ),
    "Work-group functions": sorted(
        (*(n for n in _COLLECTIVES if n.startswith("work")), "work_group_all", "work_group_any", "work_group_broadcast")
    ),
    "Printing": ["printf"],
    "Images": FUNCTIONS,
}


def define(builtins: Iterable[Builtin], *, has_images: bool = False) -> tuple[str, list[str]]:
    """Return the definitions of functions, and the names of those that devmod does not have. `has_images` is for cuda."""
    texts: list[str] = []
    unknown: list[str] = []
    for builtin in builtins:
        text = _define(builtin, len(texts)) or (_define_image(builtin, len(texts)) if has_images else None)
        if text is None:
            unknown.append(builtin.name)
        else:
            texts.append(text)
    return "\n".join(texts), unknown


#: The parts of devmod_device.h, by what their functions have in their names or types.
_PARTS = {
    "NUMBERS": re.compile(r"\bm_|devmod_(?:rt|next|to_|\w+_to_)"),
    "DOUBLE": re.compile(r"\bdouble\b|devmod_(?:rt|next|to_|\w+_to_)"),
    "INTEGERS": re.compile(rf"\bm_(?:{'|'.join([*_INTEGER, 'max', 'min', 'clamp', 'select', 'bitselect'])})\("),
    "CONVERSIONS": re.compile(r"devmod_(?:rt|next|to_|\w+_to_)"),
}


def parts_of(definitions: str) -> list[str]:
    """Return the macros for the parts of devmod_device.h that definitions use."""
    return [f"-DDEVMOD_{name}" for name, use in _PARTS.items() if use.search(definitions)]


def _define(builtin: Builtin, number: int) -> str | None:
    name, params, result = builtin.name, builtin.params, builtin.result
    body = _body(name, params, result)
    if body is None or any(each.base not in _SIZES and each.base not in _ENUMS for each in params):
        return None
    return _function(builtin, number, body)


def _define_image(builtin: Builtin, number: int) -> str | None:
    if builtin.name == SAMPLER_FUNCTION:
        head = f"constant void *devmod_{number}(uint a0)"
        return f'{head} __asm__("{builtin.symbol}");\n{head} {{ return (constant void *)(size_t)a0; }}'
    body = image_body(builtin.name, builtin.params, builtin.result)
    return None if body is None else _function(builtin, number, body)


def _function(builtin: Builtin, number: int, body: str) -> str:
    """Return the definition of a function with a body."""
    params, result, function = builtin.params, builtin.result, f"devmod_{number}"
    taken = ", ".join(f"{_declared(each)} a{index}" for index, each in enumerate(params)) or "void"
    type_ = result.spelling if result.base in (*_SIZES, "void", "bool") else "event_t"
    return f'{type_} {function}({taken}) __asm__("{builtin.symbol}");\n{type_} {function}({taken})\n{{\n{body}\n}}'


#: Types of parameters that are passed as an integer, or as a pointer.
_ENUMS = {"memory_order": "int", "memory_scope": "int", "ocl_event": "event_t", "bool": "bool"}


def _declared(type_: Type) -> str:
    name = spelling(type_.base) or _ENUMS.get(type_.base, type_.spelling)
    if not type_.space:
        return name
    return f"volatile {type_.space} {name} *" if type_.atomic else f"{type_.space} {name} *"


def _body(name: str, params: Sequence[Type], result: Type) -> str | None:
    """Return the statements of a function; None if it is unknown."""
    if name in _IDS:
        return f"return {_IDS[name]};"
    if name in _STATEMENTS:
        return _STATEMENTS[name]
    if not params:
        return None
    if name in _LANES:
        return _lanes(name, params, result)
    if conversion := _CONVERT.fullmatch(name):
        return _conversion(conversion[1], params[0], result, bool(conversion[3]), conversion[4] or "")
    if memory := _MEMORY.fullmatch(name):
        return _memory(memory, params, result)
    writer = _WRITERS.get(name)
    if writer:
        return writer(name, params, result)
    if name in _ATOMICS:
        return _atomic(name.partition("_")[2], params)
    if name in _C11:
        return _c11(name, params)
    return None


def lanes_of(name: str, lanes: int) -> list[str]:
    """Return the elements of a vector of a name; the name itself for a number."""
    return [name] if lanes == 1 else [f"{name}.s{index:x}" for index in range(lanes)]


def _vector(type_: Type, values: Sequence[str]) -> str:
    return f"({type_.spelling})({', '.join(values)})"


def _lanes(name: str, params: Sequence[Type], result: Type) -> str | None:
    """Return the body of a function that applies to each lane."""
    function = name.replace("half_", "native_") if name in _HALF else name
    lines, values = [], []
    is_half = any(each.base == "half" for each in params)
    if is_half and name in ("nextafter", "nan"):
        return None
    truth = "-" if name in _RELATIONAL and result.lanes > 1 else ""
    counts = [each.lanes for each in params]
    for lane in range(result.lanes):
        arguments = []
        for index, each in enumerate(params):
            if each.space:
                base = "float" if each.base == "half" else each.base
                lines.append(f"{base} t{index}_{lane};")
                arguments.append(f"&t{index}_{lane}")
                continue
            value = lanes_of(f"a{index}", each.lanes)[lane if counts[index] > 1 else 0]
            arguments.append(f"(float){value}" if each.base == "half" else value)
        call = f"{truth}m_{function}({', '.join(arguments)})"
        if name in ("select", "bitselect"):
            call = _selection(name, params, arguments)
        lines.append(f"{result.base} r{lane} = {call};")
        values.append(f"r{lane}")
        for index, each in enumerate(params):
            if each.space:
                # The elements of a vector in memory have no address, so they are stored one by one.
                lines.append(f"(({each.space} {each.base} *)a{index})[{lane}] = t{index}_{lane};")
    return "\n".join([*lines, f"return {_vector(result, values)};"])


def _selection(name: str, params: Sequence[Type], arguments: Sequence[str]) -> str:
    """Return an element of select and bitselect. A vector's condition is its highest bit."""
    x, y, condition = arguments
    if name == "bitselect":
        if params[0].base != "half":
            return f"m_bitselect({x}, {y}, {condition})"
        x, y, condition = (f"as_short((half)({each}))" for each in arguments)
        return f"as_half((short)(({x} & ~{condition}) | ({y} & {condition})))"
    size = 8 * _SIZES[params[2].base]
    test = f"(({condition}) >> {size - 1} & 1)" if params[0].lanes > 1 else f"({condition})"
    return f"{test} ? {y} : {x}"


# -- conversions


def _conversion(base: str, source: Type, result: Type, is_saturated: bool, mode: str) -> str:
    values = [convert(value, source.base, base, is_saturated=is_saturated, mode=mode) for value in lanes_of("a0", source.lanes)]
    # The result of the declaration has no sign, and its bits are those of the type in the name.
    spelled = result._replace(base=base)
    return f"return as_{result.spelling}({_vector(spelled, values)});" if result.base != base else f"return {_vector(spelled, values)};"


def convert(value: str, source: str, target: str, *, is_saturated: bool = False, mode: str = "") -> str:
    """Return the conversion of a number as an expression."""
    if source in _FLOATS and target in _FLOATS:
        number = {"rtz": 1, "rtp": 2, "rtn": 3}.get(mode)
        if number is None or _SIZES[target] >= _SIZES[source]:
            return f"({target}){value}"
        return f"devmod_to_{target}({value}, {number})"
    if source in _FLOATS:
        wide = f"(float){value}" if source == "half" else value
        rounded = f"devmod_{mode or 'rtz'}({wide})"
        if not is_saturated:
            return f"({target}){rounded}"
        low, high = _range(target)
        top = f"{2 ** (8 * _SIZES[target] - (0 if target[0] == 'u' else 1))}.0{'' if source == 'double' else 'f'}"
        least = f"({'double' if source == 'double' else 'float'}){low}"
        return (
            f"({rounded} != {rounded} ? ({target})0 : {rounded} >= {top} ? ({target}){high} "
            f": {rounded} <= {least} ? ({target}){low} : ({target}){rounded})"
        )
    if target in _FLOATS:
        return _from_integer(value, source, target, mode)
    if not is_saturated:
        return f"({target}){value}"
    low, high = _range(target)
    tests = f"({value} > ({source}){high} ? ({target}){high} : ({target}){value})" if _is_narrower(target, source) else f"({target}){value}"
    if source[0] == "u":
        return tests
    if target[0] == "u":
        return f"({value} < 0 ? ({target})0 : {tests})"
    return f"({value} < ({source})({low}) ? ({target})({low}) : {tests})" if _is_narrower(target, source) else tests


def _is_narrower(target: str, source: str) -> bool:
    """Return whether the greatest number of an integer type is less than that of another one."""
    bits = [8 * _SIZES[each] - (each[0] != "u") for each in (target, source)]
    return bits[0] < bits[1]


def _from_integer(value: str, source: str, target: str, mode: str) -> str:
    """Return an integer as a number of floating point."""
    exact = {"half": 11, "float": 24, "double": 53}[target]
    if mode in ("", "rte") or 8 * _SIZES[source] <= exact:
        return f"({target}){value}"
    number = {"rtz": 1, "rtp": 2, "rtn": 3}[mode]
    return f"devmod_{source}_to_{target}({value}, {number})"


def _range(base: str) -> tuple[str, str]:
    word = {"char": "CHAR", "short": "SHRT", "int": "INT", "long": "LONG"}
    if base[0] == "u":
        return "0", {"uchar": "UCHAR_MAX", "ushort": "USHRT_MAX", "uint": "UINT_MAX", "ulong": "ULONG_MAX"}[base]
    return f"{word[base]}_MIN", f"{word[base]}_MAX"


# -- vectors in memory


def _memory(match: re.Match[str], params: Sequence[Type], result: Type) -> str | None:
    is_load, halves, mode = match["way"] == "vload", match["half"], match["mode"] or ""
    pointer = params[-1]
    lanes = int(match["lanes"] or halves or 1)
    if not pointer.space or (halves is None and match["aligned"]):
        return None
    step = 4 if match["aligned"] and lanes == 3 else lanes
    place = f"{pointer.space} {pointer.base} *p = a{len(params) - 1} + {'a0' if is_load else 'a1'} * {step};"
    if is_load:
        values = [f"({result.base})p[{index}]" for index in range(lanes)]
        return f"{place}\nreturn {_vector(result, values)};"
    source = params[0]
    values = lanes_of("a0", source.lanes)
    if halves is not None:
        values = [convert(value, source.base, "half", mode=mode) for value in values]
    return "\n".join([place, *(f"p[{index}] = {value};" for index, value in enumerate(values))])


# -- geometry, relations of whole vectors, shuffles


def _dot(one: str, other: str, lanes: int) -> str:
    left, right = lanes_of(one, lanes), lanes_of(other, lanes)
    sum_ = f"{left[0]} * {right[0]}"
    for x, y in zip(left[1:], right[1:], strict=True):
        sum_ = f"m_fma({x}, {y}, {sum_})"
    return sum_


def _geometry(name: str, params: Sequence[Type], _: Type) -> str | None:
    first = params[0]
    base, lanes = first.base, first.lanes
    if base == "half":
        return None
    if name == "dot":
        return f"return {_dot('a0', 'a1', lanes)};"
    if name == "cross":
        rest = ["0"] if lanes == 4 else []
        values = [f"a0.{a} * a1.{b} - a0.{b} * a1.{a}" for a, b in ("yz", "zx", "xy")]
        return f"return ({first.spelling})({', '.join([*values, *rest])});"
    # The greatest element is divided off, so that no square overflows.
    lines = [f"{first.spelling} v = {'a0 - a1' if name.endswith('distance') else 'a0'};"]
    if name.startswith("fast_"):
        lines.append(f"{base} size = m_sqrt({_dot('v', 'v', lanes)});")
    else:
        most = "m_fabs(v)" if lanes == 1 else ""
        for each in lanes_of("v", lanes) if lanes > 1 else ():
            most = f"m_fmax({most}, m_fabs({each}))" if most else f"m_fabs({each})"
        lines += [f"{base} most = {most};", f"{first.spelling} w = most > 0 && most < ({base})INFINITY ? v / most : v;"]
        lines.append(f"{base} size = m_sqrt({_dot('w', 'w', lanes)});")
        if not name.endswith("normalize"):
            lines.append(f"size = most > 0 && most < ({base})INFINITY ? size * most : size;")
            return "\n".join([*lines, "return size;"])
        return "\n".join([*lines, "return size > 0 ? w / size : v;"])
    return "\n".join([*lines, "return size > 0 ? v / size : v;" if name.endswith("normalize") else "return size;"])


def _whole(name: str, params: Sequence[Type], _: Type) -> str:
    type_ = params[0]
    values = [f"({each} < 0)" for each in lanes_of("a0", type_.lanes)]
    return f"return {(' && ' if name == 'all' else ' || ').join(values)};"


def _shuffle(_: str, params: Sequence[Type], result: Type) -> str:
    *sources, mask = params
    lanes = sources[0].lanes
    lines = [f"{sources[0].base} all[{lanes * len(sources)}];"]
    for number in range(len(sources)):
        lines += [f"all[{number * lanes + index}] = {each};" for index, each in enumerate(lanes_of(f"a{number}", lanes))]
    count = lanes * len(sources)
    values = [f"all[{each} & {count - 1}]" for each in lanes_of(f"a{len(sources)}", mask.lanes)]
    spelled = result._replace(base=sources[0].base)
    return "\n".join([*lines, f"return as_{result.spelling}({_vector(spelled, values)});"])


# -- atomics


def _atomic(operation: str, params: Sequence[Type]) -> str:
    """Return the body of an atomic function of OpenCL C 1.x. It has no order."""
    scope = "__ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE"
    if operation in ("inc", "dec"):
        return f"return __scoped_atomic_fetch_{'add' if operation == 'inc' else 'sub'}(a0, 1, {scope});"
    if operation == "xchg":
        return f"return __scoped_atomic_exchange_n(a0, a1, {scope});" if params[0].base != "float" else _exchange_float(params[0])
    if operation == "cmpxchg":
        order = "__ATOMIC_RELAXED, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE"
        return f"{params[1].base} old = a1;\n__scoped_atomic_compare_exchange_n(a0, &old, a2, false, {order});\nreturn old;"
    return f"return __scoped_atomic_fetch_{operation}(a0, a1, {scope});"


def _exchange_float(pointer: Type) -> str:
    place = f"(volatile {pointer.space} uint *)a0"
    return f"return as_float(__scoped_atomic_exchange_n({place}, as_uint(a1), __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE));"


def _c11(name: str, params: Sequence[Type]) -> str | None:
    """Return the body of an atomic function of OpenCL C 2.0. Every order is the sequentially consistent one of the device."""
    scope = "__ATOMIC_SEQ_CST, __MEMORY_SCOPE_DEVICE"
    operation = name.removeprefix("atomic_").removesuffix("_explicit")
    if any(each.base == "memory_order" for each in params[1:]):
        number = next(index for index, each in enumerate(params) if each.base == "memory_order")
        relaxed = scope.replace("SEQ_CST", "RELAXED")
        text, other = _c11_call(operation, params, scope), _c11_call(operation, params, relaxed)
        return f"if (a{number} == __ATOMIC_RELAXED) {{\n{other}\n}} else {{\n{text}\n}}"
    return _c11_call(operation, params, scope)


def _c11_call(operation: str, params: Sequence[Type], scope: str) -> str:
    base = params[0].base
    number = {"float": "uint", "double": "ulong"}.get(base, "")
    # LLVM finds the address space of a pointer for accesses that are not volatile.
    place = f"({params[0].space} {number or base} *)a0"
    if operation.startswith("fetch_"):
        return f"return __scoped_atomic_{operation}(({params[0].space} {base} *)a0, a1, {scope});"
    into, back = (f"as_{number}", f"as_{base}") if number else ("", "")
    if operation in ("store", "init"):
        return f"__scoped_atomic_store_n({place}, {into}(a1), {scope});"
    if operation == "load":
        return f"return {back}(__scoped_atomic_load_n({place}, {scope}));"
    if operation == "exchange":
        return f"return {back}(__scoped_atomic_exchange_n({place}, {into}(a1), {scope}));"
    if operation == "flag_test_and_set":
        return f"return __scoped_atomic_exchange_n({place}, 1, {scope}) != 0;"
    if operation == "flag_clear":
        return f"__scoped_atomic_store_n({place}, 0, {scope});"
    order = scope.partition(", ")
    return (
        f"{number or base} old = {into}(*a1);\nbool same = __scoped_atomic_compare_exchange_n({place}, &old, {into}(a2), false, "
        f"{order[0]}, {scope});\n*a1 = {back}(old);\nreturn same;"
    )


# -- sub-groups, functions of the work-group, and copies


def _words(type_: Type) -> int:
    return type_.lanes * max(_SIZES[type_.base] // 4, 1)


def _moved(type_: Type, lane: str) -> list[str]:
    """Return the statements that get the value `v` of another lane into `r`."""
    if type_.lanes > 1 or type_.base not in _SIZES:
        return []
    size = _SIZES[type_.base]
    if size == 8:
        return [
            f"int2 b = as_int2(v);\n{type_.base} r = as_{type_.base}((int2)(devmod_shuffle(b.x, {lane}, lanes), "
            f"devmod_shuffle(b.y, {lane}, lanes)));"
        ]
    if size == 4:
        return [f"{type_.base} r = as_{type_.base}(devmod_shuffle(as_int(v), {lane}, lanes));"]
    number = {1: "char", 2: "short"}[size]
    return [f"{type_.base} r = as_{type_.base}(({number})devmod_shuffle(as_{number}(v), {lane}, lanes));"]


def _sub_group(name: str, params: Sequence[Type], _: Type) -> str | None:
    type_ = params[0]
    way = name.rpartition("_")[2]
    lane = {"xor": "devmod_lane() ^ a1", "up": "devmod_lane() - a1", "down": "devmod_lane() + a1"}.get(way, "a1")
    moved = _moved(type_, lane)
    if not moved:
        return None
    return "\n".join([f"uint lanes = devmod_lanes();\n{type_.base} v = a0;", *moved, "return r;"])


def _combined(operation: str, one: str, other: str) -> str:
    return f"{one} + {other}" if operation == "add" else f"m_{operation}({one}, {other})"


def _identity(operation: str, base: str) -> str:
    if operation == "add":
        return "0"
    if base in _FLOATS:
        return f"{'-' if operation == 'max' else ''}({base})INFINITY"
    return _range(base)[operation == "min"]


def _collective(name: str, params: Sequence[Type], _: Type) -> str | None:
    scope, rest = name.split("_group_", 1)
    operation = rest.rpartition("_")[2]
    type_ = params[0]
    if type_.base == "half" or type_.lanes > 1:
        return None
    if scope == "work":
        return _work_group(rest, operation, type_.base)
    moved = "\n".join(_moved(type_, "from"))
    first = f"uint lanes = devmod_lanes(), lane = devmod_lane();\n{type_.base} v = a0;"
    if rest.startswith("reduce"):
        combined = _combined(operation, "v", "r")
        body = f"uint from = lane + step;\n{moved}\nif (from < lanes) v = {combined};"
        loop = f"for (uint step = 1; step < DEVMOD_WAVE; step *= 2) {{\n{body}\n}}"
        last = "\n".join(_moved(type_, "0"))
        return f"{first}\n{loop}\n{last}\nreturn r;"
    combined = _combined(operation, "r", "v")
    loop = (
        f"for (uint step = 1; step < DEVMOD_WAVE; step *= 2) {{\nuint from = lane - step;\n{moved}\nif (lane >= step) v = {combined};\n}}"
    )
    if "inclusive" in rest:
        return f"{first}\n{loop}\nreturn v;"
    return f"{first}\n{loop}\nuint from = lane - 1;\n{moved}\nreturn lane ? r : ({type_.base})({_identity(operation, type_.base)});"


def _work_group(rest: str, operation: str, base: str) -> str:
    """Return a reduction or a scan over the threads of a block. Each thread combines the values in their order."""
    combined = _combined(operation, "sum", "scratch[i]")
    ends = {"reduce": "all", "scan_inclusive": "me + 1", "scan_exclusive": "me"}
    return (
        f"{_SCRATCH.format(base=base)}\ndevmod_barrier();\nscratch[me] = a0;\ndevmod_barrier();\n"
        f"{base} sum = {_identity(operation, base)};\nfor (uint i = 0; i < {ends[rest.rpartition('_')[0]]}; i++) sum = {combined};\n"
        "devmod_barrier();\nreturn sum;"
    )


_SCRATCH = "local {base} *scratch = (local {base} *)devmod_values();\nuint me = devmod_linear(), all = devmod_threads();"


def _work_group_other(name: str, params: Sequence[Type], _: Type) -> str | None:
    base = params[0].base
    if base == "half":
        return None
    place = _SCRATCH.format(base=base)
    if name == "work_group_broadcast":
        x, y, z = [f"a{index}" if index < len(params) else "0" for index in (1, 2, 3)]
        number = f"({z} * devmod_size(1) + {y}) * devmod_size(0) + {x}"
        return (
            f"{place}\ndevmod_barrier();\nif (me == {number}) scratch[0] = a0;\ndevmod_barrier();\n"
            f"{base} r = scratch[0];\ndevmod_barrier();\nreturn r;"
        )
    mark = "&&" if name.endswith("all") else "||"
    return (
        f"{place}\ndevmod_barrier();\nscratch[me] = a0;\ndevmod_barrier();\nint r = scratch[0] != 0;\n"
        f"for (uint i = 1; i < all; i++) r = r {mark} scratch[i] != 0;\ndevmod_barrier();\nreturn r;"
    )


def _copy(name: str, params: Sequence[Type], _: Type) -> str | None:
    if name == "wait_group_events":
        return "devmod_barrier();"
    stride = "a3" if "strided" in name else "1"
    from_, to = ("i", f"i * {stride}") if params[0].space == "global" else (f"i * {stride}", "i")
    event = len(params) - 1
    return f"for (size_t i = devmod_linear(); i < a2; i += devmod_threads()) a0[{to}] = a1[{from_}];\nreturn a{event};"


_WRITERS: dict[str, Callable[[str, Sequence[Type], Type], str | None]] = {
    **dict.fromkeys(_GEOMETRIC, _geometry),
    **dict.fromkeys(("all", "any"), _whole),
    **dict.fromkeys(("shuffle", "shuffle2"), _shuffle),
    **dict.fromkeys(_SUB_GROUPS, _sub_group),
    **dict.fromkeys(_COLLECTIVES, _collective),
    **dict.fromkeys(("work_group_all", "work_group_any", "work_group_broadcast"), _work_group_other),
    **dict.fromkeys(("async_work_group_copy", "async_work_group_strided_copy", "wait_group_events"), _copy),
}
