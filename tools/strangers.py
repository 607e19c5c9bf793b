"""Run README's two commands on machines that have nothing of this one: bare Debian systems, each in
a folder under build/strangers, made anew and deleted afterwards.

    python3 tools/strangers.py [--keep] [--do COMMAND] SUITE [SUITE ...]

It needs root, and debootstrap, which it installs with apt. All mounts are in a namespace of the
run's own, so none is left, however the run ends. Standard library only.

The exit code is 0, 1 if a command failed, or 3 where such systems cannot be made.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from environments import ROOT, InstallError
from system import Need, last_line, may_install, report
from system import install as apt_install
from vendor_runtimes import find_archives

PLACE = ROOT / "build" / "strangers"
#: What a bare system has beyond Debian's smallest.
PACKAGES = ("ca-certificates", "python3", "python3-venv", "gcc", "libc6-dev", "make", "git")
CANNOT = 3
#: One download of some hundred may fail. A second run of debootstrap keeps the others.
ATTEMPTS = 3
#: The certificates of this machine, in such a system.
CERTIFICATES = "/etc/ssl/machine-certificates.crt"
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
#: Files by which this machine reaches the registries of packages.
OF_THE_SYSTEM = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/pip.conf",
    "/etc/xdg/pip",
    "/etc/npmrc",
)
OF_THE_HOME = (".config/pip", ".pip", ".npmrc")
#: The folder of pyenv, which the systems have, too.
_PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
#: The caches that a system of the same user shares with this machine.
CACHES = (".cache/pip", ".cache/uv")


class Visit(NamedTuple):
    """A user who clones the project and runs a command in the clone.

    Attributes
    ----------
    packages
        What is installed before.
    later
        A later suite that has the packages.
    pythons
        Versions of Python that the system borrows of this machine's pyenv.
    beside
        Folders beside this tree that are beside the clone, too, if they exist.
    """

    user: str
    command: str
    packages: tuple[str, ...] = ()
    later: str = ""
    pythons: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


#: The visits of each suite. One has the emulator of RDNA3, which no clone has. Another has more
#: Pythons: one of a later suite, and one of pyenv.
VISITS = {
    "bookworm": (Visit("root", "make demo && make test", beside=("shared/emulators",)),),
    "trixie": (
        Visit(
            "person",
            "make demo && make test-setup && .venv/bin/python -m pytest --collect-only -qq",
        ),
        Visit("person", "make demo && make test", packages=("sudo",)),
        Visit(
            "root",
            "make pythons",
            packages=("python3.14", "python3.14-venv"),
            later="forky",
            pythons=("3.12",),
        ),
    ),
}


def main() -> int:
    """Visit the named suites, one after another; return the exit code."""
    parser = argparse.ArgumentParser(
        description="Run README's two commands on bare Debian systems."
    )
    parser.add_argument(
        "suites", nargs="+", choices=VISITS, metavar="SUITE", help=", ".join(VISITS)
    )
    parser.add_argument("--do", metavar="COMMAND", help="run this in the clone, as root")
    parser.add_argument("--keep", action="store_true", help="do not delete the systems")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return visit_all(options.suites[0], options.do)
    reason = obstacle()
    if reason:
        report(f"bare systems cannot be made here: {reason}")
        return CANNOT
    failed = []
    for suite in options.suites:
        start = time.monotonic()
        command = [sys.executable, __file__, "--inside", suite]
        if options.do:
            command += ["--do", options.do]
        if run_apart(command):
            failed.append(suite)
        if not options.keep:
            delete(PLACE / suite)
        print(f"== {suite}: {(time.monotonic() - start) / 60:.1f} minutes", flush=True)
    if failed:
        print(f"== failed: {', '.join(failed)}", flush=True)
    return bool(failed)


def obstacle() -> str:
    """Return why bare systems cannot be made here, or ""."""
    if not sys.platform.startswith("linux"):
        return "this system is not Linux"
    if os.geteuid() != 0:
        return "it needs root"
    debootstrap = Need(
        "debootstrap", "makes bare systems", lambda: bool(shutil.which("debootstrap"))
    )
    if not debootstrap.there() and may_install():
        apt_install([debootstrap])
    for program in ("debootstrap", "unshare", "setpriv"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    process = subprocess.run(apart(["true"]), capture_output=True, text=True, check=False)
    if process.returncode:
        return last_line(process.stderr)
    try:
        find_archives()
    except InstallError as error:
        return str(error)
    return ""


def apart(command: Sequence[str]) -> list[str]:
    """Return a command that runs another one in namespaces of its own for mounts and processes.

    With this process all processes of the namespace end, and with them its mounts.
    """
    own = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork"]
    return [*own, "--kill-child", *command]


def run_apart(command: Sequence[str]) -> int:
    """Run a command in namespaces of its own; return its exit code."""
    return subprocess.run(apart(command), stdin=subprocess.DEVNULL, check=False).returncode


def delete(folder: Path) -> None:
    """Delete a system. Nothing is mounted there: a file of another file system is left."""
    subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=True)


# In the namespaces


def visit_all(suite: str, command: str | None) -> int:
    """Make a system, and run the commands of its visits, or this one as root; return whether one
    failed.
    """
    folder = PLACE / suite
    visits = VISITS[suite]
    if command:
        visits = (Visit("root", command),)
    try:
        delete(folder)
        make(suite, folder)
        mount(folder)
        connect(folder)
        codes = [visit(suite, folder, each) for each in visits]
    except subprocess.CalledProcessError as error:
        print(f"== {suite}: {error}", flush=True)
        return 1
    return any(codes)


def visit(suite: str, folder: Path, visit: Visit) -> int:
    """Clone the project and run a visit's command; return its exit code."""
    if visit.packages:
        add_packages(suite, folder, visit)
    for version in visit.pythons:
        lend_python(folder, version)
    for name in visit.beside:
        lend(ROOT.parent / name, folder / home_of(visit.user)[1:] / name)
    clone(folder, visit.user)
    print(f"== {suite}, as {visit.user}: {visit.command}", flush=True)
    command = f"cd devmod && {visit.command}"
    if visit.pythons:
        command = f"export PYENV_ROOT={shlex.quote(str(_PYENV))} && {command}"
    return enter(folder, visit.user, command)


def add_packages(suite: str, folder: Path, visit: Visit) -> None:
    """Install the packages of a visit, with what else they need of a later suite."""
    if visit.later:
        lists = folder / "etc" / "apt"
        source = f"deb {find_archives()[0]} {visit.later} main\n"
        (lists / "sources.list.d" / "later.list").write_text(source)
        pin = f"Package: *\nPin: release n={visit.later}\nPin-Priority: 100\n"
        (lists / "preferences.d" / "later").write_text(pin)
    names = " ".join(visit.packages)
    install = f"apt-get install --quiet=2 --yes -t {visit.later or suite} {names}"
    enter(folder, "root", f"apt-get update --quiet=2; {install} > /dev/null", check=True)


def make(suite: str, folder: Path) -> None:
    """Make a bare system with debootstrap, with two users: root, and a person."""
    folder.mkdir(parents=True)
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
    command += [suite, str(folder), find_archives()[0]]
    for _ in range(ATTEMPTS):
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode == 0:
            break
    else:
        print(process.stdout[-2000:], process.stderr, file=sys.stderr)
        raise subprocess.CalledProcessError(process.returncode, command)
    add_user = "useradd --create-home --user-group --shell /bin/bash person"
    enter(folder, "root", add_user, check=True)
    rights = folder / "etc" / "sudoers.d" / "person"  # read once sudo is installed
    rights.parent.mkdir(exist_ok=True)
    rights.write_text("person ALL=(ALL) NOPASSWD: ALL\n")


def mount(folder: Path) -> None:
    """Mount what each system has, and the caches of pip and uv."""
    bind = ["mount", "--rbind"]
    mounts = [
        # A root that is no mount allows no namespaces of mounts in it.
        (["mount", "--bind", str(folder)], folder),
        (["mount", "-t", "proc", "proc"], folder / "proc"),
        ([*bind, "/sys"], folder / "sys"),
        ([*bind, "/dev"], folder / "dev"),
        (["mount", "-t", "tmpfs", "tmpfs"], folder / "dev" / "shm"),
    ]
    home = Path.home()
    for name in CACHES:
        (home / name).mkdir(parents=True, exist_ok=True)
        mounts.append(([*bind, str(home / name)], folder / "root" / name))
    for command, place in mounts:
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run([*command, str(place)], check=True)
    for place in local_indexes():
        lend(place, folder / place.relative_to("/"))


def local_indexes() -> Iterator[Path]:
    """Yield the folders of packages that pip's configuration names."""
    for path in (*map(Path, OF_THE_SYSTEM), *(Path.home() / name for name in OF_THE_HOME)):
        if path.is_dir():
            path = path / "pip.conf"
        if path.name != "pip.conf" or not path.exists():
            continue
        for word in re.findall(r"(?:file://|(?<![\w/:]))(/\S+)", path.read_text()):
            place = Path(word)
            if place.name == "simple":
                place = place.parent  # its pages name files beside it
            if place.is_dir():
                yield place


def connect(folder: Path) -> None:
    """Let a system reach the registries of packages as this machine does."""
    for name in OF_THE_SYSTEM:
        copy(Path(name), folder / name[1:])
    for name in OF_THE_HOME:
        copy(Path.home() / name, folder / "root" / name)
        copy(Path.home() / name, folder / "home" / "person" / name)
    for path in Path("/etc/apt/apt.conf.d").iterdir():
        if "Acquire" in path.read_text():
            copy(path, folder / "etc" / "apt" / "apt.conf.d" / path.name)
    for path in Path("/usr/local/share/ca-certificates").rglob("*.crt"):
        copy(path, folder / str(path)[1:])
    default = "/etc/ssl/certs/ca-certificates.crt"
    copy(Path(os.environ.get("SSL_CERT_FILE") or default), folder / CERTIFICATES[1:])
    enter(folder, "root", "update-ca-certificates > /dev/null 2>&1", check=True)
    enter(folder, "root", "chown -R person:person /home/person", check=True)


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder that this machine has."""
    if source.is_dir():
        for path in source.iterdir():
            copy(path, target / path.name)
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # it may be a link
        shutil.copyfile(source, target)


def lend_python(folder: Path, version: str) -> None:
    """Lend a system a Python of this machine's pyenv, at its own path: it may be linked with a
    library there.
    """
    for python in sorted(_PYENV.glob(f"versions/{version}.*"))[-1:]:
        lend(python, folder / str(python)[1:])


def lend(source: Path, target: Path) -> None:
    """Mount a folder of this machine, if it exists, for reading."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--bind", "-o", "ro", str(source), str(target)], check=True)


def clone(folder: Path, user: str) -> None:
    """Clone what this tree has committed into the empty folder `devmod` of a user's home."""
    target = folder / home_of(user)[1:] / "devmod"
    delete(target)
    command = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(target)]
    subprocess.run(command, check=True)
    if user != "root":
        enter(folder, "root", f"chown -R {user}:{user} {home_of(user)}/devmod", check=True)


def home_of(user: str) -> str:
    """Return a user's home folder."""
    if user == "root":
        return "/root"
    return f"/home/{user}"


def enter(folder: Path, user: str, command: str, *, check: bool = False) -> int:
    """Run a command of the shell as a user of a system, in the user's home; return its exit
    code.
    """
    variables = dict.fromkeys(CERTIFICATE_VARIABLES, CERTIFICATES)
    variables |= {"HOME": home_of(user), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    if user == "root":
        variables["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    settings = [f"{name}={value}" for name, value in variables.items()]
    start = ["chroot", f"--userspec={user}:{user}", str(folder), "env", "-i", *settings]
    done = subprocess.run(
        [*start, "sh", "-c", f"cd && {command}"], stdin=subprocess.DEVNULL, check=check
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
