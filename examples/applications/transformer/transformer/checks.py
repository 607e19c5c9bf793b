"""Each kernel alone, and each step of the model, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import devmod

from . import model
from .model import Config, Reference
from .program import new_text

#: The largest error of a number, relative to the largest number of the result.
KERNEL_TOLERANCE, STEP_TOLERANCE = 1e-5, 1e-3
#: Vulkan and WebGPU allow this error of a sine and a cosine.
ROPE_TOLERANCE = 2.0**-11


@dataclass(frozen=True)
class Case:
    """A call of a kernel, and the arrays that it must leave."""

    name: str
    arguments: dict[str, Any]
    expected: dict[str, np.ndarray[Any, Any]]
    grid: int | None = None
    threads: int | None = None
    tolerance: float = KERNEL_TOLERANCE

    def check(self) -> None:
        """Compare the arrays, after the call, with those that are expected."""
        for name, expected in self.expected.items():
            error = _error(self.arguments[name], expected)
            if not error <= self.tolerance:
                raise AssertionError(
                    f"{self.name}: '{name}' differs from NumPy's by {error:.2g}; expected at most {self.tolerance:.2g}"
                )


def cases() -> Iterator[Case]:
    """Yield a call of each kernel. No size is a multiple of a group, and there are fewer groups
    than rows.
    """
    rng = np.random.default_rng(1)
    size, rows, position = 96, 6, 69
    config = Config(size=60, heads=6, kv_heads=3, context=80)
    at = np.array([position], np.int32)
    tokens = np.zeros(config.context, np.int32)
    tokens[position] = 4

    def floats(*shape: int) -> Any:
        return rng.normal(0, 1, shape).astype(np.float32)

    blocks = model.quantize(floats(rows, size))
    words = np.frombuffer(blocks.tobytes(), np.uint32)
    matrix = model.dequantize(blocks).astype(np.float64)
    x, y = floats(size), np.zeros(size, np.float32)
    yield Case(
        "embed",
        {"table": words, "tokens": tokens, "position": at, "x": y.copy(), "size": size},
        {"x": matrix[4]},
        threads=size,
    )
    weight = floats(size)
    arguments: dict[str, Any] = {
        "x": x,
        "weight": weight,
        "y": y.copy(),
        "size": size,
        "epsilon": 0.1,
    }
    yield Case("rms_norm", arguments, {"y": model.rms_norm(x.astype(float), weight, 0.1)}, grid=1)
    arguments = {
        "weights": words,
        "x": x,
        "y": np.zeros(rows, np.float32),
        "rows": rows,
        "columns": size,
    }
    yield Case("matvec_q4_0", arguments, {"y": matrix @ x}, grid=4)

    query, keys, values = (
        floats(config.size),
        floats(config.context, config.kv_size),
        floats(config.context, config.kv_size),
    )
    heads = {
        "heads": config.heads,
        "kv_heads": config.kv_heads,
        "head_size": config.head_size,
        "context": config.context,
    }
    arguments = {
        "x": query.copy(),
        "frequencies": config.frequencies,
        "position": at,
        "heads": config.heads,
        "head_size": config.head_size,
    }
    turned = model.rope(query.astype(float), config.frequencies, position, config.heads)
    yield Case("rope", arguments, {"x": turned}, threads=config.size // 2, tolerance=ROPE_TOLERANCE)
    arguments = {
        "key": floats(config.kv_size),
        "value": floats(config.kv_size),
        "keys": keys.copy(),
        "values": values.copy(),
    }
    stored = {"keys": keys.copy(), "values": values.copy()}
    stored["keys"][position], stored["values"][position] = arguments["key"], arguments["value"]
    yield Case(
        "store_cache",
        {**arguments, "position": at, "size": config.kv_size},
        stored,
        threads=config.kv_size,
    )

    # Behind the position, the kernels write nothing.
    count, behind = (
        position + 1,
        np.full((config.heads, config.context - position - 1), 7, np.float32),
    )
    scores = np.full((config.heads, config.context), 7, np.float32)
    raw = model.attention_scores(query.astype(float), keys[:count], config)
    arguments = {"query": query, "keys": keys, "position": at, "scores": scores.copy(), **heads}
    yield Case("attention_scores", arguments, {"scores": np.hstack([raw, behind])}, grid=4)
    scores[:, :count] = 100 * raw  # exp overflows without the subtraction of the maximum
    expected = model.softmax(scores[:, :count].astype(float))
    arguments = {
        "scores": scores.copy(),
        "position": at,
        "rows": config.heads,
        "context": config.context,
    }
    yield Case("softmax", arguments, {"scores": np.hstack([expected, behind])}, grid=4)
    scores[:, :count] = expected
    arguments = {
        "scores": scores,
        "values": values,
        "position": at,
        "y": np.zeros(config.size, np.float32),
        **heads,
    }
    yield Case(
        "attention_values",
        arguments,
        {"y": model.attention_values(expected, values[:count], config)},
        grid=4,
    )

    other = floats(size)
    yield Case(
        "accumulate", {"x": x.copy(), "y": other, "size": size}, {"x": x + other}, threads=size
    )
    gate = 8 * other
    yield Case(
        "swiglu",
        {"gate": gate.copy(), "up": x, "size": size},
        {"gate": model.swiglu(gate.astype(float), x)},
        threads=size,
    )
    logits = floats(size)
    logits[[5, 64, 69]] = 9  # the first of equal ones is the next token
    for prompt, context, following in (
        (position + 1, config.context, 5),
        (position + 2, config.context, 0),
        (1, position + 1, 0),
    ):
        arguments = {
            "logits": logits,
            "tokens": tokens.copy(),
            "position": at.copy(),
            "size": size,
            "prompt": prompt,
            "context": context,
        }
        after = tokens.copy()
        after[position + 1] = following
        yield Case("next_token", arguments, {"tokens": after, "position": at + 1}, grid=1)


def check_kernels(module: devmod.Module, device: devmod.Device) -> int:
    """Call each kernel on a device, and compare the results with NumPy. Return the number of
    kernels.
    """
    names = set()
    for case in cases():
        # A call on Hexagon has no grid: the loops over the rows or the elements are in the kernels.
        extent: dict[str, Any] = (
            {} if device.kind == "hexagon" else {"threads": case.threads, "grid": case.grid}
        )
        module[case.name].on(device)(**case.arguments, **extent)
        case.check()
        names.add(case.name)
    assert names == set(module.functions) - {"layer", "step"}, "a kernel has no case"
    return len(names)


def check_decoding(
    step: Any, reference: Reference, prompt: tuple[int, ...], steps: int
) -> tuple[list[int], float]:
    """Decode from the start with the program `step`, and compare each step with NumPy.

    Return the tokens, and the largest error of a logit.
    """
    text = new_text(step, reference.config, prompt)
    largest = 0.0
    for position in range(steps):
        expected = reference.step(int(text["tokens"].numpy()[position]))
        logits, tokens = step(**text).numpy(), text["tokens"].numpy()
        error = _error(logits, expected)
        if not error <= STEP_TOLERANCE:
            raise AssertionError(
                f"step {position}: the logits differ from NumPy's by {error:.2g}; expected at most {STEP_TOLERANCE}"
            )
        if len(prompt) <= position + 1 < len(tokens) and tokens[position + 1] != logits.argmax():
            raise AssertionError(
                f"step {position}: expected the token {logits.argmax()}, got {tokens[position + 1]}"
            )
        largest = max(largest, error)
    return tokens.tolist(), largest


def _error(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """Return the largest difference, relative to the largest number; NaN if a result is NaN."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())
