"""Find the kernels of a C-like text that give the same result with every block of threads
(`devmod.Interface.open_block`).

The text is searched without a parser, with all branches of ``#if``, because the receiver's compiler
may define other macros. A kernel is open if nothing that it reaches by name has a forbidden word or
calls a function that is neither known nor in the text. The search is conservative: a name may reach
too much, never too little. A text whose braces do not match has no open kernel.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set

from devmod_readers.uses import transitive_parts

_COMMENT = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:(define)[ \t]+([A-Za-z_]\w*))?([^\n]*)$", re.MULTILINE)
#: The definition of a macro whose value is one name: ``(x) x``, ``(f, type) f##_##type``.
_NAMING = re.compile(r"\(\s*(\w+(?:\s*,\s*\w+)*)\s*\)\s*(\w+(?:\s*##\s*\w+)*)\s*")
_TOKEN = re.compile(r"[A-Za-z_]\w*|[(){};]")
_WORD = re.compile(r"[A-Za-z_]\w*")
#: A call, also of a template with arguments.
_CALL = re.compile(r"([A-Za-z_]\w*)\s*(?:<[^<>;(){}]*>\s*)?\(")
#: The texts of declarations by their names.
_Parts = dict[str, list[str]]
_TEMPLATE_TYPE = re.compile(r"\b(?:typename|class)\s+([A-Za-z_]\w*)")
#: Words that precede a parenthesis or begin a declaration, and that no declaration defines.
_KEYWORD_TEXT = """
__attribute__ __kernel kernel __global global __constant constant __private private device thread const volatile restrict __restrict
static inline __inline extern signed unsigned void bool char short int long float double half bfloat uchar ushort uint ulong size_t auto
constexpr struct union enum class typedef template typename using namespace decltype static_assert alignas alignof sizeof if else for
while do switch case return break continue operator host_name metal defined aligned packed vec_type_hint work_group_size_hint
reqd_work_group_size opencl_unroll_hint __global__ __device__ __host__ __constant__ __forceinline__ __noinline__ __inline__ __restrict__
__launch_bounds__ __grid_constant__ __align__ alignof
"""
#: The functions of OpenCL C 1.2 whose result does not depend on the block (the specification's
#: chapters 6.12.2 to 6.12.6 and 6.12.12).
_OPENCL_TEXT = """
abs abs_diff acos acosh acospi add_sat all any asin asinh asinpi atan atan2 atan2pi atanh atanpi bitselect cbrt ceil clamp clz copysign
cos cosh cospi cross degrees distance dot erf erfc exp exp10 exp2 expm1 fabs fast_distance fast_length fast_normalize fdim floor fma fmax
fmin fmod fract frexp hadd hypot ilogb isfinite isinf isnan isnormal ldexp length lgamma log log10 log1p log2 logb mad mad24 mad_hi
mad_sat max maxmag min minmag mix modf mul24 mul_hi nan nextafter normalize popcount pow pown powr prefetch radians remainder remquo rhadd
rint rootn rotate round rsqrt select shuffle shuffle2 sign signbit sin sincos sinh sinpi smoothstep sqrt step sub_sat tan tanh tanpi
tgamma trunc upsample
"""
#: Those of other versions, and of Metal.
_FUNCTION_TEXT = """
get_global_id get_global_offset lgamma_r ctz isequal isnotequal isgreater isgreaterequal isless islessequal islessgreater isordered
isunordered vec_step saturate fmax3 fmin3 fmedian3 max3 min3 median3 absdiff addsat subsat madhi madsat mulhi reverse_bits extract_bits
insert_bits distance_squared length_squared reflect refract faceforward transpose determinant static_cast reinterpret_cast as_type
is_function_constant_defined infinity quiet_NaN lowest read write sample gather sample_compare gather_compare get_width get_height
get_depth get_num_mip_levels get_num_samples get_array_size buffer texture sampler function_constant level bias gradient2d gradient3d
"""
_FAMILIES = re.compile(
    r"(?:native|half|convert|as|atom|atomic|pack|unpack)_\w+|vload\w+|vstore\w+|(?:read|write)_image\w+|get_image_\w+"
    r"|__(?:expf|exp10f|logf|log2f|log10f|sinf|cosf|tanf|powf|sincosf|fdividef|frcp_rn|fsqrt_rn|ldg|ldcs|stcs|saturatef|popc|popcll|clz|clzll|ffs|ffsll|brev|brevll|mul24|umul24|mulhi|umulhi)"
    r"|__[fd](?:add|sub|mul|div|ma|maf|rcp|sqrt|rsqrt)_r[nzud]|__(?:float|double|u?int|u?ll)2(?:float|double|u?int|u?ll)_r[nzud]"
    r"|__(?:half2float|float2half|bfloat162float|float2bfloat16|half22float2|float22half2_rn|hadd2?|hsub2?|hmul2?|hfma2?|hdiv|hmax|hmin)|make_\w+|dim3|cuC\w+|(?:tex|surf)[123C]\w+"
    r"|(?:acos|acosh|asin|asinh|atan|atan2|atanh|cbrt|ceil|copysign|cos|cosh|cospi|erf|erfc|exp|exp2|exp10|expm1|fabs|fdim|floor|fma|fmax|fmin|fmod|hypot|ldexp|log|log2|log10|log1p|nearbyint|pow|remainder|rint|round|rsqrt|sin|sincos|sinh|sinpi|sqrt|tan|tanh|tgamma|trunc)f"
    r"|atomic(?:Add|Sub|Min|Max|And|Or|Xor|Exch|CAS|Inc|Dec)"
    r"|(?:packed_)?(?:float|half|bfloat|u?int|u?short|u?char|u?long|bool)[234](?:x[234])?|vec"
)
#: Whatever depends on the block, the number of blocks or the number of threads.
_FORBIDDEN = re.compile(
    r"get_(?:local|group|num_groups|num_sub|enqueued|global_size|global_linear|work|sub|max)\w*|(?:__)?local|(?:work|sub)_group(?!_size_hint)\w*|\w*barrier\w*|async_\w+"
    r"|wait_group_events|(?:__)?asm(?:__)?|\w*threadgroup\w*|threads_per\w*|thread_index\w*|thread_execution\w*|simd\w*|quad\w*|dispatch\w*"
    r"|grid_\w+|stage_in|threadIdx|blockIdx|blockDim|gridDim|warpSize|__shared__|__\w*sync\w*|__shfl\w*|__activemask|cooperative_groups|cg"
)
OPENCL_FUNCTIONS = frozenset(_OPENCL_TEXT.split())
_KEYWORDS = frozenset(_KEYWORD_TEXT.split())
_FUNCTIONS = OPENCL_FUNCTIONS | frozenset(_FUNCTION_TEXT.split())
_OPERATOR = re.compile(r"\boperator\b")
_BAD = 1

#: What binds tighter than the sum, or is a cast, if it precedes the sum.
_TIGHTER = frozenset("*/%-~!&.)")


def open_functions(text: str) -> set[str]:
    """Return the names of the functions in `text` that give the same result with every block."""
    text = re.sub(r"\\\r?\n", "", text)
    text = _COMMENT.sub(" ", text)
    if _OPERATOR.search(text):
        return set()  # an operator is called without its name
    texts = _with_names(text)
    results = [_open_functions(each) for each in texts]
    closed: set[str] = set()  # names of another text that are not open there
    for each, names in zip(texts, results, strict=True):
        closed |= _words_of([each]) - names
    return set().union(*results) - closed


def _with_names(text: str) -> list[str]:
    """Return the text with each ``NAME(twice)`` replaced by its value, such as ``twice_float``, if
    all definitions of the macro are of one name. The definitions of one macro give a text each. A
    further macro with several stays, since a receiver may have any pair.
    """
    definitions: _Parts = {}
    for _, name, body in _DIRECTIVE.findall(text):
        if name:
            definitions.setdefault(name, []).append(body)
    used = Counter(word for bodies in definitions.values() for word in _words_of(bodies))
    naming = {}
    for name, bodies in definitions.items():
        matches = [_NAMING.fullmatch(body) for body in bodies]
        if not used[name] and all(matches):
            naming[name] = list(dict.fromkeys(match.groups() for match in matches if match))
    several = [name for name, values in naming.items() if len(values) > 1]
    for name, values in naming.items():
        if len(values) == 1:
            text = _replace_names(text, name, *values[0])
    if not several:
        return [text]
    return [_replace_names(text, several[0], *value) for value in naming[several[0]]]


def _words_of(bodies: list[str]) -> set[str]:
    return {word for body in bodies for word in _WORD.findall(body)}


def _replace_names(text: str, macro: str, params: str, value: str) -> str:
    """Replace the uses of a macro that names something."""
    names = _WORD.findall(params)

    def replace(match: re.Match[str]) -> str:
        args = _WORD.findall(match[1])
        if len(args) != len(names):
            return match[0]
        values = dict(zip(names, args, strict=True))
        return "".join(values.get(word, word) for word in re.findall(r"\w+", value))

    # A use with other arguments stays, and is a call of an unknown function.
    text = _DIRECTIVE.sub(lambda match: "" if match[2] == macro else match[0], text)
    return re.sub(rf"\b{macro}\s*\(\s*([A-Za-z_]\w*(?:\s*,\s*\w+)*)\s*\)", replace, text)


def _open_functions(text: str) -> set[str]:
    """Return the names of the functions in a text without comments."""
    parts: _Parts = {}
    for _, name, body in _DIRECTIVE.findall(text):
        if name:
            if body.count("{") != body.count("}") or body.count("(") != body.count(")"):
                return set()
            parts.setdefault(name, []).append(body)
    macros = set(parts)
    functions = _declarations(_DIRECTIVE.sub("", text), parts)
    if functions is None:
        return set()
    known = parts.keys() | _FUNCTIONS | _KEYWORDS | set(_TEMPLATE_TYPE.findall(text))
    own_flags: dict[str, int] = {}
    uses: dict[str, set[str]] = {}
    for name, bodies in parts.items():
        own_flags[name] = 0
        uses[name] = set()
        for body in bodies:
            uses[name].update(_WORD.findall(body))
            if _has_forbidden(body, known):
                own_flags[name] = _BAD
    reachable = transitive_parts(own_flags, uses)
    open_names = {name for name in functions - macros if not reachable[name]}

    # A macro may name a function: ``#define NAME scale``.
    named = macros & functions
    if not any(reachable[macro] for macro in named):
        for macro in named:
            open_names.update(_names_in(parts[macro], text))
    return open_names


def _names_in(bodies: list[str], text: str) -> set[str]:
    """Return the values of a macro that are names. Nothing else in the text may have that name, in
    another branch of a condition.
    """
    result = set()
    for body in bodies:
        name = body.strip()
        if name.isidentifier() and len(re.findall(rf"\b{name}\b", text)) == 1:
            result.add(name)
    return result


def _has_forbidden(body: str, known: Set[str]) -> bool:
    """Return whether a text joins words, has a forbidden word, or calls an unknown function."""
    if "##" in body or any(map(_FORBIDDEN.fullmatch, _WORD.findall(body))):
        return True
    unknown = set(_CALL.findall(body)) - known
    return not all(map(_FAMILIES.fullmatch, unknown))


def _declarations(text: str, parts: _Parts) -> set[str] | None:
    """Add the texts of the declarations outside of functions to `parts`, by their names. Return the
    functions; None if braces do not match.
    """
    functions = set()
    head = _Head(0)
    depth = 0
    namespaces = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if depth:
            # Inside of the braces of a declaration.
            if mark == "{":
                depth += 1
            elif mark == "}":
                depth -= 1
                if not depth:
                    functions.update(head.declare(text[head.start : token.end()], parts))
                    head = _Head(token.end())
            continue

        if mark == "{" and not head.is_namespace:
            depth = 1
        elif mark in "{}":
            namespaces += 1 if mark == "{" else -1
            if namespaces < 0:
                return None
            head = _Head(token.end())
        elif mark == ";":
            head.calls.clear()  # it is no function
            head.declare(text[head.start : token.end()], parts)
            head = _Head(token.end())
        else:
            head.add(mark)
    if depth or namespaces:
        return None
    return functions


class _Head:
    """What is read of a declaration, outside of its braces.

    Attributes
    ----------
    start
        Where it begins.
    names, calls
        The words outside of parentheses, and those before one.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.names: list[str] = []
        self.calls: list[str] = []
        self._parentheses = 0
        self._word = ""

    @property
    def is_namespace(self) -> bool:
        return bool(self.names) and self.names[0] in ("namespace", "extern") and not self.calls

    def add(self, mark: str) -> None:
        """Read a word or a parenthesis."""
        if mark == "(":
            if not self._parentheses and self._word:
                self.calls.append(self._word)
            self._parentheses += 1
        elif mark == ")":
            self._parentheses -= 1
        elif not self._parentheses:
            self.names.append(mark)
        self._word = mark if mark not in "()" else ""

    def declare(self, text: str, parts: _Parts) -> list[str]:
        """Add the text of the declaration to `parts`, by the function's name, or by all names.
        Return the function's.
        """
        functions = [name for name in self.calls if name not in _KEYWORDS]
        for name in dict.fromkeys(functions or self.names):
            if name not in _KEYWORDS:
                parts.setdefault(name, []).append(text)
        return functions


# -- Find the CUDA and HIP kernels that give the same result with every block of threads.
#
# Such a kernel uses the block only to compute the number of its thread: ``blockIdx.x * blockDim.x +
# threadIdx.x``, in any of the usual forms. Each form is replaced by a function that the search
# recognizes (`devmod_targets.authoring`).


def _forms(axis: str) -> str:
    """Return the pattern of the number of a thread along an axis."""

    def word(name: str) -> str:
        plain = rf"{name}\s*\.\s*{axis}"
        return rf"(?:{plain}|\(\s*(?:int|unsigned|unsigned\s+int|size_t)\s*\)\s*{plain}|\(\s*{plain}\s*\))"

    block = word("blockIdx")
    size = word("blockDim")
    thread = word("threadIdx")
    product = rf"(?:{block}\s*\*\s*{size}|{size}\s*\*\s*{block})"
    product = rf"(?:{product}|\(\s*{product}\s*\)|__u?mul24\s*\(\s*(?:{block}\s*,\s*{size}|{size}\s*,\s*{block})\s*\))"
    return rf"(?:{product}\s*\+\s*{thread}|{thread}\s*\+\s*{product})(?!\s*[.*/%\w])"


def open_kernels(text: str) -> set[str]:
    """Return the names of the functions in `text` that give the same result with every block."""
    # The pattern takes 13 ms to compile, and most kinds do not use it.
    return open_functions(re.sub("|".join(map(_forms, "xyz")), _replace, text))


def _replace(match: re.Match[str]) -> str:
    text = match.string
    at = match.start() - 1
    while at >= 0 and text[at].isspace():
        at -= 1
    if at >= 0:
        in_word = text[at].isalnum() or text[at] == "_"
        if text[at] in _TIGHTER or (in_word and at == match.start() - 1):
            return match[0]
    return " get_global_id(0) "
