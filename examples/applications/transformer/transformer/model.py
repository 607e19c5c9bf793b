"""The model: its sizes, random weights in q4_0, and the reference in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]

#: 32 weights in 18 bytes, as in ggml's files. A number n from 0 to 15 is the weight `scale * (n -
#: 8)`. The low half of byte i is weight i, the high half is weight i + 16.
BLOCK = np.dtype([("scale", "<f2"), ("numbers", "u1", 16)])


@dataclass(frozen=True)
class Config:
    """The sizes of a model. The columns of a matrix are a multiple of 32, the length of a block."""

    size: int = 256  # of the vector that goes through the layers
    heads: int = 8
    kv_heads: int = (
        4  # the heads of keys and values; each serves heads / kv_heads heads of the query
    )
    hidden: int = 672  # 21 blocks: the rows of `down` have 378 bytes, so that every other one begins in the middle of a word
    layers: int = 4
    vocabulary: int = 1000
    context: int = 128  # the tokens that fit into the cache
    epsilon: float = 1e-5

    @property
    def head_size(self) -> int:
        """The numbers of one head."""
        return self.size // self.heads

    @property
    def kv_size(self) -> int:
        """The numbers of all heads of the keys, and of the values."""
        return self.kv_heads * self.head_size

    @property
    def frequencies(self) -> Floats:
        """The angle by which rope turns each pair of a head from one position to the next."""
        return (10000.0 ** (-np.arange(0, self.head_size, 2) / self.head_size)).astype(np.float32)


def quantize(weights: Floats) -> np.ndarray[Any, Any]:
    """Return a matrix in blocks. The weight with the largest absolute value becomes the number 0,
    as in ggml.
    """
    groups = weights.reshape(len(weights), -1, 32)
    largest = np.take_along_axis(groups, np.abs(groups).argmax(axis=2, keepdims=True), axis=2)
    scale = (largest / -8).astype(np.float16)
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = (
            np.nan_to_num(np.rint(groups / scale.astype(np.float32)) + 8)
            .clip(0, 15)
            .astype(np.uint8)
        )
    blocks = np.empty(groups.shape[:2], BLOCK)
    blocks["scale"] = scale[..., 0]
    blocks["numbers"] = numbers[..., :16] | numbers[..., 16:] << 4
    return blocks


def dequantize(blocks: np.ndarray[Any, Any]) -> Floats:
    """Return the matrix of blocks as float32, which is exact."""
    numbers = (
        np.concatenate([blocks["numbers"] & 15, blocks["numbers"] >> 4], axis=2).astype(np.int8) - 8
    )
    return (blocks["scale"].astype(np.float32)[..., None] * numbers).reshape(len(blocks), -1)


def random_weights(config: Config, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return weights that keep the numbers of all layers near 1: matrices in blocks, and vectors.
    Those of layer 2 end in "_2".
    """
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float = 1) -> np.ndarray[Any, Any]:
        return quantize(rng.normal(0, scale / np.sqrt(columns), (rows, columns)).astype(np.float32))

    def vector() -> Floats:
        return rng.normal(1, 0.1, config.size).astype(np.float32)

    weights = {"table": matrix(config.vocabulary, config.size, np.sqrt(config.size))}
    for number in range(config.layers):
        layer = {
            "attention_norm": vector(),
            "query": matrix(config.size, config.size, 2),
            "key": matrix(config.kv_size, config.size, 2),
            "value": matrix(config.kv_size, config.size),
            "output": matrix(config.size, config.size),
            "hidden_norm": vector(),
            "gate": matrix(config.hidden, config.size),
            "up": matrix(config.hidden, config.size),
            "down": matrix(config.size, config.hidden),
        }
        weights |= {f"{name}_{number}": array for name, array in layer.items()}
    return weights | {"norm": vector(), "head": matrix(config.vocabulary, config.size)}


# -- The kernels in NumPy: each function has the name of its kernel.


def rms_norm(x: Floats, weight: Floats, epsilon: float) -> Floats:
    """Divide by the root of the mean square, and multiply by the weights of the norm."""
    return np.asarray(x / np.sqrt(np.mean(x * x) + epsilon) * weight)


def rope(x: Floats, frequencies: Floats, position: int, heads: int) -> Floats:
    """Turn each pair of neighbours in each head by its frequency times the position."""
    pairs = x.reshape(heads, -1, 2)
    angle = position * frequencies.astype(np.float64)
    c, s, a, b = np.cos(angle), np.sin(angle), pairs[..., 0], pairs[..., 1]
    return np.stack([a * c - b * s, a * s + b * c], axis=2).reshape(-1)


def softmax(scores: Floats) -> Floats:
    """Return the softmax of each row."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def attention_scores(query: Floats, keys: Floats, config: Config) -> Floats:
    """Return the product of each head of the query with its head of the keys at each position, over
    the root of the head's size.
    """
    keys = keys.reshape(-1, config.kv_heads, config.head_size).repeat(
        config.heads // config.kv_heads, axis=1
    )
    return np.asarray(
        np.einsum("hi,phi->hp", query.reshape(config.heads, -1), keys) / np.sqrt(config.head_size)
    )


def attention_values(scores: Floats, values: Floats, config: Config) -> Floats:
    """Return the mean of the values, with the scores as weights."""
    values = values.reshape(-1, config.kv_heads, config.head_size).repeat(
        config.heads // config.kv_heads, axis=1
    )
    return np.asarray(np.einsum("hp,phi->hi", scores, values).reshape(-1))


def swiglu(gate: Floats, up: Floats) -> Floats:
    """Return `up` times the sigmoid linear unit of `gate`."""
    return np.asarray(gate / (1 + np.exp(-gate)) * up)


class Reference:
    """The model in NumPy, with float64.

    Parameters
    ----------
    config, weights
        The model.
    """

    def __init__(self, config: Config, weights: dict[str, np.ndarray[Any, Any]]) -> None:
        self.config = config
        self.weights = {
            name: (dequantize(array) if array.dtype == BLOCK else array).astype(float)
            for name, array in weights.items()
        }
        self.keys: list[list[Floats]] = [
            [] for _ in range(config.layers)
        ]  # of each layer: of each position
        self.values: list[list[Floats]] = [[] for _ in range(config.layers)]

    def step(self, token: int) -> Floats:
        """Put one more token into the model, and return the logits of the next one."""
        config, weights = self.config, self.weights
        x = weights["table"][token]
        for number, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            layer = {name.removesuffix(f"_{number}"): array for name, array in weights.items()}
            y = rms_norm(x, layer["attention_norm"], config.epsilon)
            query = rope(layer["query"] @ y, config.frequencies, len(keys), config.heads)
            keys.append(rope(layer["key"] @ y, config.frequencies, len(keys), config.kv_heads))
            values.append(layer["value"] @ y)
            scores = softmax(attention_scores(query, np.stack(keys), config))
            x = x + layer["output"] @ attention_values(scores, np.stack(values), config)
            y = rms_norm(x, layer["hidden_norm"], config.epsilon)
            x = x + layer["down"] @ swiglu(layer["gate"] @ y, layer["up"] @ y)
        return np.asarray(weights["head"] @ rms_norm(x, weights["norm"], config.epsilon))
