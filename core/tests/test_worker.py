"""`devmod.worker`: processes and their answers, also those of a process that ends early, and the
rules of trials.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked import python

from devmod import worker as processes
from devmod.worker import End, IdleWorkers, Worker, answers
from devmod_runtime import Trial, was_killed


@pytest.mark.parametrize(
    ("value", "enabled"), [(None, True), ("", True), ("1", True), ("0", False), ("False", False)]
)
def test_an_environment_variable_disables_trials(
    value: str | None, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEVMOD_TOY_TRIAL", raising=False)
    if value is not None:
        monkeypatch.setenv("DEVMOD_TOY_TRIAL", value)
    assert Trial("toy", "binary").is_enabled is enabled


def test_a_frozen_program_has_no_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEVMOD_TOY_TRIAL", raising=False)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not Trial("toy", "binary").is_enabled


def test_the_message_of_a_trial_that_failed() -> None:
    assert Trial("toy", "binary").failure("the toy binary", "it took longer than 2 seconds") == (
        "the toy binary was not loaded: devmod builds a new binary in another process first, and it took longer than 2 seconds. "
        "If you trust the binary, set DEVMOD_TOY_TRIAL=0 to build it in this process only"
    )


def test_an_answer_that_the_end_of_the_process_cut_off_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cut.py").write_text(
        "import os\ndef main(request):\n    os.write(1, request['text'].encode())\n    os._exit(0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for text, expected in (('"built"\n{"a": 1}\n"ru', ["built", {"a": 1}]), ("", [])):
        with Worker("cut", {"text": text}) as worker:
            assert worker.all_answers(120) == expected


def test_an_answer_that_is_too_long_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long.py").write_text(
        "from devmod.worker import answer_writer\ndef main(request):\n    answer_writer()('x' * (1 << 20))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with Worker("long", {}) as worker:
        assert worker.answer(120) == "x" * (1 << 20)
    monkeypatch.setattr(processes, "_MAX_ANSWER", 1 << 19)
    with Worker("long", {}) as worker:
        assert (worker.answer(120), worker.end) == (None, "ends with signal 9")


PRINTING = """
import sys
from devmod.worker import answer_writer
def main(request):
    answer = answer_writer()
    for line in sys.stdin:
        print(line.strip().strip('"') * request["times"], flush=True)
        answer(line)
"""


def test_what_a_process_prints_is_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "printing.py").write_text(PRINTING)
    monkeypatch.syspath_prepend(tmp_path)
    with Worker("printing", {"times": 2}, captures=True) as worker:
        for text in ("one", "three", "x"):
            worker.send(text)
            worker.answer(120)
            assert worker.printed == f"{text}{text}\n"
            assert worker.take_printed() == f"{text}{text}\n"
            assert worker.take_printed() == ""
    with Worker("printing", {"times": 3000}, captures=True) as worker:
        worker.send("0123456")
        worker.answer(120)
        assert worker.printed == ("0123456" * 3000 + "\n")[-(2**14) :]
        assert worker.take_printed() == "0123456" * 3000 + "\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no process groups of this form")
def test_a_worker_that_has_ended_kills_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "waiting.py").write_text("import sys\ndef main(request):\n    sys.stdin.read()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with Worker("waiting", {}) as worker:
        worker.kill()
        worker.wait(120)
        with subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
        ) as other:
            worker.process.pid = other.pid  # the system gives the number of an ended process again
            worker.kill()
            worker.__exit__()
            assert other.communicate(b"\n") == (None, None)
        assert other.returncode == 0
    assert worker.process.returncode == -9


def test_idle_processes_are_those_of_a_key_that_are_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "waiting.py").write_text("import sys\ndef main(request):\n    sys.stdin.read()\n")
    monkeypatch.syspath_prepend(tmp_path)
    idle: IdleWorkers[Worker] = IdleWorkers(2)
    first, second, third = (Worker("waiting", {}) for _ in range(3))
    for key, worker in (("a", first), ("b", second), ("a", third)):
        idle.add(worker, key)
    assert third.process.returncode == -9  # there are enough
    second.kill()
    second.process.wait()
    assert [idle.take(key) for key in ("b", "c", "a", "a")] == [None, None, first, None]
    idle.add(first)
    idle.end()
    assert first.process.returncode == -9


IDLE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from devmod.worker import IdleWorkers, Worker
idle = IdleWorkers(2)
worker = Worker("waiting", {})
idle.add(worker, "key")
if os.fork() == 0:
    assert idle.take("key") is None
    os._exit(5 + worker.process.returncode)
_, status = os.wait()
print(os.waitstatus_to_exitcode(status), idle.take("key") is worker, worker.process.poll())
worker.__exit__()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_fork_has_no_idle_processes(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text("import sys\ndef main(request):\n    sys.stdin.read()\n")
    command = [sys.executable, "-c", IDLE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("5 True None\n", "")


def test_a_process_that_ends_late_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python warns of a forgotten one, and warnings are errors here."""
    (tmp_path / "late.py").write_text(
        "import time\nfrom devmod.worker import answer_writer\n"
        "def main(request):\n    answer_writer()(1)\n    time.sleep(600)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with Worker("late", {}) as worker:
        assert worker.answer(120) == 1
        worker.wait(0)
        assert worker.process in processes._ending

        worker.kill()
        worker.wait(120)
        assert worker.process not in processes._ending
    assert worker.process.returncode == -9


def test_a_crash_is_not_a_kill() -> None:
    assert [was_killed(code) for code in (0, 1, -11, -6, -9, -15, -2)] == [
        False,
        False,
        False,
        False,
        True,
        True,
        True,
    ]


ANSWERING = """
import json, os, sys
from devmod.worker import answer_writer
def main(request):
    answer = answer_writer()
    for line in sys.stdin.buffer:
        answer([request["greeting"], json.loads(line), os.read(0, 10).decode()])
"""
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from devmod.worker import Worker
with Worker("answering", {"greeting": "hello"}) as worker:
    for item in (1, "\\ud800"):
        worker.send(item)
        print(ascii(worker.answer()))
"""


@pytest.mark.parametrize("flag", ["-E", "-I"])
def test_a_process_ignores_the_variables_that_this_one_ignores(flag: str, tmp_path: Path) -> None:
    """It answers any number of requests, and its standard input, which compilers may read, is
    empty.
    """
    (tmp_path / "answering.py").write_text(ANSWERING)
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / "json.py").write_text("raise SystemExit('the json.py of PYTHONPATH ran')\n")
    environment = os.environ | {"PYTHONPATH": str(stranger)}
    command = [sys.executable, flag, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("['hello', 1, '']\n['hello', '\\ud800', '']\n", "")


@pytest.mark.skipif(
    not os.path.isdir("/proc"), reason="the state of other processes is read from /proc"
)
def test_the_end_of_a_process_ends_the_programs_that_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "starting.py").write_text(
        "import subprocess\nfrom devmod.worker import answer_writer\n"
        "def main(request):\n    process = subprocess.Popen(['sleep', '1000'])\n    answer_writer()(process.pid)\n    process.wait()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with Worker("starting", {}) as worker:
        status = Path(f"/proc/{worker.answer()}/stat")
        assert status.exists()
    _wait_for_end(status)


#: In a program: a fork that remains until the standard input ends.
FORK = "if os.fork() == 0: sys.stdin.read(); os._exit(0)\n"
#: In a program: two forks of another thread, each while a pipe of the worker is made, or at most
#: half a second later if it must wait.
FORK_BETWEEN = """
def pipe(make=os.pipe):
    ends = make()
    if len(forks) < 2:
        forks.append(threading.Thread(target=exec, args=(FORK, globals())))
        forks[-1].start()
        forks[-1].join(0.5)
    return ends
def start(*arguments, start=subprocess.Popen, **keywords):
    for fork in forks:
        fork.join()  # Python's own pipe in Popen must not be in a fork: it waits for its end
    return start(*arguments, **keywords)
forks = []
os.pipe, subprocess.Popen = pipe, start
"""


@pytest.mark.skipif(
    not os.path.isdir("/proc"), reason="the state of other processes is read from /proc"
)
@pytest.mark.parametrize(
    ("first", "then"),
    [("", ""), ("", FORK), (FORK_BETWEEN, "")],
    ids=["no fork", "a fork", "a fork of another thread at the start"],
)
def test_a_process_whose_item_hangs_ends_with_the_one_that_started_it(
    first: str, then: str, tmp_path: Path
) -> None:
    """Also where a fork of that one remains."""
    (tmp_path / "hanging.py").write_text(
        "import ctypes, os, subprocess\nfrom devmod.worker import answer_items\n"
        "def function(item):\n"
        "    if not item: return [os.getpid(), subprocess.Popen(['sleep', '1000']).pid]\n"
        "    ctypes.PyDLL(None).pause()  # with Python's lock, so that no thread of the process runs\n"
        "def main(request):\n    answer_items(request, function)\n"
    )
    program = (
        f"import os, subprocess, sys, threading; sys.path.insert(0, sys.argv[1]); from devmod.worker import answers\nFORK = {FORK!r}\n{first}\n"
        f"for answer, _ in answers('hanging', [0, 1], None):\n    {then}    print(*answer, flush=True)"
    )
    _kill([sys.executable, "-W", "ignore", "-c", program, str(tmp_path)], 2)


@pytest.mark.skipif(
    not os.path.isdir("/proc"), reason="the state of other processes is read from /proc"
)
def test_a_guarded_program_ends_with_a_process_whose_fork_remains() -> None:
    program = (
        "import os, subprocess, sys; from devmod.worker import guarded_group\n"
        f"with guarded_group() as group:\n    process = subprocess.Popen(['sleep', '1000'], process_group=group)\n    {FORK}"
        "    print(process.pid, group, flush=True)\n    process.wait()"
    )
    _kill([sys.executable, "-c", program], 2)


def _kill(command: list[str], count: int) -> None:
    """Kill a program that prints the numbers of so many processes, and wait for their end."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        states = [Path(f"/proc/{number}/stat") for number in process.stdout.readline().split()]
        assert [each.exists() for each in states] == [True] * count
        process.kill()
        for each in states:
            _wait_for_end(each)


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is a function of Linux")
def test_a_process_that_has_guarded_a_program_leaves_none_behind() -> None:
    """The first process of a container gets what others leave, and few such programs wait for
    it.
    """
    done = python("-c", ADOPTER)
    assert (done.returncode, done.stdout, done.stderr) == (0, "none\n", "")


#: Adopts the processes that a child leaves behind (PR_SET_CHILD_SUBREAPER), and waits for one.
ADOPTER = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
subprocess.run([sys.executable, "-c", "from devmod.worker import guarded_group\\nwith guarded_group(): pass"], check=True)
try:
    print(os.wait())
except ChildProcessError:
    print("none")
"""


def test_each_item_has_an_answer_or_the_end_of_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item may need this process, and a process that has ended is replaced."""
    (tmp_path / "ending.py").write_text(
        "import os, time\nfrom devmod.worker import answer_items\n"
        "def function(item):\n"
        "    if item == 'crash': os.abort()\n"
        "    if item == 'exit': os._exit(3)\n"
        "    if item == 'hang': time.sleep(1000)\n"
        "    return [item, os.getpid()]\n"
        "def main(request):\n    answer_items(request, function)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from ending import function  # type: ignore[import-not-found]

    def answer_or_end(items: list[str], seconds: float) -> list[object]:
        found = answers("ending", items, function, seconds, here=lambda item: item == "here")
        return [
            (answer[0], answer[1] == os.getpid()) if end is None else (end.code, str(end))
            for answer, end in found
        ]

    assert answer_or_end(["a", "crash", "here", "exit", "b"], 120) == [
        ("a", False),
        (-6, "ends the process with signal 6"),
        ("here", True),
        (3, "ends the process with exit status 3"),
        ("b", False),
    ]
    assert answer_or_end(["hang"], 0.5) == [(None, "takes longer than 0.5 s")]
    assert answer_or_end(["hang"], -1) == [(None, "takes longer than -1 s")]
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert answer_or_end(["a", "b"], 120) == [("a", True), ("b", True)]


def test_several_processes_work_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two items wait for each other. The answers are in the order of the items, also
    after the end of a process.
    """
    (tmp_path / "together.py").write_text(
        "import os, pathlib, time\nfrom devmod.worker import answer_items\n"
        "def function(item):\n"
        "    pathlib.Path(f'started {item}').touch()\n"
        "    while item < 2 and not os.path.exists(f'started {1 - item}'): time.sleep(0.01)\n"
        "    if item == 1: os._exit(3)\n"
        "    return [item, os.getpid()]\n"
        "def main(request):\n    answer_items(request, function)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = [
        answer or end
        for answer, end in answers("together", [0, 1, 2, 3, 4], lambda _: None, 120, processes=2)
    ]
    assert [str(each) if isinstance(each, End) else each[0] for each in found] == [
        0,
        "ends the process with exit status 3",
        2,
        3,
        4,
    ]
    assert found[0][1] == found[2][1] == found[4][1] != found[3][1]


def test_what_a_process_prints_is_captured_beside_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "printing.py").write_text(
        "import os\nfrom devmod.worker import answer_writer\n"
        "def main(request):\n"
        "    answer = answer_writer()\n    answer(os.environ['WORD'])\n    answer(os.getcwd())\n    print('x' * 20000 + '!', flush=True)\n    answer(2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with Worker(
        "printing",
        {},
        environment={**os.environ, "WORD": "one"},
        folder=str(tmp_path),
        captures=True,
    ) as worker:
        assert worker.all_answers(120) == ["one", str(tmp_path), 2]
        assert not worker.is_late
        assert worker.printed == "x" * (2**14 - 2) + "!\n"


def _wait_for_end(status: Path) -> None:
    for _ in range(12000):
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    raise AssertionError("the program runs after two minutes")


def test_what_an_item_prints_is_not_lost_when_its_process_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prints.py").write_text(
        "import atexit, time\nfrom devmod.worker import answer_items\n"
        "def main(request):\n    atexit.register(time.sleep, 60)\n    answer_items(request, print)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with Worker("prints", {"items": ["text"]}, captures=True) as worker:
        assert worker.answer(60) is None  # `print` returns None
        worker.kill()
        assert worker.printed == "text\n"
