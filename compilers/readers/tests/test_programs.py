"""The reader of programs: bytes of strangers, and expressions against Python's own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from work import assert_linear

import devmod
from devmod import FormatError, FunctionInfo, Interface, Param
from devmod.backend import expression_text
from devmod_readers.programs import (
    COMPARISONS,
    OPERATORS,
    Array,
    Candidate,
    ExpressionError,
    Program,
    Repeat,
    Sampler,
    Scalar,
    Step,
    View,
    check_kernels,
    check_names,
    evaluate,
    interface_of,
    pack_steps,
    read_expression,
    read_program,
)

pytestmark = pytest.mark.row("R45")

X, Y, A = (
    Array("x", "input", "float32", ("n",)),
    Array("y", "output", "float32", (("*", "n", 2),)),
    Scalar("a", "float32", 1.5),
)
GOOD = Program(
    "p",
    {
        each.name: each
        for each in (
            X,
            A,
            Sampler("how", "linear", "clamp"),
            Y,
            Array("t", "temporary", "uint8", ("n", 4), cleared=True),
        )
    },
    (("==", ("%", "n", 4), 0),),
    (
        Step(
            "scale",
            {"x": "x", "y": "y", "a": "a", "k": ("+", "n", -1), "on": True},
            threads=("n", 2),
        ),
        Step(
            "shade", {"how": "how", "t": "t", "a": 0.5}, grid=(1,), block=(("min", "n", 64, 128),)
        ),
    ),
)


REPEATED = GOOD._replace(repeats=(Repeat(0, 2, "n", "i"), Repeat(1, 2, ("+", "n", 2), "j")))


def plain(program: Program = GOOD) -> Any:
    """The code of a program as msgpack's objects."""
    return msgpack.unpackb(pack_steps(program))


def read(code: object, info: FunctionInfo | None = None) -> Program:
    """Read and check the steps."""
    program = read_program(
        "p", info or interface_of(GOOD), code if isinstance(code, bytes) else msgpack.packb(code)
    )
    check_names(program)
    return program


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(FormatError) as raised:
        act()
    assert (raised.value.kind, raised.value.function) in (("program", "p"), ("program", ""))
    return str(raised.value)


def test_a_program_is_read_as_it_was_written() -> None:
    assert read(pack_steps(GOOD)) == GOOD
    assert interface_of(GOOD).arg_types == ("handle", "float32", "handle", "handle", "handle")
    again = FunctionInfo(
        "p",
        interface_of(GOOD).arg_types,
        interface=Interface.from_dict(interface_of(GOOD).interface.to_dict()),
    )  # type: ignore[union-attr]
    assert read(pack_steps(GOOD), again) == GOOD
    code = plain()
    code["steps"][0][1]["k"] = ["view", "x", "int8"]
    seen = read(code).steps[0]
    assert (seen.arguments["k"], type(seen.arguments["k"]), seen.arguments["k"].type) == (
        "x",
        View,
        "int8",
    )
    assert read(pack_steps(read(code))).steps[0].arguments["k"].type == "int8"
    image = Program(
        "p",
        {"i": Array("i", "update", "uint8", ("h", "w"), "rgba8unorm")},
        (),
        (Step("k", {"i": "i"}),),
        "q",
    )
    assert read_program("p", interface_of(image), pack_steps(image)) == image


def test_repeats_are_read_as_they_were_written() -> None:
    info = interface_of(REPEATED)
    assert read(pack_steps(REPEATED), info) == REPEATED
    assert info.interface is not None
    assert info.interface.needs == ("repeat",)
    assert REPEATED.repeats_of_steps() == [REPEATED.repeats[:1], REPEATED.repeats]
    unsaid = info.replace(interface=info.interface.replace(needs=()))
    text = "the program 'p' has repeats and does not need 'repeat'"
    assert refused(lambda: read(pack_steps(REPEATED), unsaid)) == text


def test_what_a_repeat_uses_lives_in_all_of_its_turns() -> None:
    arrays = {each: X._replace(name=each, role="temporary") for each in "abcd"}
    steps = tuple(Step("k", {"x": name}) for name in "abacd")
    program = Program("p", arrays, (), steps, repeats=(Repeat(1, 4, 2, "i"),))
    assert program.lifetimes() == {"a": (0, 3), "b": (1, 3), "c": (1, 3), "d": (4, 4)}
    plain = program._replace(repeats=())
    assert plain.lifetimes() == {"a": (0, 2), "b": (1, 1), "c": (3, 3), "d": (4, 4)}


def test_any_form_of_msgpack_is_read() -> None:
    """The longer forms of arrays, maps, texts and integers."""

    def long(value: object) -> bytes:
        if isinstance(value, dict):
            return (
                b"\xdf"
                + len(value).to_bytes(4, "big")
                + b"".join(long(key) + long(each) for key, each in value.items())
            )
        if isinstance(value, list):
            return b"\xdd" + len(value).to_bytes(4, "big") + b"".join(map(long, value))
        if isinstance(value, str):
            return b"\xdb" + len(value).to_bytes(4, "big") + value.encode()
        return (
            b"\xd3" + value.to_bytes(8, "big", signed=True)
            if type(value) is int
            else bytes(msgpack.packb(value))
        )

    assert read(long(plain())) == GOOD


def test_unknown_keys_are_ignored() -> None:
    code = plain() | {"of tomorrow": [{"x": [None, b"\0"]}]}
    code["steps"][0][2]["cluster"] = {"x": 2}
    assert read(code) == GOOD


def step(kernel: object = "scale", arguments: object = None, launch: object = None) -> Any:
    return {
        "steps": [
            [
                kernel,
                {"x": "x"} if arguments is None else arguments,
                {"threads": ["n"]} if launch is None else launch,
            ]
        ]
    }


def nested(depth: int) -> Any:
    value: Any = "n"
    for _ in range(depth):
        value = ["+", value, 1]
    return value


def repeats(*values: Any) -> Any:
    """A code of two steps with repeats."""
    return {"steps": step()["steps"] * 2, "repeats": [*values]}


STEP = "the code of the program 'p': step 1: "
REPEAT = "the code of the program 'p': repeat 1: "
SECOND = REPEAT.replace("1", "2")
NO_REPEAT = "expected two steps, a count and a name, at byte 65"
NO_STEPS = "it has no steps of the program, or some of another repeat, at byte "
WRONG_CODE = {
    "no map": ([], "the code of the program 'p': expected a map, found an array, at byte 0"),
    "more": (
        msgpack.packb({}) + b"\0",
        "the code of the program 'p': 1 more byte follows the last field, at byte 1",
    ),
    "cut": (
        pack_steps(GOOD)[:-1],
        "the code of the program 'p': step 2: a length of 1 byte, and 0 are left, at byte 129",
    ),
    "a key twice": (
        b"\x82\xa1a\0\xa1a\0",
        "the code of the program 'p': a: the key 'a' is repeated, at byte 4",
    ),
    "many": (
        {"steps": [0] * 1_000_000},
        "the code of the program 'p': steps: 1000000 steps, and the maximum is 65536, at byte 12",
    ),
    "announced": (
        b"\x81\xa5steps\xdd\xff\xff\xff\xff",
        "the code of the program 'p': steps: a count of 4294967295, and 0 bytes are left, at byte 12",
    ),
    "comparisons": (
        {"requires": [0] * 65_537},
        "the code of the program 'p': requires: 65537 comparisons, and the maximum is 65536, at byte 15",
    ),
    "no comparison": (
        {"requires": [["in", "n", 1]]},
        "the code of the program 'p': requires: expected a comparison, at byte 11",
    ),
    "a comparison of floats": (
        {"requires": [["==", "n", 0.5]]},
        "the code of the program 'p': requires: expected an integer expression, at byte 17",
    ),
    "a short step": (
        {"steps": [["scale", {}]]},
        STEP + "expected a kernel, its arguments and its launch, at byte 8",
    ),
    "a kernel": (step(5), STEP + "expected a string, found an integer, at byte 9"),
    "an argument's name": (
        step(arguments={5: 5}),
        STEP + "expected a string, found an integer, at byte 16",
    ),
    "many arguments": (
        step(arguments=dict.fromkeys(map(str, range(1025)), 1)),
        STEP + "1025 arguments, and the maximum is 1024, at byte 8",
    ),
    "nil": (
        step(arguments={"x": None}),
        STEP + "it has a value that is no integer expression, at byte 18",
    ),
    "no name": (
        step(arguments={"x": ""}),
        STEP + "it has a value that is no integer expression, at byte 18",
    ),
    "a binary": (
        step(arguments={"x": b"x"}),
        STEP + "it has a value that is no integer expression, at byte 18",
    ),
    "more than 64 bits": (
        step(arguments={"x": 2**63}),
        STEP + "it has a value that is no integer expression, at byte 18",
    ),
    "an operator": (
        step(arguments={"x": ["**", "n", 2]}),
        STEP + "it has a value that is no integer expression, at byte 18",
    ),
    "an operand": (
        step(arguments={"x": ["-", "n"]}),
        STEP + "it has a value that is no integer expression, at byte 18",
    ),
    "operands": (
        step(arguments={"x": ["-", "n", 1, 1]}),
        STEP + "it has a value that is no integer expression, at byte 18",
    ),
    "many operands": (
        step(arguments={"x": ["max", *range(17)]}),
        STEP + "it has a value that is no integer expression, at byte 18",
    ),
    "a float in an expression": (
        step(arguments={"x": ["-", "n", 0.5]}),
        STEP + "it has a value that is no integer expression, at byte 18",
    ),
    "deep": (
        step(arguments={"x": nested(17)}),
        STEP + "it has an expression that is nested more than 16 deep, at byte 18",
    ),
    "very deep": (
        step(arguments={"x": nested(40)}),
        STEP + "arrays and maps are nested more than 32 deep, at byte 115",
    ),
    "a repeat of three": (repeats([0, 1, "n"]), REPEAT + NO_REPEAT),
    "a repeat of a name": (repeats(["a", 1, "n", "i"]), REPEAT + NO_REPEAT),
    "a repeat to a half": (repeats([0, 1.5, "n", "i"]), REPEAT + NO_REPEAT),
    "a repeat of no number": (
        repeats([0, 1, True, "i"]),
        REPEAT + "expected an integer expression, at byte 68",
    ),
    "a repeat's name": (
        repeats([0, 1, "n", 5]),
        REPEAT + "expected a string, found an integer, at byte 70",
    ),
    "a repeat of nothing": (repeats([1, 1, "n", "i"]), REPEAT + NO_STEPS + "72"),
    "a repeat behind the steps": (repeats([1, 3, "n", "i"]), REPEAT + NO_STEPS + "72"),
    "a repeat before the steps": (repeats([-1, 1, "n", "i"]), REPEAT + NO_STEPS + "72"),
    "repeats that cross": (
        {
            "steps": step()["steps"] * 3,
            "repeats": [[0, 2, 2, "i"], [1, 3, 2, "j"]],
        },
        SECOND + NO_STEPS + "101",
    ),
    "repeats in another order": (
        repeats([1, 2, 2, "i"], [0, 1, 2, "j"]),
        SECOND + NO_STEPS + "77",
    ),
    "a repeat around the one before": (
        repeats([0, 1, 2, "i"], [0, 2, 2, "j"]),
        SECOND + NO_STEPS + "77",
    ),
    "many repeats": (
        {"repeats": [0] * 65_537},
        "the code of the program 'p': repeats: 65537 repeats, and the maximum is 65536, at byte 14",
    ),
    "deep repeats": (
        repeats(*[[0, 1, 2, f"i{at}"] for at in range(9)]),
        REPEAT.replace("1", "9") + "it is nested more than 8 deep, at byte 128",
    ),
    "empty arrays": (
        step(arguments={"x": [[]] * 5000}),
        STEP
        + "more than 2030 arrays and maps in values of any type, too many for 8052 bytes, at byte 2050",
    ),
    "a short view": (
        step(arguments={"x": ["view", "x"]}),
        STEP + "it has a value that is no integer expression, at byte 18",
    ),
    "a view of a view": (
        step(arguments={"x": ["view", ["view", "x", "int8"], "int8"]}),
        STEP + "it has a value that is no integer expression, at byte 18",
    ),
    "a view in an expression": (
        step(arguments={"x": ["+", ["view", "x", "int8"], 1]}),
        STEP + "it has a value that is no integer expression, at byte 18",
    ),
    "a view as a grid": (
        step(launch={"grid": [["view", "x", "int8"]]}),
        STEP + "it has a value that is no integer expression, at byte 27",
    ),
    "four dimensions": (
        step(launch={"grid": [1, 2, 3, 4]}),
        STEP + "4 dimensions, and the maximum is 3, at byte 27",
    ),
    "a dimension": (
        step(launch={"grid": [True]}),
        STEP + "expected an integer expression, at byte 27",
    ),
}


@pytest.mark.parametrize(("code", "text"), WRONG_CODE.values(), ids=WRONG_CODE)
def test_the_code_of_a_stranger_is_refused(code: object, text: str) -> None:
    assert refused(lambda: read(code)) == text


def test_the_deepest_expression_is_read() -> None:
    code = plain()
    code["steps"][0][1]["k"] = nested(16)
    assert read(code).steps[0].arguments["k"][0] == "+"


def declared(*params: Param, kernels: object = ("scale", "shade"), **extra: object) -> FunctionInfo:
    types = [each.type if each.kind == "scalar" else "handle" for each in params]
    return FunctionInfo(
        "p", types, interface=Interface(params, extra={"kernels": [*kernels], **extra})
    )  # type: ignore[misc]


def param(
    kind: str = "buffer",
    type_: str = "float32",
    access: str = "r",
    name: str = "x",
    fmt: str = "",
    **extra: object,
) -> Param:
    given = {"role": "input", "shape": ["n"], **extra} if kind in ("buffer", "image") else extra
    return Param(
        name,
        kind,
        type_,
        access,
        format=fmt,
        sample="float" if kind == "image" else "",
        extra=given,
    )


INVALID = "the program 'p': the declaration of 'x' is invalid"
WRONG_DECLARATIONS = {
    "no interface": (
        FunctionInfo("p", ["handle"]),
        "the program 'p': it has no declarations, or more than 65536",
    ),
    "twice": (declared(param(), param()), "the program 'p': it declares 'x' twice"),
    "a role": (declared(param(role="workspace")), INVALID),
    "a role that is no text": (declared(param(role=["input"])), INVALID),
    "no shape": (declared(param(shape=None)), INVALID),
    "many lengths": (declared(param(shape=["n"] * 17)), INVALID),
    "a length": (
        declared(param(shape=[0.5])),
        "the program 'p': the shape of 'x' has a value that is no integer expression",
    ),
    "a deep length": (
        declared(param(shape=[nested(17)])),
        "the program 'p': the shape of 'x' has an expression that is nested more than 16 deep",
    ),
    "a number that is cleared": (declared(param(cleared=1)), INVALID),
    "an initial value that is no text": (
        declared(param(role="state", access="rw", initial=0)),
        INVALID,
    ),
    "a state that is read alone": (declared(param(role="state")), INVALID),
    "an access": (declared(param(access="rw")), INVALID),
    "a format": (declared(param("image", "2d", fmt="rgb10")), INVALID),
    "a dimension": (declared(param("image", "3d", fmt="rgba8unorm")), INVALID),
    "local": (declared(param("local", access="", role="input", shape=["n"])), INVALID),
    "a scalar's role": (declared(param("scalar", access="", role="update")), INVALID),
    "a default": (declared(param("scalar", access="", role="input", value="1")), INVALID),
    "a sampler's role": (declared(param("sampler", "", "")), INVALID),
    "temporaries": (
        declared(*(param(access="rw", name=f"t{at}", role="temporary") for at in range(4097))),
        "the program 'p': it has 4097 temporaries, and the maximum is 4096",
    ),
    "a kernel more": (
        declared(param(), kernels=("scale", "shade", "third")),
        "the program 'p' lists other kernels than its steps launch",
    ),
    "a kernel twice": (
        declared(param(), kernels=("scale", "scale", "shade")),
        "the program 'p' lists other kernels than its steps launch",
    ),
    "no list": (
        FunctionInfo("p", ["handle"], interface=Interface([param()])),
        "the program 'p' lists other kernels than its steps launch",
    ),
}


@pytest.mark.parametrize(("info", "text"), WRONG_DECLARATIONS.values(), ids=WRONG_DECLARATIONS)
def test_the_declarations_of_a_stranger_are_refused(info: FunctionInfo, text: str) -> None:
    assert refused(lambda: read(plain(), info)) == text


NAMES: dict[str, tuple[Program, str]] = {
    "no steps": (GOOD._replace(steps=()), "it has no steps"),
    "a keyword": (
        GOOD._replace(declared={"if": X._replace(name="if")}),
        "'if' is no name: expected an identifier that is no keyword of Python",
    ),
    "a control character": (
        GOOD._replace(declared={"\x1b[2J": X._replace(name="\x1b[2J")}),
        r"'\x1b[2J' is no name: expected an identifier that is no keyword of Python",
    ),
    "a long name": (
        GOOD._replace(declared={"a b" * 99: X._replace(name="a b" * 99)}),
        f"'{('a b' * 99)[:100]}'… (297 characters) is no name: expected an identifier that is no keyword of Python",
    ),
    "a length": (
        GOOD._replace(declared={"x": X._replace(shape=("a b",))}),
        "'a b' is no name: expected an identifier that is no keyword of Python",
    ),
    "a type": (
        GOOD._replace(declared={"x": X._replace(type="float32x4")}),
        "an array of float32x4 cannot be declared; expected numbers, such as x: float32[n, 4]",
    ),
    "a scalar": (
        GOOD._replace(declared={"a": Scalar("a", "handle")}),
        "a scalar of handle cannot be declared; expected an integer, a float or bool",
    ),
    "a state that begins as an input": (
        GOOD._replace(declared={"x": X, "s": X._replace(name="s", role="state", initial="x")}),
        "'s' cannot begin as 'x': only a state can, as a constant of its type and shape",
    ),
    "an input that is cleared": (
        GOOD._replace(declared={"x": X._replace(cleared=True)}),
        "'x' cannot begin cleared: only an output or a temporary that is an array can",
    ),
}
#: Numbers that are infinite in a type, and the largest that are not.
TOO_LARGE: list[tuple[str, float]] = [
    ("float16", 65520),
    ("float16", -65520.0),
    ("float16", 2**63),
    ("float32", 3.4028235677973366e38),
    ("bfloat16", 511.0 * 2**119),
    ("bfloat16", -1e300),
]
LARGEST: list[tuple[str, float]] = [
    ("float16", 65519),
    ("float16", float("inf")),
    ("float32", 2**64 - 1),
    ("float32", 3.4028235677973362e38),
    ("float64", 1.7976931348623157e308),
    ("bfloat16", math.nextafter(-511.0 * 2**119, 0)),
    ("bfloat16", float("-inf")),
]
for type_, number in TOO_LARGE:
    NAMES[f"{number} as a {type_}"] = (
        GOOD._replace(declared={"a": Scalar("a", type_, number)}),
        f"the default of 'a': {number} is too large for {type_}",
    )


#: Programs whose repeats are wrong, with the texts behind the program's name.
REPEAT_NAMES: dict[str, tuple[Program, str]] = {
    "a turn without a step": (
        REPEATED._replace(repeats=(Repeat(0, 1, "m", "i"),)),
        ", step 1 ('scale'): the count of its repeat: nothing binds 'm': a length has its name alone in the shape of an input, an update, a state or a constant",
    ),
    "a turn's number that is a keyword": (
        REPEATED._replace(repeats=(Repeat(0, 1, 2, "if"),)),
        ", step 1 ('scale'): 'if' is no name: expected an identifier that is no keyword of Python",
    ),
    "a turn's number that is an array": (
        REPEATED._replace(repeats=(Repeat(0, 1, 2, "x"),)),
        ", step 1 ('scale'): the number of a turn is 'x', which something else is too; take another name",
    ),
    "a turn's number that is a length": (
        REPEATED._replace(repeats=(Repeat(0, 1, 2, "n"),)),
        ", step 1 ('scale'): the number of a turn is 'n', which something else is too; take another name",
    ),
    "a turn's number that is another's": (
        REPEATED._replace(repeats=(Repeat(0, 2, 2, "i"), Repeat(0, 1, 2, "i"))),
        ", step 1 ('scale'): the number of a turn is 'i', which something else is too; take another name",
    ),
    "a turn's number behind its steps": (
        REPEATED._replace(
            steps=(GOOD.steps[0], Step("scale", {"k": ("+", "i", 1)})),
            repeats=(Repeat(0, 1, 2, "i"),),
        ),
        ", step 2 ('scale'), argument 'k': 'i' is the number of a turn, which only an argument of a repeated step has",
    ),
    "a turn's number in a launch": (
        REPEATED._replace(
            steps=(Step("scale", {"k": "i"}, threads=("i",)),), repeats=(Repeat(0, 1, 2, "i"),)
        ),
        ", step 1 ('scale'): threads: 'i' is the number of a turn, which only an argument of a repeated step has",
    ),
}


@pytest.mark.parametrize(("program", "text"), REPEAT_NAMES.values(), ids=REPEAT_NAMES)
def test_the_repeats_of_a_stranger_are_refused(program: Program, text: str) -> None:
    assert refused(lambda: check_names(program)) == f"the program 'p'{text}"


@pytest.mark.parametrize(("program", "text"), NAMES.values(), ids=NAMES)
def test_the_names_of_a_stranger_are_refused(program: Program, text: str) -> None:
    assert refused(lambda: check_names(program)) == f"the program 'p': {text}"


def test_the_largest_floats_are_read() -> None:
    for type_, number in LARGEST:
        program = GOOD._replace(declared={**GOOD.declared, "a": Scalar("a", type_, number)})
        assert read(pack_steps(program), interface_of(program)) == program


@pytest.mark.parametrize("need", ["tuned", "fp16", "loops"])
def test_a_program_needs_no_more_than_repeats(need: str) -> None:
    info = interface_of(GOOD)
    assert info.interface is not None
    other = info.replace(interface=info.interface.replace(needs=[need]))
    text = f"needs '{need}', and a program here has no other need than 'repeat'"
    assert refused(lambda: read(plain(), other)) == f"the program 'p' {text}"


# -- expressions

#: Text of expressions: Python computes it too.
TREES = st.recursive(
    st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9) | st.sampled_from(["n", "rows"]),
    lambda inner: (
        st.tuples(
            st.sampled_from([each for each in OPERATORS if each not in ("min", "max")]),
            inner,
            inner,
        )
        | st.lists(inner, min_size=2, max_size=5).map(lambda each: ("min", *each))
        | st.lists(inner, min_size=2, max_size=16).map(lambda each: ("max", *each))
    ),
    max_leaves=12,
)


def depth(tree: Any) -> int:
    return 1 + max(map(depth, tree[1:])) if isinstance(tree, tuple) else 0


def outcome(act: Callable[[], Any]) -> Any:
    """What an expression gives: the number, or the sort of its error."""
    try:
        return act()
    except ZeroDivisionError:
        return "divides by zero"
    except OverflowError:
        return "needs more than 64 bits"
    except ExpressionError as error:
        return next(
            each
            for each in ("divides by zero", "needs more than 64 bits")
            if str(error).endswith(each)
        )


class Checked(int):
    """An int of Python whose results are within 64 bits."""


def within(number: int) -> Checked:
    if not -(2**63) <= number < 2**63:
        raise OverflowError
    return Checked(number)


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(
        Checked,
        f"__{_name}__",
        lambda self, other, name=f"__{_name}__": within(getattr(int, name)(self, int(other))),
    )


@given(TREES, st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))
def test_an_expression_has_the_value_of_its_text_in_python(tree: Any, n: int, rows: int) -> None:
    if depth(tree) > 16:
        return
    assert read_expression(msgpack.unpackb(msgpack.packb(tree))) == tree
    text = expression_text(tree)
    code = re.sub(r"-?\b\d+", lambda match: f"C({match[0]})", text)
    scope = {"C": Checked, "n": Checked(n), "rows": Checked(rows), "min": min, "max": max}
    scope["ceildiv"] = lambda one, two: within(-(-int(one) // int(two)))
    assert outcome(lambda: evaluate(tree, {"n": n, "rows": rows})) == outcome(
        lambda: int(eval(code, scope))
    ), code


def test_the_errors_of_expressions_name_them() -> None:
    with pytest.raises(ExpressionError, match=r"^n // \(n - 3\) divides by zero$"):
        evaluate(("//", "n", ("-", "n", 3)), {"n": 3})
    with pytest.raises(
        ExpressionError,
        match=r"^n \* n \* n is 1000000000000000000000, which needs more than 64 bits$",
    ):
        evaluate(("*", ("*", "n", "n"), "n"), {"n": 10**7})
    with pytest.raises(
        ExpressionError,
        match=r"^ceildiv\(-9223372036854775808, -1\) is 9223372036854775808, which needs more than 64 bits$",
    ):
        evaluate(("ceildiv", -(2**63), -1), {})
    assert {*COMPARISONS} == {"==", "!=", "<", "<=", ">", ">="}


# -- the work


def test_reading_and_checking_is_linear_in_the_steps() -> None:
    """A kernel of many parameters with defaults, of which each step gives one."""
    default = [
        Param(f"p{at}", "scalar", "int32", default=devmod.Local(1))
        if not at
        else Param(f"p{at}", "scalar", "int32", default=7)
        for at in range(1, 400)
    ]  # type: ignore[arg-type]
    kernel = Interface([Param("y", "buffer", "float32", "rw"), *default], open_block=True)
    candidates = [Candidate("opencl/cl", True, kernel)]

    def call(count: int) -> Callable[[], object]:
        steps = [["scale", {"y": "y", "p1": nested(3)}, {"threads": ["n"]}]] * count
        code = msgpack.packb({"steps": steps})
        info = declared(
            param(name="x"), param(access="rw", name="y", role="update"), kernels=["scale"]
        )
        return lambda: check_kernels(read(code, info), {"scale": candidates})

    assert_linear(call, 400)


# -- files


def file_of(info: FunctionInfo, code: bytes, fmt: str = "steps1") -> bytes:
    """A file with a program and a kernel, of which nothing was checked."""
    kernel = FunctionInfo(
        "scale",
        ["handle"],
        interface=Interface([Param("y", "buffer", "float32", "rw")], open_block=True),
    )
    kernels = devmod.bundle(
        devmod.create_with_fallback("opencl", b"kernel void scale() {}", "cl", {"scale": kernel})
    )
    module = devmod.create_with_fallback("program", {"p": code}, "steps1", {"p": info})
    module.import_module(kernels)
    data = devmod.dumps(devmod.bundle(module, kernels, mixed=True))
    return data if fmt == "steps1" else with_format(module, kernels, fmt)


def with_format(module: devmod.Module, kernels: devmod.Module, fmt: str) -> bytes:
    """The file of a newer devmod."""

    class Newer(devmod.Module):
        kind, format, functions = "program", fmt, module.functions

        def get_function(self, name: str, query_imports: bool = False) -> Any:
            raise NotImplementedError

        def save_to_bytes(self) -> bytes:
            return module.save_to_bytes().replace(b"\xa6steps1", b"\xa6" + fmt.encode())

    newer = Newer()
    newer.import_module(kernels)
    return devmod.dumps(devmod.bundle(newer, kernels, mixed=True))


ONE = msgpack.packb({"steps": [["scale", {"y": "x"}, {"threads": ["n"]}]]})
UPDATE = param(access="rw", role="update")


def test_a_strangers_file_is_listed_saved_and_refused_at_its_first_use() -> None:
    data = file_of(declared(UPDATE, kernels=["scale"]), b"\x81\xa5steps\x91\xc0")
    module = devmod.loads(data)
    assert devmod.dumps(module) == data
    assert [*module] == ["p", "scale"]
    assert repr(module.functions["p"]) == "<FunctionInfo p(x: float32[n] rw)>"
    assert (
        refused(lambda: module["p"])
        == "the code of the program 'p': step 1: expected an array, found nil, at byte 8"
    )


def test_a_program_with_a_kernel_that_the_file_lacks() -> None:
    code = ONE.replace(b"\xa5scale", b"\xa5shade")
    module = devmod.loads(file_of(declared(UPDATE, kernels=["shade"]), code))
    assert (
        refused(lambda: module["p"])
        == "the program 'p' launches 'shade', which no import of its module has"
    )


def test_a_program_without_code() -> None:
    alone = next(
        each
        for each in devmod.loads(file_of(declared(UPDATE, kernels=["scale"]), ONE)).imports
        if each.kind == "program"
    )
    module = devmod.load_from_bytes(
        "program", alone.save_to_bytes().replace(b"\x81\xa1p\xc4", b"\x81\xa1q\xc4")
    )
    assert refused(lambda: module["p"]) == "the program 'p' has no steps"


def test_the_bytes_of_programs_alone_have_no_kernels() -> None:
    alone = next(
        each
        for each in devmod.loads(file_of(declared(UPDATE, kernels=["scale"]), ONE)).imports
        if each.kind == "program"
    )
    module = devmod.load_from_bytes("program", alone.save_to_bytes())
    assert refused(lambda: module["p"]) == (
        "the program 'p' has no kernels here: the bytes of its module were loaded alone. devmod.load(path) and devmod.loads(data) load a "
        "file with its kernels"
    )


def test_a_newer_format_is_listed_saved_and_refused_at_its_first_use() -> None:
    data = file_of(declared(UPDATE, kernels=["scale"]), ONE, "steps2")
    module = devmod.loads(data)
    assert devmod.dumps(module) == data
    assert [*module] == ["p", "scale"]
    assert module.imports[0].format == "steps2"
    with pytest.raises(
        FormatError,
        match=r"^the programs have the format 'steps2', which a newer devmod-runtime runs: pip install --upgrade ",
    ):
        module["p"]
    with pytest.raises(
        FormatError,
        match=r"^the program 'q': the module has programs of the format 'steps2', which a newer devmod reads: ",
    ):
        devmod.program("q", module, updates=["x: float32[n]"], steps=["scale(y=x, threads=n)"])


def test_an_unknown_need_fits_no_kind() -> None:
    """Also where the program has a form that this version cannot read."""
    newer = declared(param(access="rw", role="workspace"), kernels=["scale"])
    info = FunctionInfo("p", newer.arg_types, interface=newer.interface.replace(needs=["loops"]))  # type: ignore[union-attr]
    data = file_of(info, b"\xc0")
    module = devmod.loads(data)
    assert devmod.dumps(module) == data
    with pytest.raises(
        devmod.DevmodError,
        match=r"^the program 'p' cannot run here:\n  1\. opencl: it needs 'loops', which a newer devmod-runtime has: ",
    ):
        module["p"]
