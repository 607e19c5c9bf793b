"""`devmod.doctor`: what of devmod is installed and works here, and the next step for each gap."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from devmod._plugins import hooks, registry
from devmod._plugins.devices import GROUP, probe
from devmod._plugins.miss import WORDS
from devmod._util.cache_folder import make_folder
from devmod.backend import cache_dir, escape_line, folder_problem
from devmod.errors import (
    ArgumentError,
    DeviceNotFoundError,
    DevmodError,
    NotRegisteredError,
    PluginError,
    count_text,
    describe_error,
    did_you_mean,
    pip_install,
)
from devmod.plugins import CORE, lookup
from devmod.targets import KINDS, PROGRAM
from devmod.worker import End, answer_items, answers

#: What `Check.state` can be, the worst last.
STATES = ("ok", "not installed", "no device", "problem")
#: The wheel of the compilers, and the wheels that need core in their own version.
_COMPILERS = "devmod-targets"
_WHEELS = ("devmod-runtime", _COMPILERS, "devmod-models", "devmod-conformance")
#: The state of a part whose plugin raises an error of a class. For other classes it is "problem".
_FAILURES = ((NotRegisteredError, "not installed"), (DeviceNotFoundError, "no device"))
_OTHER_FOLDER = "To use another folder: export DEVMOD_CACHE_DIR=$(mktemp -d)"
#: The last line of a machine that only compiles.
_NO_RUNTIME = (
    "No runtime is installed: files can be compiled and inspected here, and no function runs. "
    f"To add one, that of OpenCL with a device on the processor: {pip_install('devmod[opencl,pocl]')}"
)


class Check(NamedTuple):
    """One thing that was checked.

    Attributes
    ----------
    kind
        The kind of backend, or "devmod".
    part
        "runtime", "devices", "kernel" (a small one on each device), "driver" (its libraries, with
        each place where they were looked for) or "compiler" of a kind, "hook" for a plugin's check
        that failed, or another word of a plugin's; "versions" or "caches" of devmod.
    state
        "ok", "not installed", "no device" or "problem".
    text
        What was found. Unless the state is "ok", also the next step, such as the command that
        installs it.
    """

    kind: str
    part: str
    state: str
    text: str


class Report:
    """The result of `devmod.doctor`. Its text has a line for each kind, and below it what does not
    work.

    Attributes
    ----------
    checks
        Everything that was checked, in order.
    """

    def __init__(self, checks: Sequence[Check]) -> None:
        self.checks = tuple(checks)

    @property
    def problems(self) -> tuple[Check, ...]:
        """The checks of what is installed and does not work: those with the state "problem" or "no
        device".
        """
        return tuple(each for each in self.checks if each.state in STATES[2:])

    @property
    def _has_runtime(self) -> bool:
        """Whether a runtime is installed, or none was looked for."""
        states = {each.state for each in self.checks if each.part == "runtime"}
        return states != {"not installed"}

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {"checks": [each._asdict() for each in self.checks], "problems": len(self.problems)}

    def __str__(self) -> str:
        kinds: dict[str, list[Check]] = {}
        for each in self.checks:
            kinds.setdefault(each.kind, []).append(each)
        width = max(map(len, kinds), default=0)
        lines = []
        for kind, checks in kinds.items():
            good = "; ".join(each.text for each in checks if each.state == "ok")
            lines.append(f"{kind:<{width}}  {_state_of(kind, checks):<13}  {good}".rstrip())
            for each in checks:
                if each.state != "ok":
                    lines.append(f"{'':<{width}}    {each.part}: {each.text}")
        count = len(self.problems)
        if count:
            lines.append(f"{count_text(count, 'problem')}.")
        elif self._has_runtime:
            lines.append("No problems.")
        else:
            lines.append(_NO_RUNTIME)
        return "\n".join(map(escape_line, lines))

    __repr__ = __str__


def _state_of(kind: str, checks: Sequence[Check]) -> str:
    """Return the worst state of a kind's checks."""
    state = max((each.state for each in checks), key=STATES.index)
    has_devices = any(each.part == "devices" and each.state == "ok" for each in checks)
    if kind in KINDS and has_devices and state == "not installed":
        return "ok"  # it runs here; a machine that only runs needs no compiler
    return state


# Where to change: a check of `devmod doctor`
#   here: `doctor` for one of the installation; the `_doctor.py` of a kind's runtime for its driver;
#     `compilers/targets/src/devmod_targets/doctor.py` for compilers
#   tests: `workbench/tests/test_doctor.py`, `tests/test_doctor_drivers.py`
def doctor(kinds: Iterable[str] = (), *, timeout: float = 60) -> Report:
    """Check devmod's installation: versions, caches, and for each kind the runtime, the driver with
    its devices, and the compiler.

    Plugins and drivers run in another process, where one that crashes or hangs is a problem in the
    report. Plugins take part by the hook ``devmod_doctor``.

    Parameters
    ----------
    kinds
        The kinds to check, or one. A runtime of theirs that is not installed is a problem. Versions
        and caches are then in the report only if they have a problem. Default: all known kinds.
    timeout
        The limit in seconds for the devices of one kind, and for the plugins' checks of it.

    Raises
    ------
    ArgumentError
        A kind is unknown.
    """
    if isinstance(kinds, str) and kinds:
        kinds = [kinds]
    wanted = _wanted(kinds)
    checks = []
    for check in (_versions(), _caches()):
        if not kinds or check.state != "ok":
            checks.append(check)
    in_process = registry.local_kinds()
    steps: list[tuple[str, ...]] = []
    local = set()
    for kind in wanted:
        steps.append(("devices", kind))
        for claim, _ in hooks.callers("devmod_doctor", kind):
            hook = ("hook", kind, claim.name, claim.provider)
            steps.append(hook)
            if claim.object is not None:
                local.add(hook)
        steps.append(("kernel", kind))
    results = answers(
        __name__, steps, _check, timeout, here=lambda step: step[1] in in_process or step in local
    )
    for step, (answer, end) in zip(steps, results, strict=True):
        if end is None:
            checks += [Check(*row) for row in answer]
        else:
            checks.append(_crash(*step, end=end))
    if kinds:
        checks = list(map(_of_named_kind, checks))
    return Report(checks)


def _wanted(kinds: Iterable[str]) -> list[str]:
    """Return the kinds to check: all known ones without a name."""
    others = {*registry.registered("devmod.targets"), *registry.registered(GROUP)} - {PROGRAM}
    known = list(dict.fromkeys([*KINDS, *sorted(others)]))
    wanted = list(dict.fromkeys(kinds))
    for kind in wanted:
        if kind not in known:
            nearest = did_you_mean(str(kind), known) or "."
            word, _, _ = str(kind).lower().partition(":")
            if word in WORDS:
                nearest = f", since {word} is {WORDS[word]}."
            raise ArgumentError(
                f"doctor: no installed distribution has the kind {kind!r}{nearest} The kinds: {', '.join(known)}",
                argument="kinds",
            )
    return wanted or known


def _of_named_kind(check: Check) -> Check:
    """Return the check of a kind that the caller named: its runtime must be installed."""
    if (check.part, check.state) == ("runtime", "not installed"):
        return check._replace(state="problem")
    return check


def main(request: dict[str, Any]) -> None:
    """Run in the new process: answer with the checks of each step and kind."""
    answer_items(request, _check)


def _check(step: Sequence[str]) -> list[Check]:
    """Return what is checked of a kind in the new process. A crash of one step loses its checks
    alone.
    """
    if step[0] == "devices":
        return _check_devices(step[1])
    if step[0] == "kernel":
        return _check_kernel(step[1])
    return _check_hook(*step[1:])


def _check_devices(kind: str) -> list[Check]:
    """Return the checks of a kind's runtime and devices. It imports the plugin and opens the
    driver, and raises nothing.
    """
    checks = []
    part = "runtime"
    try:
        lookup("devmod.create", kind)
        claim = registry.used_claim("devmod.create", kind)
        provider = claim.provider
        if not claim.distribution:
            provider = f"registered {provider}"
        checks.append(Check(kind, part, "ok", provider))
        part = "devices"
        if registry.is_claimed(GROUP, kind):
            devices = probe(kind)
            names = ", ".join(
                f"{each.name} (driver {each.driver_version or 'unknown'})" for each in devices
            )
            if devices:
                checks.append(Check(kind, part, "ok", names))
            else:
                checks.append(Check(kind, part, "no device", "the driver lists none"))
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything when it is imported, and a driver
        checks.append(_failure(kind, part, error))
    return checks


def _check_kernel(kind: str) -> list[Check]:
    """Return whether a small kernel runs on each device of the kind. It raises nothing."""
    try:
        from devmod_workbench._tools.device_checks import kernel_rows

        return [Check(kind, *row) for row in kernel_rows(kind)]
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
        return [_failure(kind, "kernel", error)]


def _check_hook(kind: str, name: str, provider: str) -> list[Check]:
    """Return the checks of a kind by the hook of one plugin. It raises nothing."""
    checks = []
    subject = "devmod_doctor"
    try:
        callers = hooks.callers("devmod_doctor", kind)
        own = (name, provider)
        claim, call = next(each for each in callers if (each[0].name, each[0].provider) == own)
        subject += f" of {provider}" if claim.distribution else f" {provider}"
        for row in call() or ():
            checks.append(_check_of_row(kind, row))
    except BaseException as error:  # noqa: BLE001 - as above, for hooks
        failure = _failure(kind, "hook", error)
        if not isinstance(error, PluginError):  # a PluginError names the distribution
            failure = failure._replace(text=f"{subject}: {failure.text}")
        checks.append(failure)
    return checks


def _check_of_row(kind: str, row: Any) -> Check:
    """Return the check of a row that a hook has returned."""
    is_row = isinstance(row, (tuple, list)) and len(row) == 3
    if not is_row or not all(isinstance(each, str) for each in row):
        raise DevmodError(
            f"it returned the row {repr(row)[:80]}; expected (part, state, text), each a str"
        )
    if row[1] not in STATES:
        raise DevmodError(
            f"it returned the state {row[1]!r}; a state is one of {', '.join(STATES)}"
        )
    return Check(kind, *row)


def _crash(step: str, kind: str, _: str = "", provider: str = "", *, end: End) -> Check:
    """Return the check of a step that ended its process, or took too long."""
    if step == "devices":
        command = f'{os.path.basename(sys.executable)} -X faulthandler -c "import devmod; devmod.device({kind!r})"'
        return Check(kind, step, "problem", f"listing them {end}. To see where: {command}")
    if step == "kernel":
        return Check(kind, step, "problem", f"running a small kernel {end}")
    advice = "DEVMOD_PLUGINS_DENY with the name of its distribution excludes it"
    return Check(kind, step, "problem", f"devmod_doctor of {provider} {end}. {advice}")


def _failure(kind: str, part: str, error: BaseException) -> Check:
    """Return the check of a part whose plugin raised an error."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    state = "problem"
    for family, name in _FAILURES:
        if isinstance(error, family):
            state = name
            break
    if isinstance(error, DevmodError):
        text = str(error)
    else:
        text = describe_error(error)
    return Check(kind, part, state, text.partition(" is not registered: ")[2] or text)


def _versions() -> Check:
    """Check that the wheels of devmod have one version."""
    import importlib.metadata
    import platform

    from devmod import __version__

    others = {}
    for name in _WHEELS:
        with suppress(importlib.metadata.PackageNotFoundError):
            others[name] = importlib.metadata.version(name)
    wrong = {name: version for name, version in others.items() if version != __version__}
    if wrong:
        found = ", ".join(f"{name} is {version}" for name, version in wrong.items())
        text = f"{CORE} is {__version__}, and {found}; they need one version. To mend it: {pip_install('--upgrade', CORE, *wrong)}"
        return Check("devmod", "versions", "problem", text)
    text = f"{CORE} {__version__}, Python {platform.python_version()}, {sys.platform} {platform.machine()}"
    if _COMPILERS not in others:
        text += f"; no compilers, which a machine that only runs does not need. To add them: {pip_install(f'{CORE}[build]')}"
    return Check("devmod", "versions", "ok", text)


def _caches() -> Check:
    """Check that the cache folder can be written, and that no other user can write to it."""
    folder = cache_dir()
    if not folder:
        return Check(
            "devmod", "caches", "problem", f"this user has no home folder. {_OTHER_FOLDER}"
        )
    try:
        make_folder(folder)
        problem = folder_problem(folder)
        if not problem:
            with TemporaryFile(dir=folder) as file:
                file.write(bytes(1 << 12))  # a full disk makes empty files
    except OSError as error:
        problem = str(error)
    if problem:
        text = f"{folder!r} is not used, so every process reads and compiles again: {problem}. {_OTHER_FOLDER}"
        return Check("devmod", "caches", "problem", text)
    return Check("devmod", "caches", "ok", f"caches in {folder}")
