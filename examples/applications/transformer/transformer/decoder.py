"""The model on a device: the arrays, the launches of one step, and the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import devmod

from .model import Config, Layer, Weights


def extent_of(device: devmod.Device, *, grid: int | None = None, threads: int | None = None) -> dict[str, Any]:
    """Return the keywords of a launch with a number of groups or of threads."""
    if device.kind == "hexagon":
        return {}  # one call: the loop over the rows or the elements is in the kernel
    if threads is not None:
        return {"threads": threads}
    assert grid is not None
    return {"grid": min(grid, 65535)}  # Vulkan and WebGPU may take no more; each group then works on several rows


class Decoder:
    """A model on a device, with the key and value cache of one text.

    The weights are copied to the device once. A step is always the same list of prepared launches: the kernels read the current token and
    its position from arrays of the device, and the last kernel writes the next token there. So a step copies nothing.

    Parameters
    ----------
    kernels
        The module with the kernels.
    device
        The device.
    config, weights
        The model.
    prompt
        The first tokens of the text. The model chooses the tokens after them.
    """

    def __init__(self, kernels: devmod.Module, device: devmod.Device, config: Config, weights: Weights, prompt: Sequence[int]) -> None:
        self.config, self.device, self.prompt = config, device, tuple(prompt)
        self.stream = device.stream()
        self._kernels = kernels
        self._functions: dict[str, devmod.Function] = {}
        self._launches: list[devmod.Launch] = []

        self.tokens = device.zeros(config.context, "int32")
        self.position = device.zeros(1, "int32")
        self.logits = device.empty(config.vocabulary, "float32")
        self.caches = [[device.zeros((config.context, config.kv_size), "float32") for _ in range(2)] for _ in weights.layers]
        self.restart()

        self._x, self._y = device.empty(config.size, "float32"), device.empty(config.size, "float32")
        self._query = device.empty(config.size, "float32")
        self._key, self._value = device.empty(config.kv_size, "float32"), device.empty(config.kv_size, "float32")
        self._scores = device.empty((config.heads, config.context), "float32")
        self._gate, self._up = device.empty(config.hidden, "float32"), device.empty(config.hidden, "float32")
        self._frequencies = device.from_numpy(config.frequencies)

        table = self._blocks(weights.table)
        self._launch("embed", threads=config.size, table=table, tokens=self.tokens, position=self.position, x=self._x, size=config.size)
        for layer, (keys, values) in zip(weights.layers, self.caches, strict=True):
            self._attention(layer, keys, values)
            self._hidden(layer)
        self._norm(weights.norm)
        self._matvec(weights.head, self._y, self.logits)
        sizes = {"size": config.vocabulary, "prompt": len(self.prompt), "context": config.context}
        self._launch("next_token", grid=1, logits=self.logits, tokens=self.tokens, position=self.position, **sizes)

    def restart(self) -> None:
        """Go back to the first token of the prompt."""
        tokens = np.zeros(self.config.context, np.int32)
        tokens[: len(self.prompt)] = self.prompt
        self.tokens.copy_from(tokens, stream=self.stream)
        self.position.copy_from(np.zeros(1, np.int32), stream=self.stream)

    def step(self) -> None:
        """Queue one step: the current token goes into the cache, and the model chooses the next one after the prompt."""
        with self.stream.batch():
            for launch in self._launches:
                launch()

    # -- The launches of a step, in their order.

    def _attention(self, layer: Layer, keys: Any, values: Any) -> None:
        config = self.config
        at: dict[str, Any] = {"position": self.position}
        heads = {"heads": config.heads, "kv_heads": config.kv_heads, "head_size": config.head_size, "context": config.context}
        self._norm(layer.attention_norm)
        self._matvec(layer.query, self._y, self._query)
        self._matvec(layer.key, self._y, self._key)
        self._matvec(layer.value, self._y, self._value)
        self._rope(self._query, config.heads)
        self._rope(self._key, config.kv_heads)
        cache: dict[str, Any] = {"key": self._key, "value": self._value, "keys": keys, "values": values}
        self._launch("store_cache", threads=config.kv_size, **cache, **at, size=config.kv_size)
        self._launch("attention_scores", grid=config.heads, query=self._query, keys=keys, scores=self._scores, **at, **heads)
        self._launch("softmax", grid=config.heads, scores=self._scores, **at, rows=config.heads, context=config.context)
        self._launch("attention_values", grid=config.heads, scores=self._scores, values=values, y=self._query, **at, **heads)
        self._matvec(layer.output, self._query, self._y)
        self._launch("accumulate", threads=config.size, x=self._x, y=self._y, size=config.size)

    def _hidden(self, layer: Layer) -> None:
        config = self.config
        self._norm(layer.hidden_norm)
        self._matvec(layer.gate, self._y, self._gate)
        self._matvec(layer.up, self._y, self._up)
        self._launch("swiglu", threads=config.hidden, gate=self._gate, up=self._up, size=config.hidden)
        self._matvec(layer.down, self._gate, self._y)
        self._launch("accumulate", threads=config.size, x=self._x, y=self._y, size=config.size)

    def _norm(self, weight: Any) -> None:
        arrays: dict[str, Any] = {"x": self._x, "weight": self.device.from_numpy(weight), "y": self._y}
        self._launch("rms_norm", grid=1, **arrays, size=self.config.size, epsilon=self.config.epsilon)

    def _matvec(self, blocks: Any, x: Any, y: Any) -> None:
        rows, columns = blocks.shape[0], blocks.shape[1] * 32
        self._launch("matvec_q4_0", grid=rows, weights=self._blocks(blocks), x=x, y=y, rows=rows, columns=columns)

    def _rope(self, x: Any, heads: int) -> None:
        arrays: dict[str, Any] = {"x": x, "frequencies": self._frequencies, "position": self.position}
        self._launch("rope", threads=x.shape[0] // 2, **arrays, heads=heads, head_size=self.config.head_size)

    def _blocks(self, blocks: Any) -> Any:
        # GLSL and WGSL read blocks as words, so the array has words for all kinds.
        return self.device.from_numpy(np.frombuffer(blocks.tobytes(), np.uint32))

    def _launch(self, name: str, *, grid: int | None = None, threads: int | None = None, **arguments: Any) -> None:
        """Prepare a launch with a group for each row (`grid`), or with a thread for each element (`threads`)."""
        if name not in self._functions:
            self._functions[name] = self._kernels[name].on(self.device)
        extent = extent_of(self.device, grid=grid, threads=threads)
        self._launches.append(self._functions[name].bind(**arguments, **extent, stream=self.stream))
