"""What only ROCm's arrays have; plugins/driver-api/tests has the tests of arrays and of
other libraries' arrays.
"""

from __future__ import annotations

from typing import Any

import pytest
from each_case import refusal


@pytest.mark.parametrize("stream", [1, 2, -2, "0", 0.0, True])
def test_a_stream_that_dlpack_does_not_have(device: Any, stream: Any) -> None:
    """DLPack gives 1 and 2 no meaning on ROCm."""
    assert refusal(BufferError, device.zeros(64, "float32").__dlpack__, stream=stream) == (
        f"stream={stream!r} is no stream of HIP in DLPack: expected None or 0 (the default stream), the handle of a stream, or -1 for no order"
    )
