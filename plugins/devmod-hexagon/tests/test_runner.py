"""The runner: its end, its replies, and its program."""

from __future__ import annotations

import os
import signal
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from backend_checks import make_arrays, run_python
from hexagon_kernels import module, new_module

import devmod

HERE = Path(__file__).resolve().parent
PRELUDE = f"import sys; sys.path.insert(0, {str(HERE)!r})\nimport devmod, numpy as np\nfrom hexagon_kernels import new_module, module\n"


def pid_of(device: Any) -> int:
    pid: int = device.runner()._transport._process.pid
    return pid


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def wait_for_end(pid: int) -> None:
    end = time.monotonic() + 120
    while is_running(pid):
        assert time.monotonic() < end, "the runner still runs"
        time.sleep(0.05)


def test_a_killed_runner_is_replaced(device: Any) -> None:
    arrays = make_arrays(device)
    add = module()["add"]
    device.synchronize()
    pid = pid_of(device)
    os.kill(pid, signal.SIGKILL)
    wait_for_end(pid)

    def call() -> (
        None
    ):  # the kernel of the host may close the pipes after the process counts as ended: the wait then raises
        add(*arrays, 64)
        device.synchronize()

    with pytest.raises(
        devmod.LaunchError, match=r"its runner has ended \(it was killed by SIGKILL\)"
    ):
        call()
    x = np.ones(4, "float32")
    out = np.zeros(4, "float32")
    module()["add"](x, x, out, 4)
    assert out.tolist() == [2, 2, 2, 2]


def test_the_runner_ends_after_its_process(device: Any) -> None:
    program = PRELUDE + "module()['add'](*(np.zeros(1, 'float32') for _ in range(3)), 1)\n"
    print_pid = "print(devmod.device('hexagon').runner()._transport._process.pid, flush=True)\n"
    pid = int(run_python(program + print_pid))
    wait_for_end(pid)


@pytest.mark.parametrize(
    "fork",
    ["", "if os.fork() == 0: os._exit(len(sys.stdin.read()))\n"],
    ids=["no fork", "a fork that stays"],
)
def test_the_runner_ends_after_its_process_is_killed_in_a_call(fork: str, device: Any) -> None:
    """Also where a fork remains, which has the ends of the runner's pipes too."""
    program = PRELUDE + (
        "import os\n"
        "spin = module()['spin'].bind(devmod.device('hexagon').zeros(1, 'int32'))\nspin()\n"
        "print(devmod.device('hexagon').runner()._transport._process.pid, flush=True)\ndevmod.device('hexagon').synchronize()\n"
    ).replace("print(", f"{fork}print(")
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
        wait_for_end(pid)


def test_requests_before_the_end_of_the_input_are_answered(device: Any) -> None:
    from devmod_hexagon import _emulator

    arena = os.memfd_create("arena")
    os.ftruncate(arena, 1 << 20)
    command = [
        _emulator.find_emulator(),
        "-cpu",
        device.arch,
        _emulator.RUNNER,
        str(1 << 20),
        str(arena),
    ]
    requests = [msgpack.packb(["clock", number]) for number in range(1, 200)]
    sent = b"".join(struct.pack("<I", len(request)) + request for request in requests)
    for _ in range(5):
        replies = subprocess.run(
            command, input=sent, stdout=subprocess.PIPE, check=True, pass_fds=[arena]
        ).stdout
        numbers = []
        while replies:
            end = 4 + struct.unpack("<I", replies[:4])[0]
            numbers.append(msgpack.unpackb(replies[4:end])[0])
            replies = replies[end:]
        assert numbers == list(range(1, 200))
    os.close(arena)


def test_a_finalizer_at_the_exit_of_the_interpreter_gets_an_error(device: Any) -> None:
    program = PRELUDE + (
        "class User:\n    def __init__(self):\n        self.function, self.me = module()['count_calls'], self\n"
        "    def __del__(self, print=print, error=devmod.LaunchError):\n"
        "        try:\n            self.function()\n        except error as raised:\n"
        "            print(raised)\nuser = User()\ndevmod.device('hexagon').zeros(1, 'int32')"
    )
    assert run_python(program) == f"{device} is closed: the interpreter is shutting down\n"


def test_a_runner_started_in_a_thread_outlives_the_thread(device: Any) -> None:
    program = PRELUDE + (
        "import threading, time\ndevice = devmod.device('hexagon')\n"
        "thread = threading.Thread(target=device.runner)\nthread.start()\nthread.join()\n"
        "x = device.zeros(4, 'float32')\ntime.sleep(1.5)\nmodule()['add'](x, x, x, 4)\nprint(x.numpy())"
    )
    assert run_python(program) == "[0. 0. 0. 0.]\n"


def errors_of(*environments: dict[str, str]) -> list[str]:
    """Return the error of a device with each environment. One process forks for all: its imports
    would take most of the time.
    """
    program = (
        f"import os, devmod, devmod_hexagon._device, devmod_hexagon._runner\nfor environment in {environments!r}:\n"
        "    child = os.fork()\n    if not child:\n        os.environ.update(environment)\n        try:\n"
        "            devmod.device('hexagon').zeros(1, 'int32')\n        except devmod.DeviceNotFoundError as error:\n"
        "            print(error, flush=True)\n        os._exit(0)\n    os.waitpid(child, 0)"
    )
    return run_python(program).splitlines()


INVALID_REPLIES = {
    "nothing": ("pass", "its runner has ended (it ended with exit status 0)"),
    "no msgpack": ("out(b'\\xc1')", "its runner sent bytes that are not a reply"),
    "another number": (
        "out(b'\\x96\\x07\\x00\\x01\\x00\\x00\\x01')",
        "its runner replied to request 7, expected 1",
    ),
    "a long frame": (
        "sys.stdout.buffer.write(b'\\xff\\xff\\xff\\x7f'); flush()",
        "its runner sent a frame of 2147483647 bytes, expected 1 to 16777216",
    ),
    "half a frame": (
        "sys.stdout.buffer.write(b'\\x08\\x00\\x00\\x00\\x96'); flush()",
        "its runner has ended (it ended with exit status 0)",
    ),
    "other values": (
        "out(b'\\x93\\x01\\x00\\xa1x')",
        "the runner replied ['x'] to the first request",
    ),
    "an error that ends the runner": (
        "out(b'\\x94\\x00\\x01\\xa6memory\\xa3why')",
        "its runner has ended: why",
    ),
    "a refusal": ("out(b'\\x94\\x01\\x01\\xa1x\\xa3why')", "the runner refused the first request"),
}


def test_a_program_with_invalid_replies_is_not_a_device(device: Any, tmp_path: Path) -> None:
    for name, (code, _) in INVALID_REPLIES.items():
        emulator = tmp_path / name
        emulator.write_text(
            f"#!{sys.executable} -IS\nimport struct, sys\nflush = sys.stdout.buffer.flush\n"
            "def out(data):\n    sys.stdout.buffer.write(struct.pack('<I', len(data)) + data)\n    flush()\n"
            f"sys.stdin.buffer.read(4)\n{code}\n"
        )
        emulator.chmod(emulator.stat().st_mode | stat.S_IXUSR)
    printed = errors_of(
        *(
            {"DEVMOD_HEXAGON_QEMU": str(tmp_path / name), "DEVMOD_HEXAGON_ARCH": "v66"}
            for name in INVALID_REPLIES
        )
    )
    assert printed == [
        f"hexagon device 0 (v66 in qemu-hexagon) cannot be used: {reason}"
        for _, reason in INVALID_REPLIES.values()
    ]


FALSE_RUNNER = """
import msgpack, struct, sys
REPLIES = {"hello": [4096], "load": [5], "symbol": [77]}
while head := sys.stdin.buffer.read(4):
    name, number, *_ = msgpack.unpackb(sys.stdin.buffer.read(struct.unpack("<I", head)[0]))
    data = msgpack.packb([number, 0, *REPLIES[name]])
    sys.stdout.buffer.write(struct.pack("<I", len(data)) + data)
    sys.stdout.buffer.flush()
"""


def test_a_reply_with_too_few_values_ends_the_runner(device: Any, tmp_path: Path) -> None:
    emulator = tmp_path / "emulator"
    emulator.write_text(f"#!{sys.executable}\n{FALSE_RUNNER}")
    emulator.chmod(emulator.stat().st_mode | stat.S_IXUSR)
    program = PRELUDE + (
        "device = devmod.device('hexagon')\ntry:\n    new_module()['count_calls']()\nexcept devmod.LaunchError as error:\n    print(error)\n"
    )
    printed = run_python(program, DEVMOD_HEXAGON_QEMU=str(emulator), DEVMOD_HEXAGON_ARCH="v66")
    assert printed == (
        "hexagon device 0 (v66 in qemu-hexagon): not enough values to unpack (expected 2, got 1). The next call starts a new runner; arrays "
        "of the old one are lost\n"
    )


INVALID_SETTINGS: list[tuple[dict[str, str], str]] = [
    (
        {"PATH": "/nowhere"},
        "no Hexagon device was found: qemu-hexagon is not in PATH. Install it (Debian and Ubuntu: apt install qemu-user), or name "
        "it in DEVMOD_HEXAGON_QEMU",
    ),
    (
        {"DEVMOD_HEXAGON_QEMU": "/nowhere/qemu"},
        "no Hexagon device was found: DEVMOD_HEXAGON_QEMU is '/nowhere/qemu', which is not a program. Install it (Debian and Ubuntu: "
        "apt install qemu-user), or name it in DEVMOD_HEXAGON_QEMU",
    ),
    (
        {"DEVMOD_HEXAGON_ARCH": "68"},
        "DEVMOD_HEXAGON_ARCH is '68': expected an architecture such as 'v66'",
    ),
    (
        {"DEVMOD_HEXAGON_DEVICES": "0"},
        "DEVMOD_HEXAGON_DEVICES is '0': expected a number of devices from 1 to 64",
    ),
    (
        {"DEVMOD_HEXAGON_MEMORY": "1G"},
        "DEVMOD_HEXAGON_MEMORY is '1G': expected a number of bytes from 65536 to 2147483648",
    ),
]


def test_an_invalid_setting_raises_an_error_that_names_it() -> None:
    assert errors_of(*(environment for environment, _ in INVALID_SETTINGS)) == [
        text for _, text in INVALID_SETTINGS
    ]


def test_the_runner_is_built_from_its_sources() -> None:
    sys.path.insert(0, str(HERE.parents[2] / "tools"))
    try:
        import hexagon_runner
    finally:
        sys.path.pop(0)
    assert hexagon_runner.DIGEST.read_text().strip() == hexagon_runner.digest(), (
        "the sources have changed: make hexagon-runner"
    )


def test_importing_the_distribution_starts_nothing() -> None:
    program = "import sys, devmod_hexagon; print([name for name in sys.modules if name.startswith('devmod_hexagon.') or name == 'subprocess'])"
    assert run_python(program) == "[]\n"
    assert new_module().kind == "hexagon"
