"""OpenCL C's functions of floating-point numbers: the bounds of their errors, and exact results.

The bounds are those of the full profile: OpenCL C 3.0, "Relative Error as ULPs", and for half those
of the OpenCL SPIR-V environment, "ULP Values for Math Instructions".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mp, mpf

Array = np.ndarray[Any, Any]

PRECISION = 160
INFINITY = float("inf")
NAN = float("nan")
#: The types: the bits of the significand, and the smallest exponent of a number that is no multiple
#: of a smaller one.
FORMATS = {"half": (11, -24), "float": (24, -149), "double": (53, -1074)}
DTYPES = {"half": "float16", "float": "float32", "double": "float64"}
#: An implementation defines the bound of lgamma. This is devmod's: of 4e4 draws, two exceed 4, near
#: the poles at negative integers.
OWN = 8
#: The threads of a block, which each have an element.
BLOCK = 128


class Function(NamedTuple):
    """A function of floating-point numbers.

    Attributes
    ----------
    exact
        The result for arguments that are neither zero, infinite nor NaN.
    bounds
        The bound of the error in ULP for float and double, and for half.
    special
        The result for each of the arguments 0, -0, infinity and -infinity of a function of one
        argument. None: the exact one.
    near_zero
        The smallest result whose last place is the unit of the error. The error of lgamma near its
        zeros is absolute.
    """

    exact: Callable[..., Any]
    bounds: tuple[float, float]
    special: Sequence[float | None] = (None, None, None, None)
    near_zero: float = 0


def _sinpi(x: Any) -> Any:
    return mp.sinpi(x)


def _tanpi(x: Any) -> Any:
    if 2 * x == mp.nint(2 * x) and x != mp.nint(x):
        return mp.inf if mp.floor(x) % 2 == 0 else -mp.inf
    return mp.sinpi(x) / mp.cospi(x)


def _gamma(x: Any) -> Any:
    if x < 0 and x == mp.floor(x):
        return mp.nan
    # Beyond, the result is zero or infinite for each type.
    if x < -200:
        return mpf(0)
    if x > 200:
        return mpf(2) ** 3000
    return mp.gamma(x)


def _lgamma(x: Any) -> Any:
    if x < 0 and x == mp.floor(x):
        return mp.inf
    if x > 0:
        return mp.loggamma(x)
    return mp.log(abs(mp.pi / (mp.sinpi(x) * x))) - mp.loggamma(-x)


def _exponential(base: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the exponential without numbers whose exponents have millions of digits."""
    return lambda x: base(max(min(x, mpf(5000)), mpf(-5000)))


def _real(function: Callable[..., Any], *, below: float = INFINITY) -> Callable[[Any], Any]:
    """Return a function that is NaN where the result has an imaginary part, or above `below`."""

    def real(x: Any) -> Any:
        if abs(x) > below:
            return mp.nan
        result = function(x)
        return mp.nan if isinstance(result, mpmath.mpc) else result

    return real


def _logarithm(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: mp.nan if x < 0 else function(x)


def _cbrt(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


def _acosh(x: Any) -> Any:
    return mp.acosh(x) if x >= 1 else mp.nan


def _atanh(x: Any) -> Any:
    if abs(x) == 1:
        return x * mp.inf
    return mp.atanh(x) if abs(x) < 1 else mp.nan


def _log1p(x: Any) -> Any:
    if x == -1:
        return -mp.inf
    return mp.log1p(x) if x > -1 else mp.nan


def _erfc(x: Any) -> Any:
    return mpf(0) if x > 200 else mp.erfc(x)


ODD = (0.0, -0.0)
_HALF_PI = 1.5707963267948966
UNARY = {
    "acos": Function(_real(mp.acos, below=1), (4, 2), (None, None, NAN, NAN)),
    "acosh": Function(_acosh, (4, 2), (NAN, NAN, INFINITY, NAN)),
    "acospi": Function(_real(lambda x: mp.acos(x) / mp.pi, below=1), (5, 2), (0.5, 0.5, NAN, NAN)),
    "asin": Function(_real(mp.asin, below=1), (4, 2), (*ODD, NAN, NAN)),
    "asinh": Function(mp.asinh, (4, 2), (*ODD, INFINITY, -INFINITY)),
    "asinpi": Function(_real(lambda x: mp.asin(x) / mp.pi, below=1), (5, 2), (*ODD, NAN, NAN)),
    "atan": Function(mp.atan, (5, 2), (*ODD, None, None)),
    "atanh": Function(_atanh, (5, 2), (*ODD, NAN, NAN)),
    "atanpi": Function(lambda x: mp.atan(x) / mp.pi, (5, 2), (*ODD, 0.5, -0.5)),
    "cbrt": Function(_cbrt, (2, 2), (*ODD, INFINITY, -INFINITY)),
    "cos": Function(mp.cos, (4, 2), (1, 1, NAN, NAN)),
    "cosh": Function(_exponential(mp.cosh), (4, 2), (1, 1, INFINITY, INFINITY)),
    "cospi": Function(mp.cospi, (4, 2), (1, 1, NAN, NAN)),
    "erf": Function(mp.erf, (16, 4), (*ODD, 1, -1)),
    "erfc": Function(_erfc, (16, 4), (1, 1, 0.0, 2)),
    "exp": Function(_exponential(mp.exp), (3, 2), (1, 1, INFINITY, 0.0)),
    "exp10": Function(_exponential(lambda x: mpf(10) ** x), (3, 2), (1, 1, INFINITY, 0.0)),
    "exp2": Function(_exponential(lambda x: mpf(2) ** x), (3, 2), (1, 1, INFINITY, 0.0)),
    "expm1": Function(_exponential(mp.expm1), (3, 2), (*ODD, INFINITY, -1)),
    "lgamma": Function(_lgamma, (OWN, OWN), (INFINITY,) * 4, near_zero=1),
    "log": Function(_logarithm(mp.log), (3, 2), (-INFINITY, -INFINITY, INFINITY, NAN)),
    "log10": Function(_logarithm(mp.log10), (3, 2), (-INFINITY, -INFINITY, INFINITY, NAN)),
    "log1p": Function(_log1p, (2, 2), (*ODD, INFINITY, NAN)),
    "log2": Function(
        _logarithm(lambda x: mp.log(x, 2)), (3, 2), (-INFINITY, -INFINITY, INFINITY, NAN)
    ),
    "rsqrt": Function(
        _logarithm(lambda x: 1 / mp.sqrt(x)), (2, 1), (INFINITY, -INFINITY, 0.0, NAN)
    ),
    "sin": Function(mp.sin, (4, 2), (*ODD, NAN, NAN)),
    "sinh": Function(_exponential(mp.sinh), (4, 2), (*ODD, INFINITY, -INFINITY)),
    "sinpi": Function(_sinpi, (4, 2), (*ODD, NAN, NAN)),
    "tan": Function(mp.tan, (5, 2), (*ODD, NAN, NAN)),
    "tanh": Function(mp.tanh, (5, 2), (*ODD, 1, -1)),
    "tanpi": Function(_tanpi, (6, 2), (*ODD, NAN, NAN)),
    "tgamma": Function(_gamma, (16, 4), (INFINITY, -INFINITY, INFINITY, NAN)),
}


def _power(x: Any, y: Any) -> Any:
    if x < 0:
        if y != mp.floor(y):
            return mp.nan
        return _power(-x, y) * (-1 if y % 2 == 1 else 1)
    exponent = max(min(y * mp.log(x), mpf(5000)), mpf(-5000))
    return mp.exp(exponent)


def _root(x: Any, n: Any) -> Any:
    if n == 0 or (x < 0 and n % 2 == 0):
        return mp.nan
    return mp.sign(x) * mp.exp(mp.log(abs(x)) / n)


def _positive(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: mp.nan if x < 0 else function(x, y)


#: The results for zeros, infinities and NaN are those of NumPy's functions with the precision of
#: long double: those of C99.
BINARY = {
    "atan2": (Function(mp.atan2, (6, 2)), np.arctan2),
    "atan2pi": (
        Function(lambda y, x: mp.atan2(y, x) / mp.pi, (6, 2)),
        lambda y, x: np.arctan2(y, x) / np.arctan2(np.longdouble(0), np.longdouble(-1)),
    ),
    "divide": (Function(lambda x, y: x / y, (2.5, 0.5)), np.divide),
    "hypot": (Function(lambda x, y: mp.sqrt(x * x + y * y), (4, 2)), np.hypot),
    "pow": (Function(_power, (16, 4)), np.power),
}
#: Of a number and an int.
WITH_INTEGER = {
    "pown": Function(_power, (16, 4)),
    "rootn": Function(_root, (16, 4)),
}


def ulps(type_: str, result: float, exact: Any, near_zero: float = 0) -> float:
    """Return the error of a result in units in the last place of the exact one."""
    bits, lowest = FORMATS[type_]
    if mp.isnan(exact):
        return 0 if math.isnan(result) else INFINITY
    if math.isnan(result):
        return INFINITY
    if mp.isinf(exact) or (exact == 0 and near_zero == 0):
        return 0 if result == exact else INFINITY
    highest = 3 - lowest - bits
    limit = mpf(2) ** highest
    largest = limit - mpf(2) ** (highest - bits - 1)
    if abs(exact) >= largest:
        exact = mp.sign(exact) * limit
    elif type_ == "float" and result == 0 and abs(exact) < mpf(2) ** -126:
        return 0  # OpenCL lets a subnormal result of float be zero
    if math.isinf(result):
        result = math.copysign(1, result) * limit
    _, exponent = mp.frexp(max(abs(exact), near_zero))
    unit = mpf(2) ** min(max(exponent - bits, lowest), highest - bits)
    return float(abs(mpf(result) - exact) / unit)


def errors(
    function: Function,
    type_: str,
    arguments: Sequence[Array],
    results: Array,
    special: Array | None = None,
) -> Iterator[tuple[float, list[float], float, Any]]:
    """Yield the error of each result in ULP, its arguments, the result and the exact one.

    Parameters
    ----------
    function
        The function.
    type_
        The type of the results.
    arguments
        The arguments, each an array.
    results
        The computed results.
    special
        The results for zeros, infinities and NaN. Default: those of `Function.special`.
    """
    rows = zip(*(each.tolist() for each in arguments), results.tolist(), strict=True)
    with mp.workprec(PRECISION):
        for number, (*values, result) in enumerate(rows):
            if all(value != 0 and math.isfinite(value) for value in values):
                exact = function.exact(*map(mpf, values))
                error = ulps(type_, result, exact, function.near_zero)
            else:
                if special is None:
                    exact = _special(function, type_, values[0])
                else:
                    exact = float(special[number])
                error = _special_error(type_, result, exact)
            yield error, values, result, exact


def wrong_results(
    function: Function,
    type_: str,
    arguments: Sequence[Array],
    results: Array,
    special: Array | None = None,
) -> list[str]:
    """Return the results beyond the bound, five at most. The parameters are those of `errors`."""
    bound = function.bounds[type_ == "half"]
    wrong = [
        f"{values} -> {result}, expected {exact}: {error:.4g} > {bound} ULP"
        for error, values, result, exact in errors(function, type_, arguments, results, special)
        if error > bound
    ]
    return wrong[:5]


def _special(function: Function, type_: str, value: float) -> float:
    """Return the result for zero, an infinity or NaN."""
    if math.isnan(value):
        return NAN
    index = 2 * math.isinf(value) + (math.copysign(1, value) < 0)
    result = function.special[index]
    if result is None:
        result = float(function.exact(mpf(value)))
    return float(np.dtype(DTYPES[type_]).type(result))


def _special_error(type_: str, result: float, exact: float) -> float:
    if math.isnan(exact) or exact == 0 or math.isinf(exact):
        return 0 if same(np.array([result]), np.array([exact]))[0] else INFINITY
    return ulps(type_, result, mpf(exact))


def same(results: Array, expected: Array) -> Array:
    """Return whether numbers are equal, with the signs of zeros. All NaN are equal."""
    equal = (results == expected) & (np.signbit(results) == np.signbit(expected))
    both: Array = equal | (np.isnan(results) & np.isnan(expected))
    return both


def _each(function: Callable[..., float]) -> Callable[..., Array]:
    """Return a function of arrays of a function of numbers, with results of the same type."""

    def each(*arrays: Array) -> Array:
        rows = zip(*(array.tolist() for array in arrays), strict=True)
        return np.array([function(*row) for row in rows]).astype(arrays[0].dtype)

    return each


def _round(x: Array) -> Array:
    whole = np.trunc(x)
    away = np.abs(x - whole) >= 0.5
    return np.copysign(np.where(away, np.abs(whole) + 1, np.abs(whole)), x).astype(x.dtype)


def _logb(x: Array) -> Array:
    exponents = np.where(np.isfinite(x), np.frexp(x)[1] - 1.0, np.abs(x))
    return np.where(x == 0, -INFINITY, exponents).astype(x.dtype)


def _fdim(x: Array, y: Array) -> Array:
    difference = np.where(x > y, x - y, 0)
    return np.where(np.isnan(x) | np.isnan(y), NAN, difference).astype(x.dtype)


def _remainder(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return NAN
    return math.remainder(x, y)


def _larger(larger: bool) -> Callable[[Array, Array], Array]:
    """Return maxmag or minmag."""

    def of_magnitudes(x: Array, y: Array) -> Array:
        equal = np.fmax(x, y) if larger else np.fmin(x, y)
        first = np.abs(x) > np.abs(y) if larger else np.abs(x) < np.abs(y)
        second = np.abs(y) > np.abs(x) if larger else np.abs(y) < np.abs(x)
        return np.where(first, x, np.where(second, y, equal))

    return of_magnitudes


#: The functions whose results are exact or correctly rounded.
EXACT: dict[str, Callable[..., Array]] = {
    "ceil": np.ceil,
    "fabs": np.abs,
    "floor": np.floor,
    "logb": _logb,
    "rint": np.rint,
    "round": _round,
    "sqrt": np.sqrt,
    "trunc": np.trunc,
}
EXACT_BINARY: dict[str, Callable[..., Array]] = {
    "copysign": np.copysign,
    "fdim": _fdim,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "maxmag": _larger(True),
    "minmag": _larger(False),
    "nextafter": np.nextafter,
    "remainder": _each(_remainder),
}
#: The functions for which the sign of a zero, or which of two zeros, is open.
OPEN_ZERO = ("fmax", "fmin", "maxmag", "minmag", "nextafter")


def rounded(type_: str, exact: Fraction) -> float:
    """Return the number of a type that is nearest to an exact one."""
    bits, lowest = FORMATS[type_]
    if exact == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(exact.numerator)) - math.log2(exact.denominator))
    while abs(exact) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    unit = max(exponent + 1 - bits, lowest)
    number = round(exact / Fraction(2) ** unit)
    if abs(number) * Fraction(2) ** unit >= Fraction(2) ** (3 - lowest - bits):
        return math.copysign(INFINITY, number)
    return float(number * Fraction(2) ** unit)


def whole_blocks(*arrays: Array) -> list[Array]:
    """Return the arrays without the elements after the last whole block."""
    count = len(arrays[0]) // BLOCK * BLOCK
    return [each[:count].copy() for each in arrays]


def differences(arguments: Sequence[Array], results: Array, expected: Array) -> list[Any]:
    """Return the arguments with other results than the expected ones, five at most."""
    wrong = np.flatnonzero(~same(results, expected.astype(results.dtype)))
    return [
        (*(each[index] for each in arguments), results[index], expected[index])
        for index in wrong[:5]
    ]


def edges(type_: str) -> Array:
    """Return numbers at which functions change."""
    limits = np.finfo(DTYPES[type_])
    tiny = limits.smallest_subnormal
    values = [
        *(0.0, -0.0, math.inf, -math.inf, math.nan, limits.max, -limits.max),
        *(limits.tiny, -limits.tiny, tiny, -tiny, limits.tiny - tiny, limits.eps),
        *(1 + limits.eps, 1 - limits.epsneg, -1 - limits.eps, 0.25, 0.75, math.pi, math.e),
        # Where exponentials overflow and underflow, and near the zeros of lgamma.
        *(88.7, -87.4, -103.9, 709.7, -745.1, 11.09, -17.3, 34.9, 127, 128, -149, -150, 1023),
        *(1024, -1074, -1075, 171.6, 170, 35.1, -2.4570247382208006, -2.7476826467274127, 1e-20),
        *(4.7e37, -1.96e-38, -8.000144004821777),
        *(number / 2 for number in range(-60, 61)),
    ]
    with np.errstate(over="ignore", under="ignore"):
        return np.array(values, DTYPES[type_])


def draws(type_: str, count: int, seed: int) -> Array:
    """Return the edges, numbers of all exponents, and numbers of usual size, in any order."""
    random = np.random.default_rng(seed)
    dtype = np.dtype(DTYPES[type_])
    bits = random.integers(0, 256, count // 2 * dtype.itemsize, dtype=np.uint8).view(dtype)
    usual = [
        random.uniform(-10, 10, count // 4),
        random.uniform(-1.2, 1.2, count // 8),
        random.uniform(-100, 1000, count // 8),
    ]
    numbers = np.concatenate([edges(type_), bits, *(each.astype(dtype) for each in usual)])
    random.shuffle(numbers)
    return numbers


def pairs(type_: str, count: int, seed: int) -> tuple[Array, Array]:
    """Return pairs of draws, and all pairs of some edges."""
    grid = np.meshgrid(edges(type_)[:40], edges(type_)[:40])
    left = np.concatenate([draws(type_, count, seed), grid[0].ravel()])
    right = np.concatenate([draws(type_, count, seed + 1), grid[1].ravel()])
    return left, right


SOME_INTEGERS = (
    *(0, 1, -1, 2, -2, 3, -3, 5, 23, 24, 126, 127, 128, -126, -148, -149, -150, 300, -300),
    *(1022, 1023, -1022, -1074, 2098, -2098, 5000, -5000, 2**31 - 1, -(2**31)),
)


def with_integers(type_: str, count: int) -> list[Array]:
    """Return draws and integers, and all pairs of edges and some integers."""
    random = np.random.default_rng(5)
    x = draws(type_, count, 6)
    n = random.integers(-40, 40, len(x))
    n[::7] = random.integers(-(2**31), 2**31, len(n[::7]))
    grid = np.meshgrid(edges(type_), SOME_INTEGERS)
    x = np.concatenate([x, grid[0].ravel()])
    n = np.concatenate([n, grid[1].ravel()]).astype(np.int32)
    return whole_blocks(x, n)


def special_power(x: Array, n: Array) -> Array:
    """Return the results of pown for zeros, infinities and NaN."""
    return np.power(x.astype(np.longdouble), n)


def special_root(x: Array, n: Array) -> Array:
    """Return the results of rootn for zeros, infinities and NaN."""
    is_odd = n % 2 != 0
    result = np.where(x == 0, 0.0, np.inf)
    result = np.where(n < 0, np.where(x == 0, np.inf, 0.0), result)
    result = np.where(is_odd, np.copysign(result, x), result)
    no_root = (n == 0) | np.isnan(x) | (~is_odd & (x == -np.inf))
    return np.where(no_root, np.nan, result)


#: The functions of float that have a half_ and a native_ form.
FAST = {
    **{
        name: UNARY[name].exact
        for name in ["cos", "exp", "exp2", "exp10", "log", "log2", "log10", "rsqrt", "sin", "tan"]
    },
    "recip": lambda x: 1 / x,
    "sqrt": _logarithm(mp.sqrt),
}
FAST_BINARY = {"divide": BINARY["divide"][0].exact, "powr": _power}
#: OpenCL's bound for half_, in ULP.
HALF_BOUND = 8192
#: An implementation defines the error of native_. This is devmod's, relative to the larger of the
#: result and 1; for tan, to 1 + result^2, which is its slope.
NATIVE_BOUND = 4e-6


def fast_source() -> str:
    """Return a source with a kernel for each function."""
    return "".join(
        f"kernel void k_{prefix}_{name}(global const float *x, global const float *y, global float *z)"
        f" {{ size_t i = get_global_id(0); z[i] = {prefix}_{name}({arguments}); }}\n"
        for prefix in ("half", "native")
        for names, arguments in ((FAST, "x[i]"), (FAST_BINARY, "x[i], y[i]"))
        for name in names
    )


def wrong_fast(run: Callable[[str, str, Sequence[Array]], object], count: int) -> list[str]:
    """Return the half_ and native_ functions beyond their bounds. `run` takes a source, the name of
    a kernel and its arguments.
    """
    random = np.random.default_rng(12)
    x, y = random.uniform(0.05, 10, (2, count)).astype(np.float32)
    signed = (x * random.choice([-1, 1], count)).astype(np.float32)
    problems = []
    for name, exact in (FAST | FAST_BINARY).items():
        a = signed
        if name in ("log", "log2", "log10", "rsqrt", "sqrt", "powr"):
            a = x
        pairs = list(zip(a.tolist(), y.tolist(), strict=True))
        with mp.workprec(PRECISION):
            if name in FAST:
                expected = [exact(mpf(left)) for left, _ in pairs]
            else:
                expected = [exact(mpf(left), mpf(right)) for left, right in pairs]
            for prefix in ("half", "native"):
                results = np.zeros_like(a)
                run(fast_source(), f"k_{prefix}_{name}", [a, y, results])
                both = list(zip(results.tolist(), expected, strict=True))
                if prefix == "half":
                    error = max(ulps("float", result, number) for result, number in both)
                    bound = float(HALF_BOUND)
                else:
                    power = 1 + (name == "tan")
                    error = max(float(abs(r - e) / max(abs(e) ** power, 1)) for r, e in both)
                    bound = NATIVE_BOUND
                if not error <= bound:
                    problems.append(f"{prefix}_{name}: {error:.3g} > {bound}")
    return problems


def _length(x: Sequence[Any]) -> Any:
    return mp.sqrt(mp.fsum(each * each for each in x))


def _distance(x: Sequence[Any], y: Sequence[Any]) -> Any:
    return _length([a - b for a, b in zip(x, y, strict=True)])


def _normalize(x: Sequence[Any], _: Sequence[Any]) -> list[Any]:
    length = _length(x)
    return [each / length for each in x]


def _dot(x: Sequence[Any], y: Sequence[Any]) -> Any:
    return mp.fsum(a * b for a, b in zip(x, y, strict=True))


def _cross(x: Sequence[Any], y: Sequence[Any]) -> list[Any]:
    turns = [(1, 2), (2, 0), (0, 1)]
    return [x[a] * y[b] - x[b] * y[a] for a, b in turns] + [mpf(0)] * (len(x) - 3)


class Geometric(NamedTuple):
    """A geometric function.

    Attributes
    ----------
    exact
        The result for two vectors: a number, or a sequence.
    bounds
        For float, double and half, the bound in ULP and what each element of the vector adds.
        None: it is absolute, the product of the largest elements and 3, for cross, or 2n - 1
        epsilons.
    widths
        The numbers of elements.
    """

    exact: Callable[[Sequence[Any], Sequence[Any]], Any]
    bounds: dict[str, tuple[float, float]] | None = None
    widths: Sequence[int] = (1, 2, 3, 4)

    def bound(self, type_: str, width: int) -> float:
        """Return the bound for vectors in ULP, or in epsilons."""
        if self.bounds is None:
            return 3.0 if self.exact is _cross else 2.0 * width - 1
        least, each = self.bounds[type_]
        return least + each * width


def _bounds(*bounds: tuple[float, float]) -> dict[str, tuple[float, float]]:
    return dict(zip(("float", "double", "half"), bounds, strict=False))


GEOMETRIC = {
    "cross": Geometric(_cross, widths=(3, 4)),
    "distance": Geometric(_distance, _bounds((2.5, 2), (5.5, 2), (0, 2))),
    "dot": Geometric(_dot),
    "fast_distance": Geometric(_distance, _bounds((8191.5, 2))),
    "fast_length": Geometric(lambda x, _: _length(x), _bounds((8191.5, 1))),
    "fast_normalize": Geometric(_normalize, _bounds((8192, 1))),
    "length": Geometric(lambda x, _: _length(x), _bounds((2.75, 0.5), (5.5, 1), (0.25, 0.5))),
    "normalize": Geometric(_normalize, _bounds((2, 1), (4.5, 1), (1, 1))),
}
#: The exponents of the elements of vectors whose lengths no type loses; the squares of half of them
#: are beyond the type.
_EXPONENTS = {"half": (-12, 13), "float": (-120, 124), "double": (-1000, 1000)}


def geometrics(type_: str) -> list[str]:
    """Return the names of the geometric functions of a type."""
    return [
        name
        for name, function in GEOMETRIC.items()
        if function.bounds is None or type_ in function.bounds
    ]


def geometric_source(type_: str) -> str:
    """Return a source with the kernel k_NAME_WIDTH for each geometric function and width."""
    source = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
    vector = f"global const {type_} *"
    parameters = f"global {type_} *z, {vector}x, {vector}y, global {type_} *v"
    for name in geometrics(type_):
        for width in GEOMETRIC[name].widths:
            x, y = "x[i]", "y[i]"
            if width > 1:
                x, y = f"vload{width}(i, x)", f"vload{width}(i, y)"
            operands = f"{x}, {y}"
            if "length" in name or "normalize" in name:
                operands = x
            result = f"{name}({operands})"
            store = f"z[i] = {result};"
            if "normalize" in name or name == "cross":
                store = f"vstore{width}({result}, i, v);" if width > 1 else f"v[i] = {result};"
            source += f"kernel void k_{name}_{width}({parameters}) {{ size_t i = get_global_id(0); {store} }}\n"
    return source


def wrong_geometric(
    run: Callable[[str, str, Sequence[Array]], object],
    type_: str,
    name: str,
    count: int,
    *,
    without: Sequence[int] = (),
) -> list[str]:
    """Return the results of a geometric function beyond the bound, five at most. `run` takes a
    source, the name of a kernel and its arguments. Vectors of `without` elements are left out.
    """
    wrong = []
    for width in GEOMETRIC[name].widths:
        if width in without:
            continue
        x, y = _vectors(type_, name, width, count)
        numbers, vectors = np.zeros(count, x.dtype), np.zeros_like(x)
        arguments = [numbers, x.ravel(), y.ravel(), vectors.reshape(-1)]
        run(geometric_source(type_), f"k_{name}_{width}", arguments)
        if name == "cross" or "normalize" in name:
            results = vectors.tolist()
        else:
            results = numbers[:, np.newaxis].tolist()
        with mp.workprec(PRECISION):
            for left, right, found in zip(x.tolist(), y.tolist(), results, strict=True):
                wrong += _wrong_vector(type_, name, left, right, found)
    return wrong[:5]


def _vectors(type_: str, name: str, width: int, count: int) -> tuple[Array, Array]:
    """Return two arrays of vectors, those of the first quarter with lengths of all exponents."""
    low, high = _EXPONENTS[type_]
    if name.startswith("fast") or GEOMETRIC[name].bounds is None:  # these may square elements
        low, high = low // 2, high // 2 - 2
    random = np.random.default_rng(13)
    vectors = random.uniform(-10, 10, (2, count, width))
    quarter = count // 4
    sizes = random.integers(low, high, (quarter, 1)) - random.integers(0, 2, (2, quarter, width))
    vectors[:, :quarter] = np.ldexp(random.uniform(0.5, 1, sizes.shape), sizes)
    vectors[:, quarter : 2 * quarter] *= np.exp2(random.integers(-6, 3, (2, quarter, width)))
    vectors[0, -width:] = np.eye(width)
    x, y = vectors.astype(DTYPES[type_])
    return x, y


def _wrong_vector(
    type_: str, name: str, x: Sequence[float], y: Sequence[float], results: Sequence[float]
) -> list[str]:
    """Return what is wrong with the results for two vectors."""
    function = GEOMETRIC[name]
    exact = function.exact([mpf(each) for each in x], [mpf(each) for each in y])
    if not isinstance(exact, list):
        exact = [exact]
    bound = function.bound(type_, len(x))
    bits, lowest = FORMATS[type_]
    unit = max(mpf(2) ** (1 - bits) * max(map(abs, x)) * max(map(abs, y)), mpf(2) ** lowest)
    wrong = []
    for result, number in zip(results, exact, strict=True):
        if function.bounds is None:
            error = float(abs(result - number) / unit)
        else:
            error = ulps(type_, result, number)
        if not error <= bound:
            wrong.append(f"{name}({x}, {y}): {results}, expected {number}: {error:.4g} > {bound}")
    return wrong
