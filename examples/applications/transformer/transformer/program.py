"""The model of a file: the weights, and the program of a step, which calls the program `layer` of
devmod.toml for each layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import devmod

from .model import BLOCK, Config


def add_model(
    kernels: devmod.Module,
    config: Config,
    weights: dict[str, np.ndarray[Any, Any]],
    *,
    has_state: bool = True,
) -> devmod.Module:
    """Return the kernels with the weights and the program `step`.

    A call puts the token at the position into the caches, writes the next one behind the prompt,
    and moves the position on. Without `has_state` each call gets the caches: an operation of
    PyTorch keeps no state.
    """
    # GLSL and WGSL read blocks as words, so these arrays have words for all kinds.
    words = {
        name: np.frombuffer(array.tobytes(), np.uint32)
        for name, array in weights.items()
        if array.dtype == BLOCK
    }
    arrays = {**weights, **words, "frequencies": config.frequencies}
    sizes: dict[str, Any] = {"size": config.size, "epsilon": config.epsilon}
    at: dict[str, Any] = {"position": "position"}

    steps = [
        devmod.step(
            "embed",
            table="table",
            tokens="tokens",
            x="x",
            size=config.size,
            threads=config.size,
            **at,
        )
    ]
    caches = []
    for number in range(config.layers):
        own = {
            name.removesuffix(f"_{number}"): name for name in weights if name.endswith(f"_{number}")
        }
        own |= {name: f"{name}_{number}" for name in ("keys", "values")}
        caches += [
            f"{own[name]}: float32[context, {config.kv_size}]" for name in ("keys", "values")
        ]
        heads = {
            "heads": config.heads,
            "kv_heads": config.kv_heads,
            "hidden": config.hidden,
            "epsilon": config.epsilon,
        }
        steps.append(devmod.step("layer", x="x", frequencies="frequencies", **at, **own, **heads))
    steps.append(devmod.step("rms_norm", x="x", weight="norm", y="y", grid=1, **sizes))
    # Vulkan and WebGPU may take no larger grid; each group then works on several rows.
    rows = {
        "rows": config.vocabulary,
        "columns": config.size,
        "grid": min(config.vocabulary, 65535),
    }
    steps.append(devmod.step("matvec_q4_0", weights="head", x="y", y="logits", **rows))
    last = {"size": config.vocabulary, "prompt": "prompt", "context": "context", "grid": 1}
    steps.append(devmod.step("next_token", logits="logits", tokens="tokens", **at, **last))
    return devmod.program(
        "step",
        devmod.bundle(kernels, devmod.const_loader(arrays, {}), mixed=True),
        inputs=["prompt: int32"],
        updates=["tokens: int32[context]", "position: int32[1]", *([] if has_state else caches)],
        states=[f"{each} = 0" for each in caches] if has_state else [],
        outputs=[f"logits: float32[{config.vocabulary}]"],
        temporaries=[f"x: float32[{config.size}]", f"y: float32[{config.size}]"],
        constants=[f"{name}: {array.dtype}[{len(array)}]" for name, array in arrays.items()],
        steps=steps,
    )


def new_text(step: Any, config: Config, prompt: tuple[int, ...]) -> dict[str, Any]:
    """Return the arguments of the program `step`: the prompt, the position at its first token, and
    empty caches.
    """
    device = step.device
    tokens = np.zeros(config.context, np.int32)
    tokens[: len(prompt)] = prompt
    position = device.zeros(1, "int32")
    return {
        "prompt": len(prompt),
        "tokens": device.from_numpy(tokens),
        "position": position,
        "state": step.state(context=config.context),
    }
