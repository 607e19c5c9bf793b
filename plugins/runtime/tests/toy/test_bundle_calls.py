"""Calls of a bundle's function: one call reaches every candidate, by name, in any order, with
structs by their members.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import raised, refusal
from stored import Raw, entry, file_of, pages_of

import devmod
from devmod import Block, FunctionInfo, Interface, Local, Member, Param
from devmod_runtime import block_packer

pytestmark = pytest.mark.row("R34")

Register = Callable[..., None]
X = Param("x", "buffer", "float32", "rw")
A, N = Param("a", "scalar", "float32"), Param("n", "scalar", "int32")
K = Param("k", "scalar", "int32")
STRUCT = Param(
    "p", "scalar", "uint8x8", align=4, members=(Member("a", "float32"), Member("n", "int32", 4))
)
SCRATCH = Param("scratch", "local", "float32", default=Local(16))


def module(*params: Param, kind: str = "toy", name: str = "f") -> toy.ToyModule:
    """Return a module whose function stores a·n in each element of x, whatever the order of its
    parameters.
    """
    infos = {
        name: FunctionInfo(
            "f",
            ["handle" if each.kind == "buffer" else "int32" for each in params],
            (),
            (),
            Interface(params),
        )
    }

    def run(launch: object, *values: Any) -> None:
        given: dict[str, Any] = dict(zip([each.name for each in params], values, strict=True))
        if "p" in given:
            given["a"], given["n"] = given["p"][:4], given["p"][4:]
        a, n = np.frombuffer(given["a"], "float32")[0], np.frombuffer(given["n"], "int32")[0]
        toy.floats(given["x"])[:] = a * n

    made = toy.ToyModule(toy.SPEC, "toy", infos, b"")
    made.runs = {name: run}
    return made


def unavailable(*params: Param) -> devmod.Module:
    """Return a candidate that cannot run here."""
    info = FunctionInfo(
        "f",
        ["handle" if each.kind == "buffer" else "int32" for each in params],
        (),
        (),
        Interface(params),
    )
    return devmod.create_with_fallback("opencl", b"", "cl", {"f": info})


def called(*candidates: devmod.Module, mixed: bool = False) -> Any:
    return devmod.bundle(*candidates, mixed=mixed)["f"]


def result(function: Any, *args: Any, **named: Any) -> list[float]:
    """Call with a host array; return its elements."""
    x = np.zeros(2, "float32")
    function(
        *(x if each is X else each for each in args),
        **({"x": x} | named if X not in args else named),
        grid=1,
        block=1,
    )
    elements: list[float] = x.tolist()
    return elements


ORDERS = "its candidates have different orders of arguments"


def test_one_order_takes_positions_and_names() -> None:
    f = called(module(X, A, N), unavailable(X, A, N))
    assert result(f, X, 2.0, 3) == result(f, X, n=3, a=2.0) == result(f, n=3, a=2.0) == [6, 6]


@pytest.mark.parametrize("own", [(X, A, N), (N, X, A)])
@pytest.mark.parametrize("other", [(A, N, X), (X, N, A)])
def test_other_orders_take_names_alone(own: tuple[Param, ...], other: tuple[Param, ...]) -> None:
    for f in (called(module(*own), unavailable(*other)), called(unavailable(*other), module(*own))):
        assert result(f, a=2, n=3) == [6, 6]
        text = refusal(devmod.ArgumentError, result, f, X, 2.0, 3)
        example = ", ".join(f"{each.name}=…" for each in own)
        assert (
            text
            == f"the toy function 'f' takes its arguments by name: {ORDERS}. Call it as f({example}, threads=…)"
        )
        x = toy.DEVICES[1].from_numpy(np.zeros(2, "float32"))
        f.on(toy.DEVICES[1])(x=x, a=2, n=3, grid=1, block=1)
        launch = f.bind(x=x, a=4, n=3, grid=1, block=1)
        assert x.numpy().tolist() == [6, 6]
        launch()
        assert x.numpy().tolist() == [12, 12]
        for bad in (f.on(toy.DEVICES[1]), f.bind):
            with pytest.raises(devmod.ArgumentError, match=ORDERS):
                bad(x, 2.0, 3, grid=1, block=1)


def test_the_order_counts_parameters_without_a_default() -> None:
    f = called(module(X, SCRATCH, A, N), unavailable(X, A, N))
    assert result(f, a=2, n=3) == [6, 6]
    assert result(f, X, 2.0, 3, scratch=Local(32)) == [6, 6]


@pytest.mark.parametrize("own", [(X, STRUCT), (X, A, N), (STRUCT, X)])
@pytest.mark.parametrize("other", [(X, STRUCT), (X, A, N), (X, STRUCT.replace(name="q"))])
def test_a_struct_is_given_by_its_members_where_candidates_differ(
    own: tuple[Param, ...], other: tuple[Param, ...]
) -> None:
    f = called(unavailable(*other), module(*own))
    struct_everywhere = STRUCT in own and STRUCT in other
    if struct_everywhere:
        assert result(f, p={"a": 2, "n": 3}) == [6, 6]
        return
    assert result(f, a=2, n=3) == [6, 6]
    if own[0] is X:
        assert result(f, X, 2, 3) == result(f, X, 2, n=3) == [6, 6]
    else:
        with pytest.raises(devmod.ArgumentError, match=ORDERS):
            result(f, 2, 3, X)
    if STRUCT in own:
        assert result(f, p={"a": 2, "n": 3}) == [6, 6]
        if own[0] is X:
            assert result(f, p=(2, 3)) == [6, 6]
        else:  # the order of a tuple is one of arguments
            assert (
                refusal(devmod.ArgumentError, result, f, p=(2, 3))
                == f"the toy function 'f' takes the members of p= by name, in a mapping: {ORDERS}"
            )
    text = refusal(devmod.ArgumentError, result, f, q={"a": 2, "n": 3})
    names = "x, a, n" if own[0] is X else "a, n, x"
    hint = ". Did you mean 'p'?" if STRUCT in own else ""
    assert (
        text.removesuffix(hint)
        == f"the toy function 'f' has no argument 'q'; it takes 3 arguments ({names})"
    )


def test_the_errors_of_flattened_structs_name_the_member() -> None:
    f = called(module(X, STRUCT), unavailable(X, A, N))
    for given, text in (
        ({"a": 2}, "is missing an argument: 'n'; it takes 3 arguments (x, a, n)"),
        ({"a": 2, "n": 2, "m": 1}, "has no argument 'm'; it takes 3 arguments (x, a, n)"),
    ):
        assert refusal(devmod.ArgumentError, result, f, **given) == f"the toy function 'f' {text}"
    assert (
        refusal(devmod.ArgumentError, result, f, X, 2, 3, n=3)
        == "the toy function 'f' got argument 3 'n' twice: by position and by name; it takes 3 arguments (x, a, n)"
    )
    error = raised(devmod.ArgumentError, result, f, a=2, n=2**40)
    assert (
        str(error)
        == "the toy function 'f': argument 3 'n': 1099511627776 does not fit int32 (-2147483648 to 2147483647)"
    )
    assert error.argument == "n"
    assert (
        refusal(devmod.ArgumentError, result, f, X, 2, 3, 4)
        == "the toy function 'f' takes 3 arguments (x, a, n); 4 were given"
    )


def test_the_errors_of_flattened_structs_have_the_positions_of_the_call() -> None:
    f = called(module(STRUCT, X), unavailable(A, N, X))
    assert (
        refusal(devmod.ArgumentError, f, 2, 3, "x", grid=1, block=1)
        == "the toy function 'f': argument 3 'x' is 'x', and the kernel takes an array of float32"
    )
    assert (
        refusal(devmod.ArgumentError, f, "a", 3, np.zeros(2, "float32"), grid=1, block=1)
        == "the toy function 'f': argument 1 'a': 'a' is not a number"
    )


def test_an_array_of_a_kind_without_a_candidate_is_refused() -> None:
    f = called(module(X, A, N), unavailable(X, A, N))
    tin = toy.ToyDevice(0)
    tin.kind = "tin"
    assert refusal(devmod.ArgumentError, f, tin.empty(2, "float32"), 2, 3, grid=1, block=1) == (
        "the toy function 'f': argument 1 'x' is on tin device 0 (toy number 0), and the kernel has code for toy, opencl alone: pass a "
        "host array, array.numpy(), or build the kernel for tin too"
    )


def test_candidates_that_disagree_are_called_as_they_are() -> None:
    other = unavailable(X.replace(name="y"), N, A)
    for f in (
        called(module(X, A, N), other, mixed=True),
        called(other, module(X, STRUCT), mixed=True),
    ):
        x = np.zeros(2, "float32")
        f(x, *((2.0, 3) if len(f.info.arg_types) == 3 else ((2.0, 3),)), grid=1, block=1)
        assert x.tolist() == [6, 6]


def test_candidates_that_cannot_be_compared_do_not_count() -> None:
    nameless = FunctionInfo("f", ["handle", "float32", "int32"])
    others = [
        devmod.create_with_fallback("opencl", b"", "cl", {"f": nameless}),
        unavailable(X.replace(name=""), N, A),
        unavailable(X, X, A),
    ]
    f = called(module(X, A, N), *others)
    assert result(f, X, 2.0, 3) == result(f, n=3, a=2.0) == [6, 6]


def test_a_candidate_without_names_takes_positions_in_its_own_order() -> None:
    own = toy.ToyModule(
        toy.SPEC, "toy", {"f": FunctionInfo("f", ["handle", "float32", "int32"])}, b""
    )
    own.runs = {
        "f": lambda launch, x, a, n: toy.floats(x).fill(
            np.frombuffer(a, "float32")[0] * np.frombuffer(n, "int32")[0]
        )
    }
    f = called(own, unavailable(X, A, N), devmod.bundle(unavailable(N, X, A)))
    assert result(f, X, 2.0, 3) == [6, 6]


def test_a_call_without_a_block_is_offered_that_of_the_other_candidates() -> None:
    """A bundle of candidates with different arguments says nothing when it is made, so its call
    does.
    """
    info = FunctionInfo(
        "f", ["handle", "int32", "int32"], (), (), Interface([X, A, N], block=(8, 2, 1))
    )
    other = devmod.create_with_fallback("vulkan", {"f": b""}, "spv", {"f": info})
    expected = "the toy function 'f' needs block=, the number of threads in a block: an int, or up to three ints for x, y, z"
    f = called(module(X, A, N), other)
    for function, text in (
        (f, f"{expected}. The other candidates have blocks of (8, 2): give block=(8, 2)"),
        (called(module(X, A, N), unavailable(X, A, N)), expected),
    ):
        assert (
            refusal(devmod.ArgumentError, function, np.zeros(2, "float32"), 2.0, 3, grid=1) == text
        )


def test_the_rules_hold_after_saving_and_loading(register: Register) -> None:
    """Also for candidates whose runtime is not installed."""
    own = module(N, X, A)
    register("devmod.targets", "toy", toy.SPEC)
    register("devmod.load_from_bytes", "toy", lambda data: own)
    data = devmod.dumps(devmod.bundle(unavailable(X, A, N), own))
    f = devmod.loads(data)["f"]
    assert result(f, a=2, n=3) == [6, 6]
    with pytest.raises(devmod.ArgumentError, match=ORDERS):
        result(f, 3, X, 2.0)


def calls_of(data: bytes) -> object:
    """Return the key `calls` of the page of an index that has it."""
    return next((page["calls"] for page in pages_of(data) if "calls" in page), None)


def check_calls(
    own: tuple[Param, ...],
    other: tuple[Param, ...],
    calls: object,
    register: Register,
    more: Sequence[devmod.Module],
) -> None:
    """Call the function of a loaded bundle whose last candidate has damaged bytes: the index has
    what the candidates have in common.
    """
    chosen = module(*own)
    register("devmod.targets", "toy", toy.SPEC)
    register("devmod.load_from_bytes", "toy", lambda data: chosen)
    data = devmod.dumps(devmod.bundle(chosen, *more, unavailable(*other)))
    assert calls_of(data) == calls
    assert devmod.dumps(devmod.loads(data)) == data
    size = len(unavailable(*other).save_to_bytes())
    f = devmod.loads(data[:-size] + bytes(size))["f"]
    names = [
        name for each in own for name in (("a", "n") if each is STRUCT and calls else (each.name,))
    ]
    values = {"x": X, "a": 2.0, "n": 3}
    if calls != {"f": [True]} and calls != {"f": [True, "p"]}:
        assert result(f, *(values[name] for name in names)) == [6, 6]
    else:
        with pytest.raises(devmod.ArgumentError, match=ORDERS):
            result(f, *(values[name] for name in names))
    assert result(f, a=2, n=3) == [6, 6]


@pytest.mark.parametrize(
    ("own", "other", "calls"),
    [
        ((X, A, N), (X, A, N), None),
        ((N, X, A), (X, A, N), {"f": [True]}),
        ((X, A, N), (X, STRUCT), {"f": [False, "p"]}),
        ((STRUCT, X), (X, A, N), {"f": [True, "p"]}),
        ((X, STRUCT), (X, STRUCT.replace(name="q")), {"f": [False, "p", "q"]}),
    ],
)
def test_a_call_reads_the_chosen_candidate_alone(
    own: tuple[Param, ...], other: tuple[Param, ...], calls: object, register: Register
) -> None:
    check_calls(own, other, calls, register, ())


def test_a_call_of_a_large_bundle_reads_the_chosen_candidate_alone(register: Register) -> None:
    more = [Raw("other", b"", functions=(f"f{number}",)) for number in range(600)]
    check_calls((STRUCT, X), (X, A, N), {"f": [True, "p"]}, register, more)


def test_a_candidate_that_is_added_to_a_loaded_bundle_counts(register: Register) -> None:
    own = module(X, A, N)
    register("devmod.targets", "toy", toy.SPEC)
    register("devmod.load_from_bytes", "toy", lambda data: own)
    bundle = devmod.loads(devmod.dumps(devmod.bundle(own, unavailable(X, A, N))))
    assert result(bundle["f"], X, 2.0, 3) == [6, 6]
    bundle.import_module(unavailable(N, A, X))
    with pytest.raises(devmod.ArgumentError, match=ORDERS):
        result(bundle["f"], X, 2.0, 3)
    assert calls_of(devmod.dumps(bundle)) == {"f": [True]}


@pytest.mark.parametrize(
    "calls", [7, {}, {"f": 7}, {"f": []}, {"f": [True, 7]}, {"g": [True]}], ids=str
)
def test_invalid_calls_in_an_index_are_ignored(calls: object, register: Register) -> None:
    own = module(X, A, N)
    register("devmod.targets", "toy", toy.SPEC)
    register("devmod.load_from_bytes", "toy", lambda data: own)
    wire = own.save_to_bytes()
    entries = [entry(wire, kind="toy", format="toy"), entry(wire, kind="other")]
    blobs = wire + bytes(-len(wire) % 64) + wire
    f = devmod.loads(file_of({"calls": calls, "roots": [0, 1], "modules": entries}, blobs))["f"]
    assert result(f, X, 2.0, 3) == [6, 6]


def test_specialize_keeps_the_rules() -> None:
    f = called(module(X, STRUCT), unavailable(N, X, A)).specialize()
    assert result(f, a=2, n=3) == [6, 6]
    with pytest.raises(devmod.ArgumentError, match=ORDERS):
        result(f, X, 2.0, 3)


def test_the_description_has_the_arguments_of_the_call() -> None:
    f = called(module(X, STRUCT, SCRATCH), unavailable(N, X, A))
    assert str(inspect.signature(f)) == (
        "(*, x: 'float32* rw', a: 'float32', n: 'int32', scratch: 'local float32' = Local(16), "
        "p: '{a: float32, n: int32}' = None, grid=None, block=None, threads=None, stream=None) -> None"
    )
    assert (
        "x : float32* rw\na : float32\nn : int32\nscratch : local float32 = Local(16)\np : record\n    In place of 'a', 'n'.\n"
        in f.__doc__
    )
    assert f"Arguments are given by name: {ORDERS}." in f.__doc__
    assert (
        "<tr><td>n</td><td>int32</td></tr><tr><td>scratch</td><td>local float32 = Local(16)</td></tr>"
        in f._repr_html_()
    )


def test_the_record_of_a_block_has_no_order_where_candidates_differ() -> None:
    a, n = Param("a", "scalar", "int32", at=(0, 0)), N.replace(at=(0, 4))
    interface = Interface([n, a], [Block("push", 8, name="p")])
    own = toy.ToyModule(
        toy.SPEC, "toy", {"f": FunctionInfo("f", ["int32", "int32"], (), (), interface)}, b""
    )
    seen: list[bytes] = []
    own.runs = {"f": lambda launch, *values: seen.append(block_packer(interface)(values)[0])}
    f = called(
        own, unavailable(STRUCT.replace(members=[Member("a", "int32"), Member("n", "int32", 4)]))
    )
    for _ in range(2):
        f(p={"a": 1, "n": 2}, grid=1, block=1)
        assert (
            refusal(devmod.ArgumentError, f, p=(1, 2), grid=1, block=1)
            == f"the toy function 'f' takes the members of p= by name, in a mapping: {ORDERS}"
        )
    assert seen == [np.array([1, 2], "i4").tobytes()] * 2


@pytest.mark.parametrize("names", [["scale", "at"], ["scale"]])
def test_a_record_has_a_struct_that_a_bundle_flattens(names: list[str]) -> None:
    n, k = Param("n", "scalar", "int32", at=(0, 0)), Param("k", "scalar", "int32", at=(0, 16))
    members = [Member(name, "int32", 4 * number) for number, name in enumerate(names)]
    view = Param("view", "scalar", f"uint8x{4 * len(names)}", at=(0, 8), align=4, members=members)
    interface = Interface([n, view, k], [Block("push", 24, name="p")])
    types = [each.type for each in interface.params]
    own = toy.ToyModule(toy.SPEC, "toy", {"f": FunctionInfo("f", types, (), (), interface)}, b"")
    seen: list[bytes] = []
    own.runs = {"f": lambda launch, *values: seen.append(block_packer(interface)(values)[0])}
    f = called(own, unavailable(N, *(Param(name, "scalar", "int32") for name in names), K))
    values = list(range(2, 2 + len(names)))
    for _ in range(2):
        f(1, *values, 9, grid=1, block=1)
        f(1, view=tuple(values), k=9, grid=1, block=1)
        f(p={"n": 1, "k": 9, "view": dict(zip(names, values, strict=True))}, grid=1, block=1)
        f.bind(p=(1, tuple(values), 9), grid=1, block=1)()
    toy.DEVICES[0].synchronize()
    assert set(seen) == {np.array([1, 0, *values, *[0] * (2 - len(names)), 9, 0], "i4").tobytes()}
    listed = ", ".join(("n", *names, "k"))
    text = refusal(
        devmod.ArgumentError, f, p=(1, tuple(values), 9), **{names[-1]: 3}, grid=1, block=1
    )
    number = 1 + len(names)
    assert text == (
        f"the toy function 'f' got argument {number} '{names[-1]}' twice: by name and in the record p=; it takes {2 + len(names)} arguments "
        f"({listed})"
    )
    assert f"p : record\n    In place of {', '.join(map(repr, listed.split(', ')))}." in f.__doc__
