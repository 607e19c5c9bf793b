"""Check the kernels of the file on a device, decode tokens with a check of each step, and decode
them again without copies.

python run.py [--device opencl:0] [--tokens 48]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import devmod
from transformer import Config, Reference, check_decoding, check_kernels, new_text, random_weights

PROMPT = (1, 5, 25, 125, 625)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--model",
        type=Path,
        default=Path(__file__).with_name("transformer.devmod"),
        help="the file of build_model.py",
    )
    parser.add_argument(
        "--device", help="such as opencl:0 (default: the first that runs the model)"
    )
    parser.add_argument("--tokens", type=int, default=48, help="the number of tokens (default: 48)")
    arguments = parser.parse_args()

    module = devmod.load(arguments.model)
    step = module["step"].on(arguments.device) if arguments.device else module["step"]
    device = step.device
    print(f"{device.kind}:{device.index} {device.name}")
    print(f"{check_kernels(module, device)} kernels agree with NumPy")

    config = Config(context=max(arguments.tokens, len(PROMPT)))
    checked, error = check_decoding(
        step, Reference(config, random_weights(config)), PROMPT, arguments.tokens
    )
    print(
        f"{arguments.tokens} steps agree with NumPy; the largest error of a logit is {error:.1g} of the largest logit"
    )

    text = new_text(step, config, PROMPT)
    launch = step.bind(**text, logits=device.empty(config.vocabulary, "float32"))
    begin = time.perf_counter()
    for _ in range(arguments.tokens):
        launch()
    tokens = text["tokens"].numpy().tolist()  # waits for all steps; it is the only copy
    seconds = time.perf_counter() - begin
    assert tokens == checked, "expected the same tokens without the checks"
    print(f"without the checks, a step takes {1e3 * seconds / arguments.tokens:.2f} ms")
    print("tokens:", *tokens)


if __name__ == "__main__":
    main()
