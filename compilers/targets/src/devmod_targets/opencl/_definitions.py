"""Write definitions of the built-in functions of OpenCL C that clang does not compile to SPIR-V,
for the types of their calls.

`headers/devmod_spirv.h` precedes them.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from devmod_targets.opencl._names import Builtin, Type

_NUMBERS = (
    "char",
    "uchar",
    "short",
    "ushort",
    "int",
    "uint",
    "long",
    "ulong",
    "half",
    "float",
    "double",
)
#: Types of parameters that are passed as an integer, or as a pointer.
_OTHERS = {"memory_order": "int", "memory_scope": "int", "ocl_event": "event_t", "void": "void"}
_STATEMENTS = {
    **dict.fromkeys(("mem_fence", "read_mem_fence", "write_mem_fence"), "devmod_fence();"),
    "sub_group_barrier": "devmod_sub_barrier();",
    "wait_group_events": "devmod_barrier();",
}
_CONVERT = re.compile(r"convert_(half|double)(?:2|3|4|8|16)?(?:_(rte|rtz|rtp|rtn))?")
_INTEGERS = {"char": 8, "short": 16, "int": 32, "long": 64}
_CONVERT_ALIKE = re.compile(
    r"convert_(u?(?:char|short|int|long)|float)(?:2|3|4|8|16)?(_sat)?(?:_rt[ezpn])?"
)
_ATOMIC = re.compile(r"atom(?:ic)?_(inc|dec|xchg|min|max)")
#: The atomics of OpenCL C 2.0, and the number of values of those that have not one.
_ATOMIC_OF_2 = re.compile(
    r"atomic_(?P<operation>init|load|store|exchange|flag_test_and_set|flag_clear|compare_exchange|fetch_\w+?)(?:_strong|_weak)?(?P<order>_explicit)?"
)
_VALUES = {"load": 0, "flag_test_and_set": 0, "flag_clear": 0}
_BITS = {"float": "uint", "double": "ulong"}
#: The cast before a conversion to half.
_WIDENED = {"short": "(float)", "ushort": "(float)", "float": "", "double": ""}
_COPY = re.compile(r"async_work_group_(strided_)?copy")


def define(builtins: Iterable[Builtin]) -> tuple[str, list[str]]:
    """Return the definitions of functions, and the names of those that devmod does not have."""
    texts: list[str] = []
    unknown = []
    for builtin in builtins:
        body = _body(builtin.name, builtin.params, builtin.result)
        has_known_types = all(
            param.base in _NUMBERS or param.base in _OTHERS for param in builtin.params
        )
        if body is None or not has_known_types:
            unknown.append(builtin.name)
        else:
            texts.append(_function(builtin, f"devmod_{len(texts)}", body))
    return "\n".join(texts), unknown


def is_miscompiled(builtin: Builtin) -> bool:
    """Return whether a function of clang's SPIR-V is wrong. In conversions between integers, clang
    takes signed numbers for unsigned ones and the reverse, and drivers refuse a conversion to the
    same type. They refuse any and all of a number, which are instructions for vectors. Intel's
    runtime for processors computes mad_sat wrongly, and shuffles with constants, also from the
    source. It has no shuffle of half, and no atomic of a pointer to any address space. vloada_half3
    has the stride of vload_half3 in clang's SPIR-V.
    """
    if builtin.name in ("mad_sat", "shuffle", "shuffle2", "vloada_half3") or _is_of_a_number(
        builtin.name, builtin.params
    ):
        return True
    if builtin.params and builtin.params[0][1:] == (1, "generic", True):
        return True
    match = _CONVERT_ALIKE.fullmatch(builtin.name)
    if not match or not builtin.params:
        return False
    source = builtin.params[0].base
    if match[1] == "float":
        return source == "float"
    return source.removeprefix("u") in _INTEGERS


def _is_of_a_number(name: str, params: Sequence[Type]) -> bool:
    """Return whether a function is any or all of a number."""
    return name in ("any", "all") and len(params) == 1 and params[0].lanes == 1


def _function(builtin: Builtin, function: str, body: str) -> str:
    """Return the definition of a function with a body."""
    params = [f"{_declared(each)} a{index}" for index, each in enumerate(builtin.params)]
    taken = ", ".join(params) or "void"
    type_ = "event_t"
    if builtin.result.base in (*_NUMBERS, "bool", "void"):
        type_ = builtin.result.spelling
    return f'{type_} {function}({taken}) __asm__("{builtin.symbol}");\n{type_} {function}({taken})\n{{\n{body}\n}}'


def _declared(type_: Type) -> str:
    name = _OTHERS.get(type_.base, type_.spelling)
    if not type_.space:
        return name
    if type_.atomic:
        return f"volatile {type_.space} {name} *"
    return f"{type_.space} {name} *"


def _body(name: str, params: Sequence[Type], result: Type) -> str | None:
    """Return the statements of a function; None if it is unknown."""
    if name in _STATEMENTS:
        return _STATEMENTS[name]
    if not params:
        return None
    if _is_of_a_number(name, params):
        return "return a0 < 0;"
    if numbers := _elements(name, params):
        return f"return ({result.spelling})({', '.join(numbers)});"
    if match := _ATOMIC.fullmatch(name):
        return _atomic(match[1], params[0])
    if name == "get_fence":
        return "return devmod_to_global(a0) ? CLK_GLOBAL_MEM_FENCE : CLK_LOCAL_MEM_FENCE;"
    if name == "vloada_half3":
        return "return vload_half3(0, a1 + 4 * a0);"
    if params[0].atomic and (match := _ATOMIC_OF_2.fullmatch(name)):
        return _atomic_of_2(match["operation"], bool(match["order"]), params)
    if match := _COPY.fullmatch(name):
        strided = "i * 1"
        if match[1]:
            strided = "i * a3"
        copy = f"a0[i] = a1[{strided}]"
        if params[0].space == "global":  # the stride is that of the global memory
            copy = f"a0[{strided}] = a1[i]"
        loop = f"for (size_t i = devmod_linear(); i < a2; i += devmod_threads()) {copy};"
        return f"{loop}\nreturn a{len(params) - 1};"
    return None


def _elements(name: str, params: Sequence[Type]) -> list[str]:
    """Return the elements of the result as expressions; [] for a function without such ones."""
    source = params[0]
    if name in ("shuffle", "shuffle2"):
        mask = f"a{len(params) - 1}"
        return [_element(f"{mask}.s{index:x}", params) for index in range(params[-1].lanes)]
    lanes = ["a0"]
    if source.lanes > 1:
        lanes = [f"a0.s{index:x}" for index in range(source.lanes)]
    if name == "mad_sat":
        parts = [each.removeprefix("a0") for each in lanes]
        return [f"devmod_mad_sat(a0{part}, a1{part}, a2{part})" for part in parts]
    if match := _CONVERT.fullmatch(name):
        return [_convert(lane, source.base, match[1], match[2] or "") for lane in lanes]
    match = _CONVERT_ALIKE.fullmatch(name)
    if not match:
        return []
    if match[2]:
        lanes = [_saturated(lane, source.base, match[1]) for lane in lanes]
    return [f"({match[1]})({each})" for each in lanes]


def _element(index: str, params: Sequence[Type]) -> str:
    """Return the element of a shuffle's vectors, as an expression. The higher bits of the index do
    not count.
    """
    lanes = params[0].lanes
    element = f"a0[{index} & {lanes - 1}]"
    if len(params) == 2:
        return element
    return f"({index} & {lanes} ? a1[{index} & {lanes - 1}] : {element})"


def _convert(value: str, source: str, target: str, mode: str) -> str:
    """Return the conversion of a number as an expression."""
    number = {"rtz": 1, "rtp": 2, "rtn": 3}.get(mode)
    wide = ""
    if target == "half":
        is_exact = source in ("char", "uchar", "half")
        wide = _WIDENED.get(source, "(double)")
    else:
        is_exact = source in _NUMBERS and source not in ("long", "ulong")
    if number is None or is_exact:
        return f"({target}){value}"
    return f"devmod_to_{target}({wide}{value}, {number})"


def _saturated(value: str, source: str, target: str) -> str:
    """Return an integer within the limits of another type of integers, as an expression."""
    least, most = _limits(source)
    target_least, target_most = _limits(target)
    text = value
    if most > target_most:
        limit = f"({source}){target_most}"
        text = f"({value} > {limit} ? {limit} : {text})"
    if least < target_least:
        limit = f"({source}){target_least}"
        text = f"({value} < {limit} ? {limit} : {text})"
    return text


def _limits(type_: str) -> tuple[int, int]:
    """Return the least and the largest number of a type of integers."""
    bits = _INTEGERS[type_.removeprefix("u")]
    if type_.startswith("u"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _atomic(operation: str, pointer: Type) -> str:
    """Return the body of an atomic function of OpenCL C 1.x. It has no order."""
    scope = "__ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE"
    if operation == "inc":
        return f"return __scoped_atomic_fetch_add(a0, 1, {scope});"
    if operation == "dec":
        return f"return __scoped_atomic_fetch_sub(a0, 1, {scope});"
    if operation != "xchg":
        return f"return __scoped_atomic_fetch_{operation}(a0, a1, {scope});"
    if pointer.base != "float":
        return f"return __scoped_atomic_exchange_n(a0, a1, {scope});"
    return f"return as_float(__scoped_atomic_exchange_n((volatile {pointer.space} uint *)a0, as_uint(a1), {scope}));"


def _atomic_of_2(operation: str, ordered: bool, params: Sequence[Type]) -> str:
    """Return the body of an atomic function of OpenCL C 2.0. Every order but the relaxed one is the
    sequentially consistent one of the device.
    """
    pointer = params[0]
    relaxed = _call_of_2(operation, pointer, "__ATOMIC_RELAXED")
    call = _call_of_2(operation, pointer, "__ATOMIC_SEQ_CST")
    if operation == "init":
        call = relaxed
    elif ordered and operation != "compare_exchange":
        order = 1 + _VALUES.get(operation, 1)
        call = f"if (a{order} == __ATOMIC_RELAXED) {{ {relaxed} }} else {{ {call} }}"
    if pointer.space != "generic":
        return call.replace("devmod_space", pointer.space)
    local, other = (call.replace("devmod_space", space) for space in ("local", "global"))
    return f"if (devmod_to_local((generic void *)a0)) {{ {local} }} else {{ {other} }}"


def _call_of_2(operation: str, pointer: Type, order: str) -> str:
    """Return the statement with the operation. The address space is devmod_space."""
    bits = _BITS.get(pointer.base, pointer.base)
    place = f"(devmod_space {bits} *)a0"
    end = f"{order}, __MEMORY_SCOPE_DEVICE)"
    # clang's SPIR-V of these three is a load, a store, and a struct in an OpPhi of ints.
    semantics = "1, 0" if order == "__ATOMIC_RELAXED" else "1, 0x310"
    value, into = "a1", ""
    if pointer.base in _BITS:
        value, into = f"as_{bits}(a1)", f"as_{pointer.base}"
    if operation in ("init", "store"):
        return f"__spirv_AtomicStore({place}, {semantics}, {value});"
    if operation == "load":
        return f"return {into}(__spirv_AtomicLoad({place}, {semantics}));"
    if operation == "exchange":
        return f"return {into}(__scoped_atomic_exchange_n({place}, {value}, {end});"
    if operation == "flag_clear":
        return f"__spirv_AtomicStore({place}, {semantics}, 0);"
    if operation == "flag_test_and_set":
        return f"return __scoped_atomic_exchange_n({place}, 1, {end};"
    if operation == "compare_exchange":
        expected, new = f"*(generic {bits} *)a1", value.replace("a1", "a2")
        call = f"__spirv_AtomicCompareExchange({place}, {semantics}, 0x310, {new}, expected)"
        return f"{bits} expected = {expected}, found = {call}; {expected} = found; return found == expected;"
    return f"return __scoped_atomic_{operation}({place}, a1, {end};"
