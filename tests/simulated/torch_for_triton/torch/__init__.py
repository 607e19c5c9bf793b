"""What Triton 3.6 to 3.8 asks of PyTorch before a launch."""

from types import SimpleNamespace


class Tensor:
    """A class whose instances no test has."""


version = SimpleNamespace(hip=None)
cuda = SimpleNamespace(
    is_available=lambda: True,
    current_device=lambda: 0,
    set_device=lambda device: None,
    get_device_capability=lambda device=0: (9, 0),
)
