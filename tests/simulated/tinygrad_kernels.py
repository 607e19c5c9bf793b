"""tinygrad's CUDA device: an addition, a product of matrices, a softmax."""

import numpy as np
from tinygrad import Tensor

a, b = (np.random.default_rng(seed).random((24, 24), np.float32) for seed in (0, 1))
x, y = Tensor(a, device="CUDA"), Tensor(b, device="CUDA")
e = np.exp(a - a.max(1, keepdims=True))
print("add", np.array_equal((x + y).numpy(), a + b))
print("matmul", np.allclose((x @ y).numpy(), a @ b, rtol=1e-4))
print("softmax", np.allclose(x.softmax().numpy(), e / e.sum(1, keepdims=True), rtol=1e-4))
