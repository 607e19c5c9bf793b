"""devmod.program and devmod.step: text to programs, what is refused, and programs in programs."""

from __future__ import annotations

from typing import Any

import pytest
from each_case import raised, refusal
from hypothesis import given
from hypothesis import strategies as st

import devmod
from devmod import FormatError, FunctionInfo, Interface, Member, Param
from devmod.backend import expression_text, payload_of
from devmod_readers.programs import (
    MAX_STEPS,
    OPERATORS,
    Array,
    Program,
    Repeat,
    Sampler,
    Scalar,
    Step,
    read_program,
)
from devmod_readers.programs._model import MAX_TEMPORARIES

pytestmark = pytest.mark.row("R45")


def kernel(*params: Param, **fields: Any) -> FunctionInfo:
    """A kernel of any block, unless `fields` say otherwise."""
    types = [each.type if each.kind in ("scalar", "uniform") else "handle" for each in params]
    return FunctionInfo(
        "k", types, interface=Interface(params, **{"open_block": "block" not in fields, **fields})
    )


def buffer(name: str, access: str = "r", dtype: str = "float32") -> Param:
    return Param(name, "buffer", dtype, access)


def number(name: str, dtype: str = "int32") -> Param:
    return Param(name, "scalar", dtype)


Y = buffer("y", "rw")
STRUCT = [Member("scale", "float32"), Member("count", "int32", 4)]
KERNELS = {
    "add": kernel(buffer("x"), Y, number("n"), number("a", "float32")),
    "fill": kernel(buffer("y", "w"), number("value", "float32")),
    "fixed": kernel(Y, block=(64, 1, 1)),
    "blockless": kernel(Y, block=None),
    "sample": kernel(
        Param("picture", "image", "2d", "r", sample="float"),
        Param("how", "sampler"),
        Param("out", "image", "2d", "w", format="rgba8unorm"),
    ),
    "by_value": kernel(Param("p", "scalar", "uint8x8", align=4, members=STRUCT), Y),
    "matrix": kernel(
        Param("m", "scalar", "uint8x16", members=[Member("", "float32", shape=[4], strides=[4])]), Y
    ),
    "scratch": kernel(Param("t", "local", "float32"), Y),
    "strided": FunctionInfo(
        "k",
        ["handle", "int32", "int32"],
        interface=Interface(
            [
                Param(
                    "y",
                    "buffer",
                    "float32",
                    "rw",
                    pack=("ptr:handle", "shape0:int32", "shape1:int32"),
                )
            ],
            open_block=True,
        ),
    ),
    "words": kernel(buffer("lambda"), buffer("grid", "rw"), number("stream")),
    "unnamed": kernel(buffer("")),
    "constants": kernel(Y, extra={"constants": [{"name": "TILE", "type": "int32"}]}),
    "flag": kernel(Y, number("on", "bool")),
    "tvm": FunctionInfo("k", ["handle"]),
    "scale<float>": kernel(Y),
}


def opencl(kernels: dict[str, FunctionInfo] = KERNELS) -> devmod.Module:
    return devmod.create_with_fallback("opencl", b"kernel void k() {}", "cl", kernels)


GOOD: dict[str, Any] = {
    "inputs": ["x: float32[n]", "a: float32 = 2.0"],
    "outputs": ["y: float32[n]"],
    "steps": ["fill(y=y, value=0.0, threads=n)", "add(x=x, y=y, n=n, a=a, threads=n)"],
}


def make(**changes: Any) -> devmod.Module:
    arguments = {**GOOD, **changes}
    return devmod.program(
        arguments.pop("name", "p"), arguments.pop("kernels", None) or opencl(), **arguments
    )


def read(module: devmod.Module, name: str = "p") -> Program:
    """The program that a module holds."""
    found: Any = payload_of(
        next(each for each in module.imports if each.kind == "program" and name in each.functions)
    )
    return read_program(name, found[2][name], found[3][name])


def refused(**changes: Any) -> str:
    error = raised(FormatError, make, **changes)
    assert error.kind == "program"
    return str(error)


SIGNATURES = {
    "{add}": "As opencl/cl it is add(x: float32* r, y: float32* rw, n: int32, a: float32) any block",
    "{fill}": "As opencl/cl it is fill(y: float32* w, value: float32) any block",
    "{fixed}": "As opencl/cl it is fixed(y: float32* rw) block 64×1×1",
    "{blockless}": "As opencl/cl it is blockless(y: float32* rw)",
    "{sample}": "As opencl/cl it is sample(picture: image 2d float r, how: sampler, out: image 2d rgba8unorm w) any block",
    "{matrix}": "As opencl/cl it is matrix(m: float32[4], y: float32* rw) any block",
    "{scratch}": "As opencl/cl it is scratch(t: local float32, y: float32* rw) any block",
    "{strided}": "As opencl/cl it is strided(y: float32* rw pack ptr shape0 shape1) any block",
    "{unnamed}": "As opencl/cl it is unnamed(float32* r) any block",
    "{constants}": "As opencl/cl it is constants(y: float32* rw) any block",
    "{flag}": "As opencl/cl it is flag(y: float32* rw, on: bool) any block",
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no steps": ({"steps": []}, ": it has no steps"),
    "not text": (
        {"steps": [5]},
        ": steps: expected text, a devmod.step or a devmod.repeat, got int",
    ),
    "not list": ({"inputs": 5}, ": inputs: expected a list of texts, got int"),
    "syntax": ({"steps": ["add(x=x"]}, ", step 1: 'add(x=x' cannot be read: '(' was never closed"),
    "no call": (
        {"steps": ["add"]},
        ", step 1: 'add' is no step; expected a call such as 'scale(x=x, y=y, threads=n)', or devmod.step(…) for a kernel whose name is no identifier",
    ),
    "template": (
        {"steps": ["add<float>(y=y)"]},
        ", step 1: 'add<float>(y=y)' cannot be read: invalid syntax. Maybe you meant '==' or ':=' instead of '='?",
    ),
    "by position": (
        {"steps": ["add(x, y=y)"]},
        ", step 1: 'add(x, y=y)' gives an argument by position; give all by name",
    ),
    "double star": (
        {"steps": ["add(**x)"]},
        ", step 1: 'add(**x)' has **, which a step cannot have",
    ),
    "twice": ({"steps": ["add(x=x, x=x)"]}, ", step 1: 'add(x=x, x=x)' gives 'x' twice"),
    "four dims": (
        {"steps": ["add(x=x, y=y, n=n, a=a, threads=(1, 2, 3, 4))"]},
        ", step 1: 'add(x=x, y=y, n=n, a=a, threads=(1, 2, 3, 4))' has threads= with 4 values; expected one to three",
    ),
    "float expr": (
        {"steps": ["add(x=x, y=y, n=n, a=a*0.5, threads=n)"]},
        ", step 1: 'add(x=x, y=y, n=n, a=a*0.5, threads=n)' has '0.5', which no expression has; expected integers of 64 bits, names, + - * // %, min, max and ceildiv",
    ),
    "float in expr": (
        {"steps": ["fill(y=y, value=a*2, threads=n)"]},
        ", step 1 ('fill'), argument 'value': 'a' is a scalar of float32; an expression has lengths and integer scalars",
    ),
    "array in expr": (
        {"steps": ["fill(y=y, value=a, threads=x*2)"]},
        ", step 1 ('fill'): threads: 'x' is an array; an expression has lengths and integer scalars",
    ),
    "power": (
        {"steps": ["fill(y=y, value=a, threads=n**2)"]},
        ", step 1: 'fill(y=y, value=a, threads=n**2)' has 'n ** 2', which no expression has; expected integers of 64 bits, names, + - * // %, min, max and ceildiv",
    ),
    "big": (
        {"steps": ["fill(y=y, value=a, threads=9223372036854775808)"]},
        ", step 1: 'fill(y=y, value=a, threads=9223372036854775808)' has '9223372036854775808', which no expression has; expected integers of 64 bits, names, + - * // %, min, max and ceildiv",
    ),
    "string": (
        {"steps": ["fill(y=y, value='a', threads=n)"]},
        ", step 1: \"fill(y=y, value='a', threads=n)\" has \"'a'\", which no expression has; expected integers of 64 bits, names, + - * // %, min, max and ceildiv",
    ),
    "attribute": (
        {"steps": ["fill(y=y, value=a, threads=x.shape)"]},
        ", step 1: 'fill(y=y, value=a, threads=x.shape)' has 'x.shape', which no expression has; expected integers of 64 bits, names, + - * // %, min, max and ceildiv",
    ),
    "min1": (
        {"steps": ["fill(y=y, value=a, threads=min(n))"]},
        ", step 1: 'fill(y=y, value=a, threads=min(n))' has 'min(n)', which no expression has; expected integers of 64 bits, names, + - * // %, min, max and ceildiv",
    ),
    "ceil3": (
        {"steps": ["fill(y=y, value=a, threads=ceildiv(n, 2, 3))"]},
        ", step 1: 'fill(y=y, value=a, threads=ceildiv(n, 2, 3))' has 'ceildiv(n, 2, 3)', which no expression has; expected integers of 64 bits, names, + - * // %, min, max and ceildiv",
    ),
    "decl": (
        {"inputs": ["x = float32[n]"]},
        ": inputs: 'x = float32[n]' is no declaration; expected one such as 'x: float32[rows, columns]'",
    ),
    "decl2": (
        {"inputs": ["x: float32[n]; y: int"]},
        ": inputs: 'x: float32[n]; y: int' is no declaration; expected one such as 'x: float32[rows, columns]'",
    ),
    "decl type": (
        {"inputs": ["x: flat32[n]"]},
        ": inputs: 'x: flat32[n]' has the type 'flat32', which is neither an element type nor the format of an image",
    ),
    "decl scalar type": (
        {"inputs": ["x: float32[n]", "a: flat32"]},
        ": 'a': 'flat32' is not a type: expected a name such as 'float32', 'int64', 'uint8', 'bool', 'bfloat16', 'handle', or one with lanes such as 'float16x4'",
    ),
    "decl vec": (
        {"inputs": ["x: float32x4[n]"]},
        ": an array of float32x4 cannot be declared; expected numbers, such as x: float32[n, 4]",
    ),
    "decl value": (
        {"inputs": ["x: float32[n] = 0"]},
        ": inputs: 'x: float32[n] = 0' has a value; of the arrays, only outputs, temporaries and states have one, which is 0",
    ),
    "decl temp one": (
        {"temporaries": ["t: float32[n] = 1"]},
        ": temporaries: 't: float32[n] = 1' has a value; of the arrays, only outputs, temporaries and states have one, which is 0",
    ),
    "decl out scalar": (
        {"outputs": ["y: float32"]},
        ": outputs: 'y: float32' has no shape; only an input is a number",
    ),
    "decl dup": ({"outputs": ["x: float32[n]"]}, ": outputs: 'x' is declared twice"),
    "decl keyword": (
        {"inputs": ["lambda: float32[n]"]},
        ": inputs: 'lambda: float32[n]' is no declaration; expected one such as 'x: float32[rows, columns]'",
    ),
    "reserved": (
        {"inputs": ["x: float32[n]", "stream: int32"]},
        ": 'stream' is reserved for calls and expressions; take another name",
    ),
    "reserved length": (
        {"inputs": ["x: float32[max]"]},
        ": 'max' is reserved for calls and expressions; take another name",
    ),
    "default type": (
        {"inputs": ["x: float32[n]", "k: int32 = 0.5"]},
        ": the default of 'k': 0.5 is a float, and its type is int32",
    ),
    "default range": (
        {"inputs": ["x: float32[n]", "k: uint8 = 256"]},
        ": the default of 'k': 256 is not between 0 and 255, and its type is uint8",
    ),
    "default name": (
        {"inputs": ["x: float32[n]", "a: float32 = inf"]},
        ": inputs: 'a: float32 = inf' has a value that is no number of 64 bits, True or False",
    ),
    "complex": (
        {"inputs": ["x: float32[n]", "k: complex64"]},
        ": a scalar of complex64 cannot be declared; expected an integer, a float or bool",
    ),
    "scalar length": (
        {"inputs": ["x: float32[n]", "a: float32", "n: int32"]},
        ": 'n' in the shape of 'x' is a scalar of int32; a length has a name that nothing else has",
    ),
    "own length": (
        {"inputs": ["x: float32[x]"]},
        ": 'x' in the shape of 'x' is an array; a length has a name that nothing else has",
    ),
    "sampler text": (
        {"samplers": ["how nearest"]},
        ": samplers: 'how nearest' is no sampler; expected one such as 'linear: linear clamp'",
    ),
    "sampler mode": (
        {"samplers": ["how: nearest wrap"]},
        ": the sampler 'how' has 'nearest' and 'wrap'; expected a filter of 'nearest', 'linear' and an address mode of 'clamp', 'repeat', 'mirror', 'border'",
    ),
    "sampler name": (
        {"samplers": ["a b: nearest clamp"]},
        ": 'a b' is no name: expected an identifier that is no keyword of Python",
    ),
    "image rank": (
        {"inputs": ["x: rgba8unorm[n]"]},
        ": the image 'x' has the shape [n]; expected two lengths, [height, width]",
    ),
    "image cleared": (
        {"temporaries": ["t: rgba8unorm[n, n] = 0"]},
        ": 't' cannot begin cleared: only an output or a temporary that is an array can",
    ),
    "image constant": (
        {"constants": ["t: r32float[n, n]"]},
        ": the constant 't' is an image; a constant is an array",
    ),
    "requires": (
        {"requires": ["n % 4"]},
        ": requires: 'n % 4' is no comparison; expected one such as 'columns % 4 == 0'",
    ),
    "requires in": (
        {"requires": ["n in (1, 2)"]},
        ": requires: 'n in (1, 2)' is no comparison; expected one such as 'columns % 4 == 0'",
    ),
    "requires name": (
        {"requires": ["rows > 0"]},
        ": requires: 'rows > 0': nothing binds 'rows': a length has its name alone in the shape of an input, an update, a state or a constant",
    ),
    "unbound shape": (
        {"outputs": ["y: float32[m]"]},
        ": the shape of 'y': nothing binds 'm': a length has its name alone in the shape of an input, an update, a state or a constant",
    ),
    "unbound derived": (
        {"inputs": ["x: float32[2*m]"]},
        ": the shape of 'x': nothing binds 'm': a length has its name alone in the shape of an input, an update, a state or a constant",
    ),
    "unbound arg": (
        {"steps": ["fill(y=y, value=a, threads=m)"]},
        ", step 1 ('fill'): threads: nothing binds 'm': a length has its name alone in the shape of an input, an update, a state or a constant",
    ),
    "unbound value": (
        {"steps": ["fill(y=z, value=a, threads=n)"]},
        ", step 1 ('fill'), argument 'y': nothing binds 'z': a length has its name alone in the shape of an input, an update, a state or a constant",
    ),
    "unknown kernel": (
        {"steps": ["ad(x=x, y=y, threads=n)"]},
        ", step 1 ('ad'): the module of the kernels has no 'ad': the kernels are 'add', 'fill', 'fixed', 'blockless', 'sample', 'by_value', 'matrix', 'scratch', 'strided', 'words', 'unnamed', 'constants' and 3 more. Did you mean 'add'?",
    ),
    "unknown argument": (
        {"steps": ["fill(y=y, valu=a, threads=n)"]},
        ", step 1 ('fill'), argument 'valu': the kernel has no argument 'valu'. Did you mean 'value'? {fill}",
    ),
    "missing argument": (
        {"steps": ["fill(y=y, threads=n)"]},
        ", step 1 ('fill'): the kernel also takes 'value'. {fill}",
    ),
    "local": (
        {"steps": ["scratch(y=y, threads=n)"]},
        ", step 1 ('scratch'): the kernel also takes 't': compile the kernel with local={…}, which gives it a size. {scratch}",
    ),
    "no launch": (
        {"steps": ["fill(y=y, value=a)"]},
        ", step 1 ('fill'): the step needs either grid=, the number of blocks, or threads=, the number of threads. {fill}",
    ),
    "both": (
        {"steps": ["fill(y=y, value=a, threads=n, grid=n)"]},
        ", step 1 ('fill'): the step needs either grid=, the number of blocks, or threads=, the number of threads. {fill}",
    ),
    "block fixed": (
        {"steps": ["fixed(y=y, grid=n, block=32)"]},
        ", step 1 ('fixed'): the kernel is built for blocks of (64, 1, 1) threads; omit block=. {fixed}",
    ),
    "block missing": (
        {"steps": ["blockless(y=y, grid=n)"]},
        ", step 1 ('blockless'): the step needs block=, the number of threads in a block; give it, or compile the kernel with block=, which gives it a default. {blockless}",
    ),
    "type": (
        {"outputs": ["y: int32[n]"]},
        ", step 1 ('fill'), argument 'y': 'y' is an array of int32, and the kernel takes float32. {fill}",
    ),
    "rank": (
        {"steps": ["strided(y=y, threads=n)"]},
        ", step 1 ('strided'), argument 'y': 'y' has 1 dimensions, and the kernel takes 2. {strided}",
    ),
    "array for number": (
        {"steps": ["fill(y=y, value=x, threads=n)"]},
        ", step 1 ('fill'), argument 'value': 'x' is an array, and the kernel takes a number. {fill}",
    ),
    "number for array": (
        {"steps": ["fill(y=n, value=a, threads=n)"]},
        ", step 1 ('fill'), argument 'y': 'n' is a number, and the kernel takes an array. {fill}",
    ),
    "float for int": (
        {"steps": ["add(x=x, y=y, n=a, a=a, threads=n)"]},
        ", step 1 ('add'), argument 'n': 'a' is a float, and the kernel takes int32. {add}",
    ),
    "literal range": (
        {
            "steps": [
                "fill(y=y, value=0.0, threads=n)",
                "add(x=x, y=y, n=2147483648, a=a, threads=n)",
            ]
        },
        ", step 2 ('add'), argument 'n': 2147483648 is not between -2147483648 and 2147483647, and the kernel takes int32. {add}",
    ),
    "bool for float": (
        {"steps": ["fill(y=y, value=True, threads=n)"]},
        ", step 1 ('fill'), argument 'value': True is a boolean, and the kernel takes float32. {fill}",
    ),
    "int for bool": (
        {"steps": ["flag(y=y, on=1, threads=n)"]},
        ", step 1 ('flag'), argument 'on': 1 is an integer, and the kernel takes bool. {flag}",
    ),
    "matrix": (
        {"steps": ["matrix(y=y, m=1.0, threads=n)"]},
        ", step 1 ('matrix'), argument 'm': the kernel takes a struct, an array or a matrix by value, which a program cannot give. {matrix}",
    ),
    "unnamed": (
        {"steps": ["unnamed(y=y, threads=n)"]},
        ", step 1 ('unnamed'): the kernel has parameters without a name of their own. {unnamed}",
    ),
    "constants": (
        {"steps": ["constants(y=y, threads=n)"]},
        ", step 1 ('constants'): the kernel has constants without a value, 'TILE', which a program cannot set. {constants}",
    ),
    "tvm": (
        {"steps": ["tvm(y=y, threads=n)"]},
        ", step 1 ('tvm'): the kernel has no interface as opencl/cl, so that its arguments are unknown",
    ),
    "writes input": (
        {"steps": ["fill(y=x, value=a, threads=n)"]},
        ", step 1 ('fill'), argument 'y': the kernel may write to it, and 'x' is an input: declare the parameter const in the kernel, or the array in updates. {fill}",
    ),
    "reads output": (
        {"steps": ["add(x=y, y=y, n=n, a=a, threads=n)"]},
        ", step 1 ('add'), argument 'x': the kernel reads 'y', which no step before has written. {add}",
    ),
    "reads output2": (
        {"temporaries": ["t: float32[n]"], "steps": ["add(x=t, y=y, n=n, a=a, threads=n)"]},
        ", step 1 ('add'), argument 'x': the kernel reads 't', which no step before has written. {add}",
    ),
    "twice written": (
        {
            "updates": ["z: float32[n]"],
            "steps": ["fill(y=y, value=a, threads=n)", "add(x=z, y=z, n=n, a=a, threads=n)"],
        },
        ", step 2 ('add'), argument 'y': 'z' is given twice, and the kernel may write to it. {add}",
    ),
    "unwritten": (
        {"outputs": ["y: float32[n]", "z: float32[n]"]},
        ": no step writes the output 'z'",
    ),
    "unwritten, cleared": (
        {"outputs": ["y: float32[n]", "z: float32[n] = 0"]},
        ": no step writes the output 'z'",
    ),
    "unused temp": ({"temporaries": ["t: float32[n]"]}, ": no step uses the temporary 't'"),
    "image for buffer": (
        {"inputs": ["x: rgba8unorm[n, m]", "a: float32"]},
        ", step 2 ('add'), argument 'x': 'x' is an image, and the kernel takes an array. {add}",
    ),
    "image dim": (
        {
            "inputs": ["x: float32[n]", "a: float32"],
            "samplers": ["how: linear clamp"],
            "outputs": ["y: float32[n]", "o: r32float[n, n]"],
            "steps": ["sample(picture=x, how=how, out=o, threads=n)"],
        },
        ", step 1 ('sample'), argument 'picture': 'x' is an array, and the kernel takes an image. {sample}",
    ),
    "image format": (
        {
            "inputs": ["x: rgba8unorm[n, m]"],
            "samplers": ["how: linear clamp"],
            "outputs": ["o: r32float[n, m]"],
            "steps": ["sample(picture=x, how=how, out=o, threads=n)"],
        },
        ", step 1 ('sample'), argument 'out': 'o' is an image of r32float, and the kernel takes rgba8unorm. {sample}",
    ),
    "image sample": (
        {
            "inputs": ["x: rgba8uint[n, m]"],
            "samplers": ["how: linear clamp"],
            "outputs": ["o: rgba8unorm[n, m]"],
            "steps": ["sample(picture=x, how=how, out=o, threads=n)"],
        },
        ", step 1 ('sample'), argument 'picture': 'x' has texels of uint, and the kernel takes float. {sample}",
    ),
    "sampler for image": (
        {
            "inputs": ["x: rgba8uint[n, m]"],
            "samplers": ["how: linear clamp"],
            "outputs": ["o: rgba8unorm[n, m]"],
            "steps": ["sample(picture=how, how=how, out=o, threads=n)"],
        },
        ", step 1 ('sample'), argument 'picture': 'how' is a sampler, and the kernel takes an image. {sample}",
    ),
    "number for sampler": (
        {
            "inputs": ["x: rgba8unorm[n, m]"],
            "outputs": ["o: rgba8unorm[n, m]"],
            "steps": ["sample(picture=x, how=n, out=o, threads=n)"],
        },
        ", step 1 ('sample'), argument 'how': 'n' is a number, and the kernel takes a sampler. {sample}",
    ),
    "no constants": (
        {"constants": ["w: float32[n]"]},
        ": constants: the module of the kernels has no const_loader with 'w'",
    ),
}


@pytest.mark.parametrize(("changes", "text"), WRONG.values(), ids=WRONG)
def test_a_wrong_program_is_refused(changes: dict[str, Any], text: str) -> None:
    for name, signature in SIGNATURES.items():
        text = text.replace(name, signature)
    assert refused(**changes) == f"the program 'p'{text}"


ADD = "add(x=x, y=y, n={}, a=a, threads=n)"


def test_steps_are_repeated() -> None:
    inner = devmod.repeat(
        "n - 1", "j", [ADD.format("i * 4 + j"), devmod.step("fill", y="y", value=0, threads="n")]
    )
    last = devmod.repeat(2, "i", ADD.format("i"))
    program = read(
        make(steps=[GOOD["steps"][0], devmod.repeat(3, "i", [ADD.format(5), inner]), last])
    )
    assert [each.kernel for each in program.steps] == ["fill", "add", "add", "fill", "add"]
    assert program.repeats == (
        Repeat(1, 4, 3, "i"),
        Repeat(2, 4, ("-", "n", 1), "j"),
        Repeat(4, 5, 2, "i"),
    )
    assert program.steps[2].arguments["n"] == ("+", ("*", "i", 4), "j")


WRONG_REPEATS: dict[str, tuple[list[Any], str]] = {
    "no steps": ([2, "i", []], ", step 2: the repeat of 'i' has no steps"),
    "a step": ([2, "i", "add(x=x"], ", step 2: 'add(x=x' cannot be read: '(' was never closed"),
    "an unknown count": (
        ["m", "i", ADD.format("i")],
        ", step 2 ('add'): the count of its repeat: nothing binds 'm': a length has its name alone in the shape of an input, an update, a state or a constant",
    ),
    "a count of turns": (
        [2, "i", devmod.repeat("i", "j", ADD.format("j"))],
        ", step 2 ('add'): the count of its repeat: 'i' is the number of a turn, which only an argument of a repeated step has",
    ),
    "a launch by the turn": (
        [2, "i", ADD.format("i").replace("threads=n", "threads=i")],
        ", step 2 ('add'): threads: 'i' is the number of a turn, which only an argument of a repeated step has",
    ),
    "a turn as a float's place": (
        [2, "i", "add(x=i, y=y, n=n, a=a, threads=n)"],
        ", step 2 ('add'), argument 'x': 'i' is a number, and the kernel takes an array. {add}",
    ),
    "nested": (
        [1, "i0", devmod.repeat(1, "i0", ADD.format("i0"))],
        ", step 2 ('add'): the number of a turn is 'i0', which something else is too; take another name",
    ),
}


@pytest.mark.parametrize(("repeat", "text"), WRONG_REPEATS.values(), ids=WRONG_REPEATS)
def test_a_wrong_repeat_is_refused(repeat: list[Any], text: str) -> None:
    steps = [GOOD["steps"][0], devmod.repeat(*repeat)]
    assert refused(steps=steps) == f"the program 'p'{text}".replace("{add}", SIGNATURES["{add}"])


def test_the_arguments_of_repeat_are_checked() -> None:
    for arguments, text in (
        ((2, 5, "k()"), "devmod.repeat: the name of the turn's number is a string, not int"),
        ((0.5, "i", "k()"), "devmod.repeat('i'): expected an integer or an expression, got 0.5"),
        (
            ("n**2", "i", "k()"),
            "devmod.repeat('i'): 'n**2' has 'n ** 2', which no expression has; expected integers of 64 bits, names, + - * // %, min, max and ceildiv",
        ),
        (
            (2, "i", [5]),
            "devmod.repeat('i'): expected text, a devmod.step or a devmod.repeat, got int",
        ),
        ((2, "i", 5), "devmod.repeat('i'): expected a list of texts, got int"),
    ):
        assert refusal(FormatError, devmod.repeat, *arguments) == text


def test_a_program_in_a_repeat_and_a_repeat_in_a_program() -> None:
    kernels = devmod.program(
        "sum",
        opencl(),
        inputs=["x: float32[n]", "at: int32"],
        updates=["y: float32[n]"],
        temporaries=["t: float32[n]"],
        steps=[
            "fill(y=t, value=0.0, threads=n)",
            devmod.repeat("n", "i", "add(x=x, y=y, n=i + at, a=1.0, threads=n)"),
        ],
    )
    step = "sum(x=x, y=y, at=i)"
    program = read(
        make(
            kernels=kernels,
            steps=[GOOD["steps"][0], devmod.repeat(4, "i", [ADD.format("i"), step])],
        )
    )
    assert [each.kernel for each in program.steps] == ["fill", "add", "fill", "add"]
    assert program.repeats == (Repeat(1, 4, 4, "i"), Repeat(3, 4, "n", "sum_3_i"))
    assert program.steps[3].arguments["n"] == ("+", "sum_3_i", "i")
    assert program.requires == ()
    alone = read(
        make(
            kernels=kernels, steps=[GOOD["steps"][0], devmod.repeat(4, "j", "sum(x=x, y=y, at=3)")]
        )
    )
    assert alone.repeats == (Repeat(1, 3, 4, "j"), Repeat(2, 3, "n", "sum_2_i"))


def test_a_program_that_clears_is_in_no_repeat() -> None:
    declared = {"outputs": ["y: float32[n]"], "steps": ["add(x=x, y=y, n=n, a=1.0, threads=n)"]}
    kernels = devmod.program(
        "sum", opencl(), inputs=["x: float32[n]"], **declared | {"outputs": ["y: float32[n] = 0"]}
    )  # type: ignore[arg-type]
    text = refused(kernels=kernels, steps=[devmod.repeat(2, "i", "sum(x=x, y=y)")])
    assert text == (
        "the program 'p', step 1 ('sum'): 'y' begins cleared, and a program in a repeat cannot clear it in each turn: write to it by a "
        "kernel. It is sum(x: float32[n]) -> y: float32[n] = 0"
    )


def test_the_names_of_programs_are_checked() -> None:
    assert (
        refused(name="a b")
        == "the program 'a b': 'a b' is no name: expected an identifier that is no keyword of Python"
    )
    assert (
        refused(backward=5) == "the program 'p': backward: expected the name of a program, got int"
    )
    assert refused(name=5) == "the name of a program is a string, not int"
    assert (
        refused(name="add")
        == "the program 'add': the kernels have a function 'add' too; take another name for the program"
    )
    alone = devmod.const_loader({"w": memoryview(bytes(4)).cast("f")}, {})
    assert (
        refused(kernels=alone)
        == "the program 'p': its kernels are a module with kernels, and this one has none"
    )
    assert refused(kernels="k.devmod") == "the program 'p': its kernels are a module, not str"


def test_each_candidate_is_checked() -> None:
    other = devmod.create_with_fallback(
        "webgpu",
        {"fill": b"@compute"},
        "wgsl",
        {"fill": kernel(Y, number("value"), block=(64, 1, 1))},
    )
    both = devmod.bundle(opencl(), other, mixed=True)
    fill = "fill(y=y, value=0.5, threads=n"
    text = "the program 'p', step 1 ('fill'), argument 'value': 0.5 is a float, and the kernel takes int32."
    assert (
        refused(kernels=both, steps=[f"{fill})"])
        == f"{text} As webgpu/wgsl it is fill(y: float32* rw, value: int32) block 64×1×1"
    )
    text = "the program 'p', step 1 ('fill'): the kernel is built for blocks of (64, 1, 1) threads; omit block=."
    fill = "fill(y=y, value=1, threads=n"
    assert (
        refused(kernels=both, steps=[f"{fill}, block=32)"])
        == f"{text} As webgpu/wgsl it is fill(y: float32* rw, value: int32) block 64×1×1"
    )
    assert read(make(kernels=both, steps=[f"{fill}, block=64)"])).steps[0].block == (64,)


def test_a_newer_kernel_is_refused_with_what_it_needs() -> None:
    newer = Interface.from_dict({"params": [{"name": "x", "kind": "tensor"}], "needs": ["later"]})
    kernels = opencl({"scale": FunctionInfo("scale", ["handle"], interface=newer)})

    def make() -> None:
        devmod.program("p", kernels, updates=["x: float32[n]"], steps=["scale(x=x, threads=n)"])

    text = (
        "the program 'p', step 1 ('scale'): the kernel is newer than this devmod. As opencl/cl it is scale(…) needs 'later', "
        "which a newer devmod reads: pip install --upgrade devmod-core devmod-runtime"
    )
    assert refusal(FormatError, make) == text


def test_a_kind_without_a_grid_needs_none() -> None:
    kernels = devmod.create_with_fallback("hexagon", b"\x7fELF", "so", {"fill": KERNELS["fill"]})
    assert read(make(kernels=kernels, steps=["fill(y=y, value=a)"])).steps == (
        Step("fill", {"y": "y", "value": "a"}),
    )


# -- text to trees


def test_a_program_is_what_its_text_says() -> None:
    program = read(
        make(
            inputs=[
                "x: float32[rows, columns,]",
                "picture: rgba8unorm[h, w]",
                "k: int64 = -3",
                "a: float32 = 1e-5",
                "on: bool = True",
            ],
            outputs="y: float32[rows*columns]",
            updates=["u: float32[max(rows, 1, k)]"],
            temporaries=["t: float32[ceildiv(rows, 2)] = 0", "r: rgba8unorm[h, w]"],
            samplers=["near: nearest repeat"],
            requires=["0 < rows <= 4 * (columns - 1)"],
            steps=[
                "add(x=x, y=t, n=rows*columns - 1, a=a, threads=(rows, columns // 2, 1))",
                "add(x=t, y=u, n=k, a=-0.5, grid=rows % 3, block=(64, 2))",
                "sample(picture=picture, how=near, out=r, threads=(w, h))",
                devmod.step("scale<float>", y="y", threads=("rows + 1", 2)),
            ],
        )
    )
    assert list(program.declared.values()) == [
        Array("x", "input", "float32", ("rows", "columns")),
        Array("picture", "input", "uint8", ("h", "w"), "rgba8unorm"),
        Scalar("k", "int64", -3),
        Scalar("a", "float32", 1e-5),
        Scalar("on", "bool", True),
        Array("y", "output", "float32", (("*", "rows", "columns"),)),
        Array("u", "update", "float32", (("max", "rows", 1, "k"),)),
        Array("t", "temporary", "float32", (("ceildiv", "rows", 2),), cleared=True),
        Array("r", "temporary", "uint8", ("h", "w"), "rgba8unorm"),
        Sampler("near", "nearest", "repeat"),
    ]
    assert program.requires == (("<", 0, "rows"), ("<=", "rows", ("*", 4, ("-", "columns", 1))))
    size = ("-", ("*", "rows", "columns"), 1)
    assert program.steps == (
        Step(
            "add",
            {"x": "x", "y": "t", "n": size, "a": "a"},
            threads=("rows", ("//", "columns", 2), 1),
        ),
        Step(
            "add",
            {"x": "t", "y": "u", "n": "k", "a": -0.5},
            grid=(("%", "rows", 3),),
            block=(64, 2),
        ),
        Step("sample", {"picture": "picture", "how": "near", "out": "r"}, threads=("w", "h")),
        Step("scale<float>", {"y": "y"}, threads=(("+", "rows", 1), 2)),
    )
    assert program.backward == ""


def test_a_gradient_has_the_names_of_the_arguments_and_the_results() -> None:
    gradient = {
        "inputs": ["grad_y: float32[n]", "x: float32[n]"],
        "outputs": ["grad_x: float32[n]"],
    }
    steps = [
        "fill(y=grad_x, value=0.0, threads=n)",
        "add(x=grad_y, y=grad_x, n=n, a=1.0, threads=n)",
    ]

    def of(**changes: Any) -> devmod.Module:
        return make(name="g", **{**gradient, "steps": steps, **changes})

    assert read(make(kernels=of(), backward="g")).backward == "g"
    expected = "expected inputs of 'grad_y', 'y', 'x', 'a', and outputs of 'grad_x'"
    for kernels, text in (
        (None, "the module has no program 'g'; make the program of the gradients first"),
        (of(inputs=["grad_y: float32[n]", "z: float32[n]"]), f"'g' has 'z'; {expected}"),
        (
            of(
                outputs=["grad_a: float32[n]"],
                steps=[each.replace("grad_x", "grad_a") for each in steps],
            ),
            f"'g' has 'grad_a'; {expected}",
        ),
        (
            of(inputs=["grad_y: float32[n]"], updates=["x: float32[n]"]),
            "'g' has updates or a state, and an operation in place has no gradient",
        ),
    ):
        assert refused(kernels=kernels, backward="g") == f"the program 'p': backward: {text}"


def test_an_argument_has_the_keyword_of_the_call_in_python() -> None:
    """The keyword of `lambda` or `grid` has an underscore behind it."""
    steps = [
        "words(lambda_=x, grid_=y, stream=n, threads=n)",
        devmod.step("words", lambda_="x", grid_="y", stream_="n", threads="n"),
    ]
    arguments = {"lambda": "x", "grid": "y", "stream": "n"}
    assert read(make(steps=steps)).steps == (Step("words", arguments, threads=("n",)),) * 2


def test_a_struct_is_given_by_its_members() -> None:
    program = read(make(steps=["by_value(scale=a, count=n, y=y, threads=n)"]))
    assert program.steps[0].arguments == {"scale": "a", "count": "n", "y": "y"}


def test_a_step_in_a_loop_is_the_text() -> None:
    import numpy as np

    texts = [f"add(x=x, y=y, n=n + {layer}, a={layer}.5, threads=(n, {layer}))" for layer in (1, 2)]
    loop = [
        devmod.step(
            "add", x="x", y="y", n=f"n + {at}", a=np.float32(at + 0.5), threads=("n", np.int64(at))
        )
        for at in (1, 2)
    ]
    assert devmod.dumps(make(steps=["fill(y=y, value=0, threads=n)", *texts])) == devmod.dumps(
        make(steps=[devmod.step("fill", y="y", value=0, threads="n"), *loop])
    )


WRONG_STEPS = {
    "kernel": (lambda: devmod.step(5), "devmod.step: the kernel is its name, not int"),  # type: ignore[arg-type]
    "value": (
        lambda: devmod.step("k", x=[1]),
        "devmod.step('k'): expected a number of 64 bits, or a name or an expression as text, got [1]",
    ),
    "big": (
        lambda: devmod.step("k", x=2**63),
        "devmod.step('k'): expected a number of 64 bits, or a name or an expression as text, got 9223372036854775808",
    ),
    "text": (
        lambda: devmod.step("k", x="1 +"),
        "devmod.step('k'): '1 +' cannot be read: invalid syntax",
    ),
    "call": (
        lambda: devmod.step("k", x="len(x)"),
        "devmod.step('k'): 'len(x)' has 'len(x)', which no expression has; expected integers of 64 bits, names, + - * // %, min, max and ceildiv",
    ),
    "float": (
        lambda: devmod.step("k", grid=0.5),
        "devmod.step('k'): expected an integer or an expression, got 0.5",
    ),
    "four": (
        lambda: devmod.step("k", grid=(1, 2, 3, 4)),
        "devmod.step('k'): has grid= with 4 values; expected one to three",
    ),
    "none": (
        lambda: devmod.step("k", block=()),
        "devmod.step('k'): has block= with 0 values; expected one to three",
    ),
}


@pytest.mark.parametrize(("act", "text"), WRONG_STEPS.values(), ids=WRONG_STEPS)
def test_a_wrong_step_is_refused(act: Any, text: str) -> None:
    assert refusal(FormatError, act) == text


TREES = st.recursive(
    st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9) | st.sampled_from(["n", "rows", "größe"]),
    lambda inner: (
        st.tuples(
            st.sampled_from([each for each in OPERATORS if each not in ("min", "max")]),
            inner,
            inner,
        )
        | st.builds(
            lambda word, each: (word, *each),
            st.sampled_from(["min", "max"]),
            st.lists(inner, min_size=2, max_size=16),
        )
    ),
    max_leaves=16,
)


@given(TREES)
def test_the_text_of_an_expression_is_that_expression(tree: Any) -> None:
    assert devmod.step("k", v=expression_text(tree)).arguments["v"] == tree


@pytest.mark.parametrize(
    "text",
    [
        "~" * 3000 + "n",
        "-" * 3000 + "n",
        "(" * 150 + "n" + ")" * 150 + "+ 0.5",
        "n" * 100_001,
        "[" * 90 + "]" * 90,
    ],
)
def test_a_deep_text_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match=r"^devmod\.step\('k'\): "):
        devmod.step("k", v=text)


# -- constants


def with_constant(*shape: int) -> devmod.Module:
    data = (
        memoryview(bytes(16)).cast("f")
        if len(shape) == 1
        else memoryview(bytes(16)).cast("B").cast("f", [2, 2])
    )
    return devmod.bundle(opencl(), devmod.const_loader({"w": data}, {}), mixed=True)


ADD_W = ["fill(y=y, value=0.0, threads=n)", "add(x=w, y=y, n=c, a=a, threads=c)"]


def test_a_constant_is_one_of_the_file() -> None:
    module = make(kernels=with_constant(4), constants=["w: float32[c]"], steps=ADD_W)
    assert [each.kind for each in module.imports] == ["program", "bundle", "const_loader"]
    assert [each.kind for each in module.imports[0].imports] == ["bundle", "const_loader"]
    assert read(devmod.loads(devmod.dumps(module))) == read(module)
    assert refused(kernels=with_constant(4), constants=["v: float32[c]"]) == (
        "the program 'p': constants: the const_loader module has no constant 'v'; it has: 'w'"
    )
    assert refused(kernels=with_constant(2, 2), constants=["w: float32[c]"], steps=ADD_W) == (
        "the program 'p': constants: 'w' is an array of float32 of 2 dimensions; declared is float32 of 1"
    )
    assert refused(
        kernels=with_constant(4),
        constants=["w: float32[c]"],
        steps=["fill(y=w, value=a, threads=c)"],
    ) == (
        "the program 'p', step 1 ('fill'), argument 'y': the kernel may write to it, and 'w' is a constant: declare the parameter const in "
        "the kernel, or the array in updates. As opencl/cl it is fill(y: float32* w, value: float32) any block"
    )


# -- programs in programs


def inner(**changes: Any) -> devmod.Module:
    """A module with the program `norm`."""
    arguments = {
        "inputs": ["x: float32[n]", "a: float32 = 2.0", "k: int32 = 3"],
        "outputs": ["y: float32[n]"],
        "temporaries": ["t: float32[n*k] = 0"],
        "constants": ["w: float32[c]"],
        "samplers": ["how: linear clamp"],
        "requires": ["n % 4 == 0", "c == 4"],
        "steps": [
            "fill(y=y, value=a, threads=n)",
            "add(x=w, y=t, n=n*k, a=a, threads=c)",
            "add(x=t, y=y, n=n, a=a, threads=(n, k))",
        ],
    }
    return devmod.program("norm", with_constant(4), **{**arguments, **changes})


def test_a_program_in_a_program_is_its_steps() -> None:
    program = read(
        make(
            kernels=inner(),
            inputs=["x: float32[c, m]"],
            updates=["u: float32[m*2]", "v: float32[m]"],
            outputs=["y: float32[m]"],
            steps=["norm(x=v, y=y, k=m)", "norm(x=u, y=v, a=1, k=4)"],
        )
    )
    assert list(program.declared.values())[4:] == [
        Array("w", "constant", "float32", ("norm_1_c",)),  # the caller has a length c of its own
        Array("norm_1_t", "temporary", "float32", (("*", "m", "m"),), cleared=True),
        Sampler("norm_1_how", "linear", "clamp"),
        Array("norm_2_t", "temporary", "float32", (("*", ("*", "m", 2), 4),), cleared=True),
        Sampler("norm_2_how", "linear", "clamp"),
    ]
    double = ("*", "m", 2)
    assert program.requires == (
        ("<=", "m", 2**31 - 1),  # k is an int32
        ("==", ("%", "m", 4), 0),
        ("==", "norm_1_c", 4),
        ("==", double, "m"),  # v is its output, of the length of u
        ("==", ("%", double, 4), 0),
    )
    assert program.steps == (
        Step("fill", {"y": "y", "value": 2.0}, threads=("m",)),
        Step(
            "add",
            {"x": "w", "y": "norm_1_t", "n": ("*", "m", "m"), "a": 2.0},
            threads=("norm_1_c",),
        ),
        Step("add", {"x": "norm_1_t", "y": "y", "n": "m", "a": 2.0}, threads=("m", "m")),
        Step("fill", {"y": "v", "value": 1}, threads=(double,)),
        Step(
            "add", {"x": "w", "y": "norm_2_t", "n": ("*", double, 4), "a": 1}, threads=("norm_1_c",)
        ),
        Step("add", {"x": "norm_2_t", "y": "v", "n": double, "a": 1}, threads=(double, 4)),
    )


def test_the_types_and_the_lengths_of_a_program_in_a_program_hold() -> None:
    small = inner(
        inputs=["x: float32[4]", "a: float32 = 2.0", "k: uint8 = 3"],
        outputs=["y: float32[4]"],
        requires=[],
        steps=[
            "fill(y=y, value=a, threads=4)",
            "add(x=w, y=t, n=k, a=a, threads=c)",
            "add(x=x, y=y, n=k, a=a, threads=4)",
        ],
        temporaries=["t: float32[4]"],
    )
    program = read(make(kernels=small, steps=["norm(x=x, y=y, k=n - 5)"]))
    assert program.requires == (
        ("<=", 0, ("-", "n", 5)),
        ("<=", ("-", "n", 5), 255),
        ("==", 4, "n"),
    )
    assert refused(
        kernels=small, inputs=["x: float32[n]", "i: int32"], steps=["norm(x=x, y=y, k=i)"]
    ).startswith(
        "the program 'p', step 1 ('norm'): its argument 'k': the program takes uint8, and 'i' is int32. It is norm("
    )
    assert refused(
        kernels=small, inputs=["x: float32[5]"], outputs=["y: float32[4]"], steps=["norm(x=x, y=y)"]
    ).startswith(
        "the program 'p', step 1 ('norm'): its argument 'x' has a length of 4, and that of 'x' is 5. It is norm("
    )


def test_a_float_of_a_program_in_a_program_is_rounded_as_in_its_calls() -> None:
    program = read(make(kernels=inner(), steps=["norm(x=x, y=y, a=0.1)"]))
    assert program.steps[0].arguments["value"] == 0.10000000149011612  # of float32
    program = read(
        make(kernels=inner(), inputs=["x: float32[n]", "h: float16"], steps=["norm(x=x, y=y, a=h)"])
    )
    assert program.steps[0].arguments["value"] == "h"
    text = refused(
        kernels=inner(), inputs=["x: float32[n]", "d: float64"], steps=["norm(x=x, y=y, a=d)"]
    )
    assert text.startswith(
        "the program 'p', step 1 ('norm'): its argument 'a': the program takes float32, and 'd' is float64. It is norm("
    )


def test_an_output_of_a_program_in_a_program_begins_cleared() -> None:
    kernels = inner(outputs=["y: float32[n] = 0"])
    program = read(make(kernels=kernels, steps=["norm(x=x, y=y)"]))
    assert program.declared["y"] == Array("y", "output", "float32", ("n",), cleared=True)
    text = "the program 'p', step {} ('norm'): its output 'y' begins cleared, and '{}' has contents before: give it an array of its own. It is norm("
    assert refused(
        kernels=kernels, steps=["fill(y=y, value=a, threads=n)", "norm(x=x, y=y)"]
    ).startswith(text.format(2, "y"))
    assert refused(kernels=kernels, steps=["norm(x=x, y=y)"] * 2).startswith(text.format(2, "y"))
    assert refused(kernels=kernels, updates=["v: float32[n]"], steps=["norm(x=x, y=v)"]).startswith(
        text.format(1, "v")
    )


def test_a_constant_and_its_length_are_shared_with_the_caller() -> None:
    steps = ["fill(y=y, value=a, threads=n)", "norm(x=x, y=y)"]
    program = read(make(kernels=inner(), constants=["w: float32[count]"], steps=steps))
    assert program.declared["w"] == Array("w", "constant", "float32", ("count",))
    assert program.steps[2].threads == ("count",)


def test_the_temporaries_of_a_program_are_no_others() -> None:
    """A name that the caller has already, also of a temporary that looks the same, is not taken."""
    steps = ["norm(x=x, y=y)", "add(x=x, y=norm_1_t, n=n, a=a, threads=n)"]
    program = read(make(kernels=inner(), temporaries=["norm_1_t: float32[n*3] = 0"], steps=steps))
    assert program.steps[1].arguments["y"] == "norm_1_t_"
    assert program.steps[3].arguments["y"] == "norm_1_t"


NORM = "It is norm(x: float32[n], a: float32 = 2.0, k: int32 = 3) -> y: float32[n]"
WRONG_CALLS: dict[str, tuple[Any, str]] = {
    "grid": (
        "norm(x=x, y=y, grid=3)",
        f"a program takes no grid, threads and block: its steps have them. {NORM}",
    ),
    "unknown": ("norm(x=x, yy=y)", f"the program has no argument 'yy'. Did you mean 'y'? {NORM}"),
    "missing": ("norm(x=x)", f"the program also takes 'y'. {NORM}"),
    "number": (
        "norm(x=x, y=a)",
        f"its argument 'y' takes an array of float32 and 1 dimensions. {NORM}",
    ),
    "rank": (
        "norm(x=square, y=y)",
        f"its argument 'x' takes an array of float32 and 1 dimensions. {NORM}",
    ),
    "input": (
        "norm(x=y, y=x)",
        f"its argument 'y' is written, and 'x' is no array that this program may write. {NORM}",
    ),
    "float": (
        "norm(x=x, y=y, k=a)",
        f"its argument 'k': 'a' is a float, and the program takes int32. {NORM}",
    ),
    "array": (
        "norm(x=x, y=y, a=x)",
        f"its argument 'a': 'x' is an array, and the program takes a number. {NORM}",
    ),
    "range": (
        "norm(x=x, y=y, k=3000000000)",
        f"its argument 'k': 3000000000 is not between -2147483648 and 2147483647, and the program takes int32. {NORM}",
    ),
    "twice": (
        "norm(x=y, y=y)",
        f"its argument 'y' is written, and 'y' is given to another argument too. {NORM}",
    ),
}


@pytest.mark.parametrize(("step", "text"), WRONG_CALLS.values(), ids=WRONG_CALLS)
def test_a_wrong_call_of_a_program_is_refused(step: str, text: str) -> None:
    inputs = [*GOOD["inputs"], "square: float32[n, n]"]
    assert (
        refused(kernels=inner(), inputs=inputs, steps=[step])
        == f"the program 'p', step 1 ('norm'): {text}"
    )


def test_an_error_in_a_program_names_the_step_that_calls_it() -> None:
    steps = ["norm(x=t, y=y)", "fill(y=t, value=a, threads=n)"]
    found = refused(
        kernels=inner(steps=["add(x=x, y=y, n=n, a=a, threads=n)"], temporaries=[]),
        temporaries=["t: float32[n]"],
        steps=steps,
    )
    assert found == (
        "the program 'p', step 1 ('norm'), its step 1 ('add'), argument 'x': the kernel reads 't', which no step before has written. "
        "As opencl/cl it is add(x: float32* r, y: float32* rw, n: int32, a: float32) any block"
    )
    clash = refused(
        kernels=inner(), inputs=["x: float32[n]", "w: float32[n]"], steps=["norm(x=x, y=y)"]
    )
    assert (
        clash
        == f"the program 'p', step 1 ('norm'): its constant 'w' is something else in the program that calls it. {NORM}"
    )


def test_a_program_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was inlined is read again, since a file with more could not be used."""
    deep = "+".join(["n"] * 17)
    assert refused(kernels=inner(), steps=[f"norm(x=x, y=y, k={deep})"]) == (
        "the program 'p': the shape of 'norm_1_t' has an expression that is nested more than 16 deep"
    )
    assert (MAX_TEMPORARIES, MAX_STEPS) == (4096, 65536)
    monkeypatch.setattr("devmod_readers.programs._wire.MAX_TEMPORARIES", 32)
    assert (
        refused(kernels=inner(), steps=["norm(x=x, y=y)"] * 33)
        == "the program 'p': it has 33 temporaries, and the maximum is 32"
    )
    monkeypatch.setattr("devmod_targets.programs.MAX_STEPS", 999)
    assert refused(
        kernels=inner(temporaries=[], steps=["fill(y=y, value=a, threads=n)"] * 100),
        steps=["norm(x=x, y=y)"] * 10,
    ) == ("the program 'p': it has more than 999 steps")


# -- files


def test_a_program_more_leaves_the_others_as_they_are() -> None:
    """Also what a newer devmod wrote into them."""
    first = make(name="first")
    data = devmod.dumps(first)
    code = payload_of(next(each for each in devmod.loads(data).imports if each.kind == "program"))
    assert code is not None
    changed = code[2]["first"].interface.to_dict() | {"of tomorrow": 5}  # type: ignore[union-attr]
    info = FunctionInfo("first", code[2]["first"].arg_types, interface=Interface.from_dict(changed))
    newer = devmod.create_with_fallback(
        "program", {"first": bytes(code[3]["first"])}, "steps1", {"first": info}
    )  # type: ignore[index]
    newer.import_module(first.imports[1])
    module = make(name="second", kernels=devmod.bundle(newer, first.imports[1], mixed=True))
    assert [*module][:2] == ["first", "second"]
    assert module.functions["first"] == info
    assert [each.kind for each in module.imports] == ["program", "bundle"]
    replaced = make(name="first", kernels=module, steps=["fill(y=y, value=1.0, threads=n)"])
    assert [*replaced][:2] == ["first", "second"]
    assert len(read(replaced, "first").steps) == 1
    assert read(replaced, "second") == read(module, "second")


def test_a_program_of_merged_files_is_in_a_module_of_its_own() -> None:
    both = devmod.bundle(
        devmod.loads(devmod.dumps(make(name="one"))),
        devmod.loads(devmod.dumps(make(name="two"))),
        mixed=True,
    )
    module = make(name="three", kernels=both, steps=["one(x=x, y=y)", "two(x=x, y=y)"])
    assert [list(each.functions) for each in module.imports if each.kind == "program"] == [
        ["one"],
        ["two"],
        ["three"],
    ]
    assert len(read(module, "three").steps) == 4
    assert devmod.dumps(devmod.loads(devmod.dumps(module))) == devmod.dumps(module)
    assert refused(name="one", kernels=both) == (
        "the program 'one': the module is of merged files, one of which has a program of this name; take another name"
    )


def test_kernels_and_constants_of_merged_files_that_differ() -> None:
    """A program would run with those of the first."""
    other = devmod.create_with_fallback(
        "opencl", b"kernel void other() {}", "cl", dict(opencl().functions)
    )
    both = devmod.bundle(make(name="one"), make(name="two", kernels=other), mixed=True)
    text = "the kernel 'add' of merged files is not the same in all; make the program from one"
    assert (
        refused(name="three", kernels=both, steps=["one(x=x, y=y)", "two(x=x, y=y)"])
        == f"the program 'three': {text}"
    )
    assert (
        refused(name="three", kernels=devmod.bundle(other, *make(name="one").imports, mixed=True))
        == f"the program 'three': {text}"
    )
    merged = devmod.bundle(inner(), inner(), mixed=True)
    text = "the program 'p': constants: several const_loaders have 'w', as those of merged files"
    assert refused(kernels=merged, steps=["norm(x=x, y=y)"]) == text


def test_files_whose_programs_take_other_arguments_are_not_bundled() -> None:
    """One call could not reach both."""
    first = make(
        temporaries=["t: float32[n]"],
        steps=["fill(y=t, value=0.0, threads=n)", "add(x=t, y=y, n=n, a=a, threads=n)"],
    )
    devmod.bundle(first, make())
    swapped = {"inputs": ["a: float32 = 2.0", "x: float32[n]"]}
    for changes in (
        swapped,
        {"inputs": ["x: float32[n]", "a: float32 = 3.0"]},
        {"inputs": ["x: float32[n, 1]", "a: float32 = 2.0"]},
    ):
        with pytest.raises(FormatError, match="take different arguments in the function 'p'"):
            devmod.bundle(first, make(**changes))
    with pytest.raises(
        FormatError, match=r"\n  1\. x: float32\[n\]     2\. x: float32\[n\]     <- differs\n"
    ):
        devmod.bundle(first, make(**swapped))


def test_a_program_with_unknown_needs_is_no_step() -> None:
    module = make(name="first")
    code: Any = payload_of(module.imports[0])
    info = code[2]["first"]
    newer = FunctionInfo("first", info.arg_types, interface=info.interface.replace(needs=["loops"]))
    alone = devmod.create_with_fallback(
        "program", {"first": bytes(code[3]["first"])}, "steps1", {"first": newer}
    )
    alone.import_module(module.imports[1])
    text = refused(
        kernels=devmod.bundle(alone, module.imports[1], mixed=True), steps=["first(x=x, y=y)"]
    )
    assert text == "the program 'first': it needs 'loops', which a newer devmod-targets may have"
