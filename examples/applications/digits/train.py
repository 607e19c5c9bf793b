"""Train the classifier with tinygrad, and write digits.devmod and the pictures of the test (`make
digits`).

It needs ``devmod-core[build,tinygrad]`` and scikit-learn, whose wheel has the pictures, and no
device. Another processor may give other weights in their last bits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from tinygrad import Context, Tensor, TinyJit, Variable, dtypes, nn

import devmod
from devmod.interop import tinygrad

FOLDER = Path(__file__).parent
TARGETS = ("opencl", "webgpu", "cuda -arch=compute_80", "rocm -arch=gfx1100", "metal")
#: The pictures of the test, which the training does not see; the steps of the training, and the
#: pictures of each.
TEST, STEPS, BATCH = 360, 600, 64


class Model:
    """Two convolutions and a linear layer, for pictures of 8 × 8 pixels with values from 0 to
    16.
    """

    def __init__(self) -> None:
        self.first, self.second, self.last = (
            nn.Conv2d(1, 16, 3, padding=1),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.Linear(512, 10),
        )

    def __call__(self, pictures: Tensor) -> Tensor:
        x = (pictures.cast(dtypes.float) / 16).reshape(-1, 1, 8, 8)
        x = self.second(self.first(x).relu()).relu().max_pool2d(2)
        return self.last(x.flatten(1))


def train(pictures: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> Model:
    """Return a trained model."""
    Tensor.manual_seed(1)
    model, numbers = Model(), np.random.default_rng(1)
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=2e-3)

    @TinyJit
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimizer.schedule_step())

    with Context(TRAINING=1):
        for number in range(STEPS):
            chosen = numbers.integers(0, len(labels), BATCH)
            loss = step(Tensor(pictures[chosen]), Tensor(labels[chosen]))
            if number % 100 == 99:
                print(f"step {number + 1}: loss {loss.item():.4f}")
    return model


def main() -> None:
    data = load_digits()
    pictures, labels = data.images.astype(np.uint8), data.target.astype(np.int32)
    with tinygrad.cpu():
        model = train(pictures[TEST:], labels[TEST:])
        count = Variable("count", 1, 400)

        def classify(pictures: Tensor) -> dict[str, Tensor]:
            scores = model(pictures)
            return {"digit": scores.argmax(1).cast(dtypes.int32), "score": scores.softmax()}

        tests = Tensor(np.resize(pictures[:TEST], (400, 8, 8)))
        module = tinygrad.export(classify, tests[: count.bind(3)], targets=TARGETS, name="classify")
    devmod.save(module, FOLDER / "digits.devmod")
    np.savez_compressed(FOLDER / "test.npz", pictures=pictures[:TEST], labels=labels[:TEST])
    print(f"digits.devmod: {(FOLDER / 'digits.devmod').stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
