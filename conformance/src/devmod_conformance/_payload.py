"""Payloads, arguments and errors as JSON: what the row's process and the new process send each
other.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import devmod
from devmod.backend import function_to_json
from devmod_conformance._case import Call, Sample

#: The exit status of a forked child. No signal and no failure of Python gives it.
EXIT_STATUS = 87


def portable_sample(sample: Sample) -> dict[str, Any]:
    """Return a payload as JSON; `_probe.Payload` reads it."""
    code = sample.code
    return {
        "code": {name: _text(each) for name, each in code.items()}
        if isinstance(code, Mapping)
        else _text(code),
        "fmt": sample.fmt,
        "functions": json.dumps(
            {"func_info": {name: function_to_json(info) for name, info in sample.fmap.items()}}
        ),
        "source": {
            name: each if isinstance(each, str) else [_text(each)]
            for name, each in sample.source.items()
        },
    }


def _text(data: bytes | memoryview) -> str:
    return base64.b64encode(data).decode()


class Payload:
    """A sample, read from the row's JSON."""

    def __init__(self, sent: Mapping[str, Any]) -> None:
        code = sent["code"]
        self.code: Any = (
            {name: base64.b64decode(each) for name, each in code.items()}
            if isinstance(code, dict)
            else base64.b64decode(code)
        )
        self.fmt: str = sent["fmt"]
        self.fmap = devmod.load_metadata_from_json(sent["functions"])
        self.source = {
            name: each if isinstance(each, str) else base64.b64decode(each[0])
            for name, each in sent["source"].items()
        }

    def create(self, kind: str) -> Any:
        """Create the module."""
        return devmod.create(kind, self.code, self.fmt, self.fmap, self.source)


def read_argument(sent: Any) -> Any:
    """Read an argument of a call: an array, a number, the members of a struct, or a Local."""
    if not isinstance(sent, dict):
        return sent
    import numpy as np

    if "local" in sent:
        return devmod.Local(sent["local"])
    if "tuple" in sent:
        return tuple(map(read_argument, sent["tuple"]))

    return np.frombuffer(bytearray(base64.b64decode(sent["data"])), sent["dtype"]).reshape(
        sent["shape"]
    )


def portable_argument(value: Any) -> Any:
    """Return an argument as JSON; `read_argument` reads it."""
    if isinstance(value, devmod.Local):
        return {"local": value.nbytes}
    if isinstance(value, tuple):
        return {"tuple": [portable_argument(each) for each in value]}
    if not hasattr(value, "tobytes"):
        return value
    return {
        "data": base64.b64encode(value.tobytes()).decode(),
        "dtype": value.dtype.str,
        "shape": list(value.shape),
    }


def portable_call(call: Call) -> dict[str, Any]:
    """Return a call as JSON."""
    arguments = [portable_argument(each) for each in call.make_arguments()]
    return {
        "function": call.function,
        "arguments": arguments,
        "keywords": {**call.keywords, "rtol": call.rtol, "atol": call.atol},
    }


def read_call(sent: Mapping[str, Any]) -> Call:
    """Read a call, whose reference stays with the row."""
    return Call(
        sent["function"],
        lambda _: [*map(read_argument, sent["arguments"])],
        lambda *_: None,
        **sent["keywords"],
    )


def error_of(action: Callable[[], object]) -> dict[str, Any]:
    """Return the types, the text and the kind of the error that `action` raises; no types if it
    raises none.
    """
    try:
        action()
    except BaseException as error:  # noqa: BLE001 - the row reports it
        return {
            "types": [each.__name__ for each in type(error).__mro__],
            "text": str(error),
            "kind": getattr(error, "kind", ""),
        }
    return {"types": [], "text": "", "kind": ""}
