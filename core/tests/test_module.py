"""Module: the base class of backends' modules, and its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from each_case import refusal

import devmod


class Minimal(devmod.Module):
    """The smallest module. Its constructor does not call super().__init__()."""

    def __init__(self, *names: str) -> None:
        self.names = names

    @property
    def kind(self) -> str:
        return "toy"

    def get_function(self, name: str, query_imports: bool = False) -> object:
        if name in self.names:
            return lambda: name
        raise devmod.FunctionNotFoundError(f"no {name}")


class SavesBytes(Minimal):
    def save_to_bytes(self) -> bytes:
        return b"one two"


class SavesParts(Minimal):
    def wire_parts(self) -> tuple[bytes, ...]:
        return (b"one ", b"two")


def test_kind_and_get_function_are_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        devmod.Module()  # type: ignore[abstract]


def test_the_defaults_are_empty() -> None:
    module = Minimal("f")
    assert (
        module.format,
        dict(module.functions),
        module.imports,
        dict(module.source),
        module.origin,
    ) == ("", {}, (), {}, None)
    assert module.inspect_source() == ""
    assert module["f"]() == "f"
    assert module.property_mask == 2
    assert repr(module) == "<Minimal toy: no functions>"
    assert (
        refusal(devmod.FunctionNotFoundError, module.get_global, "g")
        == "the toy module has no global 'g'; it has: none"
    )


class WithNames(Minimal):
    @property
    def functions(self) -> Mapping[str, devmod.FunctionInfo]:
        return {name: devmod.FunctionInfo(name, []) for name in self.names}


def test_a_function_is_no_attribute_and_the_error_shows_the_expression() -> None:
    module = WithNames("bilateral", "_private")
    for name, hint in {
        "bilateral": ". It has the function module['bilateral']",
        "blur": "",
        "save": ". The function devmod.save writes it to a file",
        "_private": ". It has the function module['_private']",
    }.items():
        assert not hasattr(module, name)
        assert (
            refusal(AttributeError, getattr, module, name)
            == f"'WithNames' object has no attribute {name!r}{hint}"
        )
    del module.names  # as in a constructor that has not set it
    with pytest.raises(AttributeError) as caught:
        _ = module.other
    assert str(caught.value) == "'WithNames' object has no attribute 'other'"
    with pytest.raises(AttributeError, match="'WithNames' object has no attribute 'names'"):
        _ = module.functions
    module = WithNames("bilateral")
    stored = devmod.loads(
        devmod.dumps(devmod.create_with_fallback("opencl", b"", "cl", module.functions))
    )
    assert not hasattr(stored, "bilateral")
    assert not hasattr(stored, "__array_interface__")


def test_a_module_is_not_called() -> None:
    class Named(Minimal):
        def __iter__(self) -> Any:
            return iter(self.names)

    assert refusal(devmod.ArgumentError, Named("saxpy"), 3, n=2) == (
        "a module is no function: call one of its own, such as module['saxpy'](…); it has: 'saxpy'"
    )
    assert refusal(TypeError, Named()) == (
        "a module is no function: call one of its own, such as module['name'](…); it has: none"
    )


def test_the_error_for_a_module_that_cannot_be_saved() -> None:
    module = Minimal()
    for act in (module.save_to_bytes, module.wire_parts):
        assert refusal(devmod.FormatError, act) == "a module of kind 'toy' cannot be saved to bytes"
    assert (
        refusal(devmod.FormatError, module.write_to_file, "x.toy")
        == "a module of kind 'toy' has no raw payload to write; use devmod.save"
    )


@pytest.mark.parametrize("module", [SavesBytes(), SavesParts()])
def test_save_to_bytes_and_wire_parts_default_to_each_other(module: devmod.Module) -> None:
    assert module.save_to_bytes() == b"one two"
    assert b"".join(module.wire_parts()) == b"one two"
    assert module.property_mask == 3


@pytest.mark.row("R21")
def test_imports_make_a_tree() -> None:
    root, middle, leaf = Minimal("a"), Minimal("b"), Minimal("c")
    root.import_module(middle)
    middle.import_module(leaf)
    root.import_module(leaf)
    assert root.imports == (middle, leaf)
    for module in (root, middle, leaf):
        assert (
            refusal(devmod.FormatError, leaf.import_module, module)
            == "toy: importing the toy module would make a cycle: it is this module or imports it"
        )
    text = refusal(devmod.FormatError, root.import_module, "x")
    assert text == "toy: a module imports a Module, not str"
    assert leaf.imports == ()


@pytest.mark.parametrize("name", [3, None, b"f"])
def test_a_name_is_a_string(name: Any) -> None:
    modules = [
        devmod.create_with_fallback("opencl", b"", "cl", {"f": devmod.FunctionInfo("f", [])}),
        devmod.const_loader({"w": b"abcd"}, {}),
    ]
    modules += [devmod.loads(devmod.dumps(module)) for module in modules]
    for module in modules:
        with pytest.raises(devmod.FunctionNotFoundError) as caught:
            module[name]
        assert (
            str(caught.value)
            == f"the name of the {module.kind} function is not a string: expected a str, got {type(name).__name__}"
        )


class Listed(Minimal):
    """A module whose functions cannot be built."""

    @property
    def functions(self) -> dict[str, devmod.FunctionInfo]:
        return {name: devmod.FunctionInfo(name, ()) for name in self.names}

    def get_function(self, name: str, query_imports: bool = False) -> object:
        raise AssertionError("nothing may be built")


def test_names_are_listed_and_nothing_is_built() -> None:
    module = Listed("f", "g")
    assert "f" in module
    assert "h" not in module
    assert 3 not in module
    assert [] not in module
    assert (len(module), list(module), module._ipython_key_completions_()) == (
        2,
        ["f", "g"],
        ["f", "g"],
    )
    assert tuple(module.function_names) == ("f", "g")


def test_a_module_is_no_mapping() -> None:
    module, twin = Listed(), Listed()
    assert module
    assert len(module) == 0
    assert (module == twin, module == module, len({module, twin})) == (False, True, 2)
    assert not isinstance(module, Mapping)
    assert not hasattr(module, "keys")


def test_the_names_of_stored_modules_and_bundles_come_from_the_index() -> None:
    """The payloads are damaged, so that any use of them raises FormatError."""
    made = [
        devmod.create_with_fallback("opencl", b"", "cl", {name: devmod.FunctionInfo(name, [])})
        for name in ("f", "g")
    ]
    for module, names in ((made[0], ["f"]), (devmod.bundle(*made), ["f", "g"])):
        data = bytearray(devmod.dumps(module))
        data[-1] ^= 0xFF
        stored = devmod.loads(data)
        assert (list(stored), len(stored), "f" in stored, "h" in stored) == (
            names,
            len(names),
            True,
            False,
        )
        assert repr(stored).endswith(f": {', '.join(names)}>")
