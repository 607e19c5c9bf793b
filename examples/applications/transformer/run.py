"""Check the kernels on a device, decode tokens with a check of each step, and decode them again without copies.

python run.py [--device opencl:0] [--tokens 48]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import devmod
from transformer import Config, Decoder, Reference, Weights, check_decoding, check_kernels

PROMPT = (1, 5, 25, 125, 625)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kernels", type=Path, default=Path(__file__).with_name("transformer.devmod"), help="the file of devmod build")
    parser.add_argument("--device", help="such as opencl:0 (default: the first device that the file has kernels for)")
    parser.add_argument("--tokens", type=int, default=48, help="the number of tokens (default: 48)")
    arguments = parser.parse_args()

    kernels = devmod.load(arguments.kernels)
    kinds = {module.kind for module in kernels.imports or (kernels,)}  # a file with one module is that module
    devices = [devmod.device(arguments.device)] if arguments.device else [each for each in devmod.devices() if each.kind in kinds]
    if not devices:
        raise SystemExit("the file has no kernels for a device of this machine; devmod devices lists them")
    device = devices[0]
    print(f"{device.kind}:{device.index} {device.name}")
    print(f"{check_kernels(kernels, device)} kernels agree with NumPy")

    config = Config(context=max(arguments.tokens, len(PROMPT)))
    weights = Weights.random(config)
    decoder = Decoder(kernels, device, config, weights, PROMPT)
    error = check_decoding(decoder, Reference(config, weights), arguments.tokens)
    print(f"{arguments.tokens} steps agree with NumPy; the largest error of a logit is {error:.1g} of the largest logit")

    checked = decoder.tokens.numpy()
    decoder.restart()
    begin = time.perf_counter()
    for _ in range(arguments.tokens):
        decoder.step()
    tokens = decoder.tokens.numpy()  # waits for all steps; it is the only copy
    seconds = time.perf_counter() - begin
    assert (tokens == checked).all(), "expected the same tokens without the checks"
    print(f"without the checks, a step takes {1e3 * seconds / arguments.tokens:.2f} ms")
    print("tokens:", *tokens)


if __name__ == "__main__":
    main()
