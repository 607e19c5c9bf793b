"""The command line: its output, its exit codes, and no traceback without --debug."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from command_line import call as run
from distributions import install
from forked import python
from interruptible import interruptible_python

import devmod
from devmod._plugins import discovery, registry
from devmod.commands import annotate
from devmod_workbench._cli import main
from devmod_workbench._cli._known import KNOWN, SYNONYMS

SCALE = devmod.FunctionInfo(
    "scale",
    ("handle", "float32", "handle"),
    ("blockIdx.x", "threadIdx.x"),
    interface=devmod.Interface(
        [
            devmod.Param("x", "buffer", "float32", "rw"),
            devmod.Param("factor", "scalar", "float32"),
            devmod.Param("scratch", "local", "float32"),
        ],
        block=(64, 1, 1),
    ),
)
PLAIN = devmod.FunctionInfo("k", ("handle", "int32"))
VECTORS = Path(__file__).resolve().parents[2] / "core" / "tests" / "vectors"
SOURCE = "__kernel void twice(__global float *x, const int n) { int i = get_global_id(0); if (i < n) x[i] *= 2; }\n"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "k.devmod"
    opencl = devmod.create_with_fallback("opencl", b"__kernel ...", "cl", {"scale": SCALE})
    vulkan = devmod.create_with_fallback("vulkan", {"k": bytes(12)}, "spv", {"k": PLAIN})
    devmod.save(devmod.bundle(opencl, vulkan), path)
    return path


def shell(
    *arguments: object, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return python("-m", "devmod", *map(str, arguments), env=os.environ | (env or {}), cwd=cwd)


# -- the command itself


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"devmod {devmod.__version__}\n", "")


@pytest.mark.parametrize(
    "name",
    ["", "compile", "inspect", "doctor", "devices", "run", "bench", "verify", "plugins", "cache"],
)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_has_examples(capsys: pytest.CaptureFixture[str], name: str, flag: str) -> None:
    code, out, _ = run(capsys, *filter(None, [name]), flag)
    assert code == 0
    assert "Examples:\n" in out
    assert f"  devmod {name}" in out


def test_every_command_is_listed_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--help")
    sections = out.partition("\nBuild:\n")[2].partition("\nExamples:\n")[0]
    described = dict(re.findall(r"^  ([a-z-]+) {2,}(\S.*)$", sections, re.MULTILINE))
    assert described == {
        "demo": "Compile a kernel, run it here and draw its result.",
        "compile": "Compile sources for targets into one file.",
        "init": "Write a manifest for the sources in a folder.",
        "build": "Build the kernels of a manifest into one file.",
        "bundle": "Join files into one.",
        "pack": "Join the binaries in a folder or a wheel into one file.",
        "unpack": "Write the binaries of a packed file as files again.",
        "onnx": "Make a file of a model of ONNX.",
        "triton": "Record kernels of Triton, and build them.",
        "inspect": "Show the modules of a file, what they need, and what runs here.",
        "view": "Show a file in the browser.",
        "doctor": "Check what of devmod works here, and what to do about the rest.",
        "devices": "List the devices of the installed runtimes.",
        "run": "Run a function of a file, and compare or save its results.",
        "bench": "Measure functions side by side.",
        "verify": "Check a file, and compare its candidates here.",
        "tune": "Measure variants of functions, and write times into the file.",
        "profile": "Run a Python script, and print what its kernels took.",
        "simulate": "Run CUDA without a GPU. (pip install devmod-simulators)",
        "keygen": "Make a key that signs files. (pip install devmod-trust)",
        "pin": "Print the digest for the address of a file.",
        "sign": "Sign files, for policies to check. (pip install devmod-trust)",
        "check": "Check the signatures of a file. (pip install devmod-trust)",
        "plugins": "List the installed plugins and their problems.",
        "cache": "Show the sizes of the caches on the disk, and clear them.",
        "conformance": "Check a backend against the contract, row by row.",
        "new-backend": "Write the skeleton of a new backend.",
    }


def help_groups(text: str) -> dict[str, list[str]]:
    """Return the commands in a help by the title of their group."""
    groups: dict[str, list[str]] = {}
    for part in text.split("\n\n"):
        title, _, rows = part.strip("\n").partition(":\n")
        groups[title] = re.findall(r"^  ([a-z][a-z-]*)(?:  |$)", rows, re.MULTILINE)
    return groups


GROUPS = {
    "Build": ["compile", "init", "build", "onnx", "triton"],
    "Look": ["inspect", "view", "devices", "doctor", "cache"],
    "Run": ["demo", "run", "bench", "verify", "tune", "profile", "simulate"],
    "Ship": ["bundle", "pin", "sign", "check"],
    "Extend": ["plugins"],
    "More": ["keygen", "conformance", "new-backend", "pack", "unpack"],
}


@pytest.mark.parametrize("columns", ["50", "80", "200"])
def test_the_help_groups_the_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    groups = help_groups(run(capsys, "--help")[1])
    titles = list(groups)
    first = titles.index("Build")
    assert titles[first : first + len(GROUPS)] == list(GROUPS)
    assert {title: groups[title] for title in GROUPS} == GROUPS
    assert "Commands" not in groups
    assert "From other plugins" not in groups


def test_commands_of_other_plugins_have_the_last_group(tmp_path: Path) -> None:
    names = {"acme": "acme:command", "a-name-of-more-than-thirty-letters": "acme:command"}
    install(tmp_path / "site", "acme-tools", groups={"devmod.commands": names})
    env = {"PYTHONPATH": str(tmp_path / "site"), "DEVMOD_PLUGINS_ALLOW": "acme-tools"}
    text = shell("--help", env=env).stdout
    groups = help_groups(text)
    assert {title: groups[title] for title in GROUPS} == GROUPS
    assert groups["From other plugins"] == ["a-name-of-more-than-thirty-letters", "acme"]
    assert re.search(r"^  acme +From acme-tools 1\.0\.$", text, re.MULTILINE)
    # A long name does not move the lines of the other commands.
    assert "  inspect      Show the modules of a file, what" in text


@pytest.mark.row("R4")
def test_the_command_of_an_excluded_wheel() -> None:
    done = shell("check", "k.devmod", env={"DEVMOD_PLUGINS_ALLOW": "devmod-core"})
    assert done.returncode == 1
    assert re.fullmatch(
        r"devmod: error: devmod\.commands\.check is not registered: devmod-trust \S+ provides it, and the environment variable "
        r"DEVMOD_PLUGINS_ALLOW excludes it\. To use it, add devmod-trust to DEVMOD_PLUGINS_ALLOW\n",
        done.stderr,
    )


@pytest.mark.row("R4")
def test_a_known_command_whose_wheel_is_missing_names_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(capsys, "sign", "k.devmod") == (
        1,
        "",
        "devmod: error: the command 'sign' cannot run: devmod-trust is not installed. To add it: pip install devmod-trust\n",
    )
    assert run(capsys, "check", "k.devmod") == (
        1,
        "",
        "devmod: error: the command 'check' cannot run: devmod-trust is not installed. To add it: pip install devmod-trust. To look only for damage: devmod inspect --verify FILE\n",
    )


@pytest.mark.row("R4")
@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("compile", '"devmod-core[build]"'),
        ("build", '"devmod-core[build]"'),
        ("init", "devmod-targets"),
        ("bundle", "devmod-targets"),
    ],
)
def test_the_error_of_a_command_that_compiles_has_the_extra_with_the_compilers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    monkeypatch.setattr(discovery, "_scan_all", lambda: iter(()))
    monkeypatch.setattr(registry, "_cache", {})
    monkeypatch.delenv("DEVMOD_PLUGINS_ALLOW")
    assert run(capsys, name) == (
        1,
        "",
        f"devmod: error: the command {name!r} cannot run: devmod-targets is not installed. To add it: pip install {package}\n",
    )
    assert f" (pip install {package})" in re.sub(r"\s+", " ", run(capsys, "--help")[1])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["compyle"],
        ["inspect"],
        ["inspect", "a", "b"],
        ["compile", "k.cl"],
        ["compile", "-t", "opencl"],
        ["devices", "--no-such-option"],
    ],
)
def test_wrong_usage_is_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert err.startswith("Usage: devmod")
    assert out == ""
    assert ("\n\ndevmod: error: " in err) == bool(arguments)  # else it is the help


def test_python_m_devmod_and_the_script_are_the_same(bundle: Path) -> None:
    by_module = shell("inspect", bundle)
    script = Path(sys.executable).with_name("devmod")
    by_script = subprocess.run(
        [str(script), "inspect", str(bundle)], capture_output=True, text=True, check=False
    )
    assert by_module.returncode == by_script.returncode == 0
    assert by_module.stdout == by_script.stdout


@pytest.mark.parametrize(
    ("word", "suggestion"),
    [
        ("compyle", " Did you mean 'compile'?"),
        ("inspec", " Did you mean 'inspect'?"),
        ("frobnicate", ""),
        ("merge", " Did you mean 'bundle'?"),
        ("Info", " Did you mean 'inspect'?"),
    ],
)
def test_a_mistyped_command_gets_a_suggestion_and_the_list(
    capsys: pytest.CaptureFixture[str], word: str, suggestion: str
) -> None:
    listed = ", ".join(KNOWN)
    code, out, err = run(capsys, word)
    assert (code, out, err.replace("devmod -h'", "devmod --help'")) == (  # by the version of click
        2,
        "",
        f"Usage: devmod [OPTIONS] COMMAND [ARGS]...\nTry 'devmod --help' for help.\n\n"
        f"devmod: error: devmod has no command {word!r}.{suggestion} The commands: {listed}\n",
    )


def test_a_synonym_is_no_command_and_stands_for_one() -> None:
    assert not SYNONYMS.keys() & KNOWN.keys()
    assert {command.partition(" ")[0] for command in SYNONYMS.values()} <= {
        *KNOWN,
        "--help",
        "--version",
    }


def test_a_mistyped_subcommand_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "cache", "claer")
    assert (code, out) == (2, "")
    assert err.endswith(
        "\ndevmod: error: devmod cache has no command 'claer'. Did you mean 'clear'? The commands: clear\n"
    )


def test_an_unknown_option_gets_the_nearest_one_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    for option, advice in {
        "--jsn": "Did you mean '--json'?",
        "--frob": "Its options: --json, --debug",
    }.items():
        code, out, err = run(capsys, "cache", "clear", option)
        assert (code, out) == (2, "")
        assert err.endswith(f"\ndevmod: error: No such option '{option}'. {advice}\n")


def test_the_help_lists_the_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--help")
    assert out.endswith(
        "\n  Exit status:\n    0    done\n    1    an error, or a row of `devmod conformance` that failed\n"
        "    2    wrong usage: an unknown command or option, or a value of a wrong form\n"
        "    3    `devmod run --sanitize` cannot compile the source for its checks\n    130  interrupted by Ctrl-C\n"
    )
    # A terminal of 80 columns breaks none of these lines.
    assert max(map(len, out.partition("Examples:")[2].splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("devmod comp", {"compile"}),
        ("devmod compile -t open", {"opencl"}),
        (
            "devmod compile --target ",
            {"cuda", "rocm", "metal", "vulkan", "opencl", "hexagon", "webgpu"},
        ),
        ("devmod inspect --ver", {"--verify"}),
    ],
)
@pytest.mark.volume_but(
    "bash-devmod comp-wanted0",
    "zsh-devmod compile -t open-wanted1",
    "fish-devmod compile --target -wanted2",
    "bash-devmod inspect --ver-wanted3",
)
@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_shell_completes(words: str, wanted: set[str], name: str) -> None:
    last = words.rpartition(" ")[2]
    given = {"COMP_WORDS": words, "COMP_CWORD": last if name == "fish" else str(words.count(" "))}
    done = shell(
        env={
            "_DEVMOD_COMPLETE": f"{name}_complete",
            "DEVMOD_PLUGINS_ALLOW": "devmod-targets",
            **given,
        }
    )
    if name == "zsh":
        found = set(done.stdout.splitlines()[1::3])
    else:
        found = {line.split(",")[1].split("\t")[0] for line in done.stdout.splitlines()}
    assert found == wanted
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("devmod inspect k.devmod ", ["plain,k", "plain,scale"]),
        ("devmod inspect k.devmod s", ["plain,scale"]),
        ("devmod inspect k.devmod k s", ["plain,scale"]),
        ("devmod inspect k.devmod scale --device open", ["plain,opencl"]),
        ("devmod run k.devmod s", ["plain,scale"]),
        ("devmod verify k.devmod s", ["plain,scale"]),
        ("devmod bench k.dev", ["file,k.dev"]),
        ("devmod bench k.devmod s", ["plain,scale"]),
        ("devmod inspect damaged.devmod ", []),
        ("devmod inspect missing.devmod ", []),
    ],
)
def test_the_shell_completes_files_functions_and_devices(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    bundle: Path,
    words: str,
    wanted: list[str],
) -> None:
    (bundle.parent / "damaged.devmod").write_bytes(bundle.read_bytes()[:100])
    monkeypatch.chdir(bundle.parent)
    for name, value in (
        ("_DEVMOD_COMPLETE", "bash_complete"),
        ("COMP_WORDS", words),
        ("COMP_CWORD", str(words.count(" "))),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main([])
    out, err = capsys.readouterr()
    assert (sorted(out.split()), ended.value.code, err) == (wanted, 0, "")


def test_the_completion_script_is_printed() -> None:
    done = shell(env={"_DEVMOD_COMPLETE": "zsh_source"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "_DEVMOD_COMPLETE=zsh_complete" in done.stdout


# -- errors


@pytest.mark.parametrize("number", ["nan", "inf", "0"])
@pytest.mark.parametrize("command", ["doctor", "plugins"])
def test_a_time_limit_is_a_finite_number(
    capsys: pytest.CaptureFixture[str], command: str, number: str
) -> None:
    code, out, err = run(capsys, command, "--timeout", number)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("devmod: error: Invalid value for '--timeout': ")


def test_an_error_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    done = shell("inspect", tmp_path / "missing.devmod")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr == f"devmod: error: {tmp_path / 'missing.devmod'}: No such file or directory\n"
    )


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    for arguments in (
        ("--debug", "inspect", tmp_path / "missing.devmod"),
        ("inspect", "--debug", tmp_path / "missing.devmod"),
    ):
        done = shell(*arguments)
        assert done.returncode == 1
        assert done.stderr.startswith("Traceback (most recent call last):\n")
        assert "FileNotFoundError" in done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("folder", "Is a directory"),
        (
            "k.devmod",
            "'{path}' is not a bundle: it does not begin with the magic bytes of a .devmod file",
        ),
        (
            "k.xyz",
            "'{path}': the suffix names no format that can be inspected; known are .devmod, .tvmimports and the raw payloads, such as .cl and .ptx",
        ),
        (
            "k.onnx",
            "'{path}': the suffix names no format that can be inspected; known are .devmod, .tvmimports and the raw payloads, such as .cl and .ptx. `devmod onnx` makes a file of a model",
        ),
        (
            "k.slang",
            "'{path}': the suffix names no format that can be inspected; known are .devmod, .tvmimports and the raw payloads, such as .cl and .ptx. devmod compile {path} -t cuda compiles a source",
        ),
        (
            "k.cl",
            "'{path}' has no metadata file: expected '{stem}.tvm_meta.json', which describes its functions. Module.write_to_file writes both; devmod compile {path} -t opencl compiles a source",
        ),
        (
            "k.hsaco",
            "'{path}' has no metadata file: expected '{stem}.tvm_meta.json', which describes its functions. Module.write_to_file writes both",
        ),
    ],
)
def test_a_file_that_cannot_be_inspected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, said: str
) -> None:
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
        said = "{path}: " + said
    else:
        path.write_bytes(b"nothing of that sort")
    code, out, err = run(capsys, "inspect", path)
    assert (code, out) == (1, "")
    assert err == f"devmod: error: {said.format(path=path, stem=path.with_suffix(''))}\n"


@pytest.mark.parametrize(
    "package", ["devmod_readers", "devmod_runtime", "devmod_targets", "devmod_wgsl"]
)
def test_a_missing_wheel_within_a_command_names_the_repair(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, bundle: Path, package: str
) -> None:
    def needs(*_: object, **__: object) -> None:
        importlib.import_module(package)

    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("devmod_workbench._cli.inspect.describe", needs)
    assert run(capsys, "inspect", bundle) == (
        1,
        "",
        f"devmod: error: ModuleNotFoundError: import of {package} halted; None in sys.modules. To install it again: pip install "
        f"--force-reinstall {package.replace('_', '-')} (--debug shows the traceback)\n",
    )


def test_an_unexpected_error_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, bundle: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr("devmod_workbench._cli.inspect.describe", broken)
    assert run(capsys, "inspect", bundle) == (
        1,
        "",
        "devmod: error: ZeroDivisionError: by nought (--debug shows the traceback)\n",
    )


@pytest.mark.parametrize("error", ["SystemExit(3)", "type('Odd', (BaseException,), {})('text')"])
def test_an_exception_of_a_compiler_prints_no_traceback(tmp_path: Path, error: str) -> None:
    text = (
        "import devmod\nSPEC = devmod.TargetSpec('npu', title='NPU', distribution='devmod-npu', formats=('npu',), text_formats=('npu',),\n"
        f"    compiler='npu_plugin:compile')\ndef compile(request):\n    raise {error}\n"
    )
    install(
        tmp_path / "site",
        "devmod-npu",
        groups={"devmod.targets": {"npu": "npu_plugin:SPEC"}},
        modules={"npu_plugin": text},
    )
    (tmp_path / "k.npu").write_text("text\n")
    env = {
        "PYTHONPATH": str(tmp_path / "site"),
        "DEVMOD_PLUGINS_ALLOW": "devmod-npu,devmod-targets",
    }
    done = shell("compile", "k.npu", "-t", "npu", env=env, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    ended = "a plugin ended the command with SystemExit: 3; --debug shows where"
    assert (
        done.stderr
        == f"devmod: error: {ended if 'Exit' in error else 'Odd: text (--debug shows the traceback)'}\n"
    )


def test_a_closed_pipe_is_not_an_error(bundle: Path) -> None:
    script = f"import os, sys, subprocess; sys.exit(subprocess.run([sys.executable, '-m', 'devmod', 'inspect', {str(bundle)!r}], stdout=int(sys.argv[1]), stderr=2).returncode)"
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", script, str(writing)],
        pass_fds=[writing],
        capture_output=True,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.stderr == ""


# -- inspect


@pytest.mark.row("R6", "R42")
def test_inspect_a_bundle(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    code, out, _ = run(capsys, "inspect", bundle)
    assert code == 0
    first, *rest = out.splitlines()
    assert first.startswith(f"{bundle}: devmod bundle, ")
    shown = [line.split(", ")[0] if " B" in line else line for line in rest]
    sizes = [len(part.save_to_bytes()) for part in devmod.load(bundle).imports]
    assert rest == [
        "bundle",
        f"  opencl cl, {sizes[0]} B — runtime: not installed",
        "    scale(x: float32* rw, factor: float32, scratch: local float32) block 64×1×1",
        f"  vulkan spv, {sizes[1]} B — runtime: not installed",
        "    k(handle, int32)",
        "",
        "To run all of it here:",
        "  pip install devmod-opencl",
        "  pip install devmod-vulkan",
    ], shown


def test_inspect_as_json(capsys: pytest.CaptureFixture[str], bundle: Path) -> None:
    found = json.loads(run(capsys, "inspect", bundle, "--json")[1])
    assert found["format"] == "devmod bundle"
    assert found["bytes"] == bundle.stat().st_size
    assert found["install"] == ["pip install devmod-opencl", "pip install devmod-vulkan"]
    opencl, vulkan = found["module"]["imports"]
    assert (opencl["kind"], opencl["format"], vulkan["kind"], vulkan["format"]) == (
        "opencl",
        "cl",
        "vulkan",
        "spv",
    )
    assert opencl["runtime"] == {
        "installed": "",
        "install": "pip install devmod-opencl",
        "excluded": "",
    }
    (function,) = opencl["functions"]
    assert function["arg_types"] == ["handle", "float32", "handle"]
    assert function["launch_param_tags"] == ["blockIdx.x", "threadIdx.x"]
    assert devmod.Interface.from_dict(function["interface"]) == SCALE.interface


def test_inspect_names_an_installed_runtime(
    capsys: pytest.CaptureFixture[str], bundle: Path, register: Callable[..., None]
) -> None:
    for kind in ("opencl", "vulkan"):
        register(
            "devmod.load_from_bytes", kind, lambda data: pytest.fail("inspecting loads nothing")
        )
    out = run(capsys, "inspect", bundle)[1]
    assert "  opencl cl, " in out
    assert out.count("— runtime: in this process") == 2
    assert out.endswith(
        "\n\nAll runtimes that it needs are installed here; --here shows whether a device fits.\n"
    )


def candidates(path: Path, *modules: tuple[str, str, str]) -> Path:
    """Write a bundle of fallbacks, given as kind, format and function name."""
    made = [
        devmod.create_with_fallback(kind, b"payload", fmt, {name: PLAIN})
        for kind, fmt, name in modules
    ]
    devmod.save(devmod.bundle(*made), path)
    return path


def test_inspect_requires_one_installed_candidate(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, register: Callable[..., None]
) -> None:
    path = candidates(tmp_path / "k.devmod", ("cuda", "ptx", "k"), ("opencl", "cl", "k"))
    register(
        "devmod.load_from_bytes", "opencl", lambda data: pytest.fail("inspecting loads nothing")
    )
    code, out, _ = run(capsys, "inspect", path)
    assert code == 0
    assert out.endswith(
        "\n\nEvery function has an installed runtime here.\nNot needed, for the other candidates:\n  pip install devmod-cuda\n"
    )
    found = json.loads(run(capsys, "inspect", path, "--json")[1])
    assert (found["install"], found["choices"], found["others"]) == (
        [],
        [],
        ["pip install devmod-cuda"],
    )


def test_inspect_lists_alternative_runtimes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = candidates(
        tmp_path / "k.devmod", ("cuda", "ptx", "k"), ("opencl", "cl", "k"), ("cuda", "ptx", "only")
    )
    out = run(capsys, "inspect", path)[1]
    # `only` needs cuda's in any case, and then `k` runs too.
    assert out.endswith(
        "\n\nTo run all of it here:\n  pip install devmod-cuda\nNot needed, for the other candidates:\n  pip install devmod-opencl\n"
    )
    path = candidates(
        tmp_path / "k.devmod",
        ("cuda", "ptx", "k"),
        ("opencl", "cl", "k"),
        ("opencl", "cl", "j"),
        ("cuda", "ptx", "j"),
    )
    out = run(capsys, "inspect", path)[1]
    assert out.endswith(
        "\n\nTo run k here, install one of:\n  pip install devmod-cuda\n  pip install devmod-opencl\n"
        "To run j here, install one of:\n  pip install devmod-opencl\n  pip install devmod-cuda\n"
    )


@pytest.mark.row("R4")
def test_inspect_names_the_variable_that_excludes_a_runtime(tmp_path: Path) -> None:
    install(
        tmp_path / "site",
        "acme-metal",
        groups={"devmod.load_from_bytes": {"metal": "acme_metal:load"}},
    )
    info = {"k": devmod.FunctionInfo("k", [])}
    devmod.save(
        devmod.create_with_fallback("metal", {"k": b"x"}, "metal", info), tmp_path / "m.devmod"
    )
    env = {
        "PYTHONPATH": str(tmp_path / "site"),
        "DEVMOD_CACHE_DIR": str(tmp_path / "cache"),
        "DEVMOD_PLUGINS_ALLOW": "",
        "DEVMOD_PLUGINS_DENY": "acme-metal,devmod-metal",
    }
    out = shell("inspect", tmp_path / "m.devmod", env=env).stdout
    assert " — runtime: excluded by DEVMOD_PLUGINS_DENY\n" in out
    assert out.endswith(
        "\n\nTo run all of it here:\n  remove acme-metal from DEVMOD_PLUGINS_DENY\n"
    )


@pytest.mark.row("R4")
def test_inspect_recommends_no_wheel_for_a_format_used_as_a_kind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Strange(devmod.Module):
        kind = "ptx"

        def get_function(self, name: str, query_imports: bool = False) -> object:
            raise AssertionError

        def save_to_bytes(self) -> bytes:
            return b"payload"

    devmod.save(Strange(), tmp_path / "n.devmod")
    out = run(capsys, "inspect", tmp_path / "n.devmod")[1]
    assert "\n  nothing can be installed: ptx is a format of cuda, not a kind; " in out
    assert "devmod-ptx" not in out


@pytest.mark.row("R41")
def test_inspect_compares_digests_only_with_verify(
    capsys: pytest.CaptureFixture[str], bundle: Path
) -> None:
    data = bundle.read_bytes()
    assert (
        run(capsys, "inspect", bundle, "--verify")[1].count("Digests compared: 2; all match.\n")
        == 1
    )
    assert json.loads(run(capsys, "inspect", bundle, "--verify", "--json")[1])["verified"] == 2
    bundle.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    code, out, err = run(capsys, "inspect", bundle)
    assert (code, err) == (0, "")
    assert "Digests" not in out
    # The name of a function in the bytes is not that in the index: that is damage, too.
    at = data.index(b"scale", data.index(b"scale") + 1)
    for damaged in (bundle.read_bytes(), data[:at] + b"S" + data[at + 1 :]):
        bundle.write_bytes(damaged)
        code, out, err = run(capsys, "inspect", bundle, "--verify")
        assert (code, out) == (1, "")
        assert err == (
            f"devmod: error: '{bundle}': the opencl module with 'scale' is damaged: its SHA-256 is not the one in the index. "
            "Nothing of it was used. Get the file again from where it came\n"
        )


@pytest.mark.row("R43")
def test_inspect_reads_standard_input(bundle: Path) -> None:
    command = [sys.executable, "-m", "devmod", "inspect", "-"]
    for path, form in (
        (bundle, "devmod bundle"),
        (VECTORS / "tvm" / "vadd.opencl.tvmimports", "TVM imports blob"),
    ):
        done = subprocess.run(command, input=path.read_bytes(), capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode().startswith(f"-: {form}, ")
    for data, text in (
        (
            b"\x7fELF",
            "standard input is an ELF file; give the path of a library that TVM exported, or of a raw payload",
        ),
        (
            b"__kernel void k() {}",
            "standard input is neither a .devmod bundle nor TVM's imports blob. Give the path of another file: its suffix names the format",
        ),
    ):
        done = subprocess.run(command, input=data, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr.decode()) == (
            1,
            b"",
            f"devmod: error: {text}\n",
        )


def test_inspect_an_unknown_kind(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    class Foreign(devmod.Module):
        @property
        def kind(self) -> str:
            return "npu"

        @property
        def functions(self) -> dict[str, devmod.FunctionInfo]:
            return {"add": PLAIN}

        def get_function(self, name: str, query_imports: bool = False) -> object:
            raise AssertionError

        def save_to_bytes(self) -> bytes:
            return b"payload"

    devmod.save(Foreign(), tmp_path / "n.devmod")
    code, out, _ = run(capsys, "inspect", tmp_path / "n.devmod")
    assert code == 0
    assert "\n  add(…)\n" in out  # nobody here can read its arguments; that is not the same as none
    (function,) = json.loads(run(capsys, "inspect", tmp_path / "n.devmod", "--json")[1])["module"][
        "functions"
    ]
    assert (function["arg_types"], function["symbol"], function["signature"]) == (
        None,
        None,
        "add(…)",
    )
    assert "npu, 7 B — runtime: not installed\n" in out
    assert (
        "npu: no known distribution provides it; by convention it would be devmod-npu; install that only if you trust its publisher"
        in out
    )
    assert "pip install" not in out


@pytest.mark.row("R22")
def test_inspect_a_raw_payload(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    devmod.create_with_fallback("cuda", b"// ptx", "ptx", {"k": PLAIN}).write_to_file(
        tmp_path / "k.ptx"
    )
    code, out, _ = run(capsys, "inspect", tmp_path / "k.ptx")
    assert code == 0
    assert out.startswith(f"{tmp_path / 'k.ptx'}: raw cuda payload, 6 B\ncuda ptx, ")
    assert "  k(handle, int32)\n" in out
    assert out.endswith("  pip install devmod-cuda\n")


@pytest.mark.parametrize("name", ["vadd.opencl.tvmimports", "vadd.opencl.so"])
def test_inspect_tvms_files(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, err = run(capsys, "inspect", VECTORS / "tvm" / name)
    assert (code, err) == (0, "")
    first, *rest = out.splitlines()
    assert ("library exported by TVM" if name.endswith(".so") else "TVM imports blob") in first
    assert rest[0] == "_lib"
    assert rest[1].startswith("  opencl cl, ")
    assert rest[2:] == [
        "    vadd_kernel(handle, handle, handle)",
        "",
        "To run all of it here:",
        "  pip install devmod-opencl",
    ]


def test_names_from_a_file_are_printed_escaped(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name = "k\x1b[2J\n"
    module = devmod.create_with_fallback(
        "cuda", b"// ptx", "ptx", {name: devmod.FunctionInfo(name, ())}
    )
    devmod.save(module, tmp_path / "k.devmod")
    out = run(capsys, "inspect", tmp_path / "k.devmod")[1]
    assert "  k\\x1b[2J\\n()\n" in out
    assert "\x1b" not in out


# -- plugins and devices


@pytest.fixture
def plugins(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a process with three distributions: a working one, one whose import
    fails, and one in conflict with the first.
    """
    site = tmp_path / "site"
    for name, entries in {
        "devmod_good": "[devmod.create]\nnpu = good_plugin:create\n",
        "devmod_bad": "[devmod.create]\ntpu = bad_plugin:create\n",
        "devmod_rival": "[devmod.device]\nnpu = good_plugin:devices\n",
        "devmod_other": "[devmod.device]\nnpu = good_plugin:devices\n",
    }.items():
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(entries)
    (site / "good_plugin.py").write_text(
        "def create(code, fmt, fmap, source): ...\ndef devices(): return []\n"
    )
    (site / "bad_plugin.py").write_text("import no_such_driver\n")
    return {
        "PYTHONPATH": str(site),
        "DEVMOD_PLUGINS_ALLOW": "devmod-good,devmod-bad,devmod-rival,devmod-other",
    }


@pytest.mark.row("R8", "R9")
def test_plugins_lists_each_entry_and_its_problem(plugins: dict[str, str], tmp_path: Path) -> None:
    done = shell("plugins", env=plugins, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split() for line in lines[:-2] if "excluded by" not in line] == [
        ["from", "names", "state"],
        ["devmod-bad", "1.0", "tpu", "BROKEN"],
        ["devmod-good", "1.0", "npu", "ok"],
        ["devmod-other", "1.0", "npu", "CONFLICT"],
        ["devmod-rival", "1.0", "npu", "CONFLICT"],
    ]
    problems = lines[-2:]
    assert "devmod-bad 1.0" in problems[0]
    assert "no_such_driver" in problems[0]
    assert problems[1].startswith("! devmod.device.npu is claimed by ")
    assert "DEVMOD_PLUGINS_CHOOSE=devmod-other" in problems[1]
    done = shell("plugins", "--all", env=plugins, cwd=tmp_path)
    assert (done.returncode, done.stderr, done.stdout.splitlines()[-2:]) == (0, "", problems)
    table = [line.split() for line in done.stdout.splitlines()]
    assert table[0] == ["group", "name", "from", "object", "state"]
    assert ["devmod.create", "npu", "devmod-good", "1.0", "good_plugin:create", "ok"] in table
    assert ["devmod.create", "tpu", "devmod-bad", "1.0", "bad_plugin:create", "BROKEN"] in table
    assert [
        "devmod.device",
        "npu",
        "devmod-rival",
        "1.0",
        "good_plugin:devices",
        "CONFLICT",
    ] in table
    assert [
        "devmod.device",
        "npu",
        "devmod-other",
        "1.0",
        "good_plugin:devices",
        "CONFLICT",
    ] in table


def test_plugins_as_json_and_without_importing_them(
    plugins: dict[str, str], tmp_path: Path
) -> None:
    found = json.loads(shell("plugins", "--json", "--no-import", env=plugins, cwd=tmp_path).stdout)
    states = {(row["group"], row["name"], row["distribution"]): row["state"] for row in found}
    assert states[("devmod.create", "tpu", "devmod-bad")] == "ok"  # as far as the metadata says
    assert states[("devmod.device", "npu", "devmod-rival")] == "conflict"
    assert not [row for row in found if row["distribution"] == "devmod-core"]


def test_plugins_lists_excluded_distributions(plugins: dict[str, str], tmp_path: Path) -> None:
    found = json.loads(
        shell(
            "plugins",
            "--json",
            "--no-import",
            env=plugins | {"DEVMOD_PLUGINS_DENY": "devmod-good"},
            cwd=tmp_path,
        ).stdout
    )
    (row,) = (row for row in found if row["distribution"] == "devmod-good")
    assert row["state"] == "excluded by DEVMOD_PLUGINS_DENY"


def test_plugins_all_lists_core(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "plugins", "--json", "--all")[1])
    core = [(row["group"], row["name"]) for row in found if row["distribution"] == "devmod-core"]
    assert ("devmod.targets", "cuda") in core
    assert {row["state"] for row in found if row["distribution"] == "devmod-core"} == {"ok"}


@pytest.mark.row("R8")
def test_plugins_survives_a_plugin_that_exits_or_hangs(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name, body in {
        "leaves": "import os\nos._exit(3)\n",
        "crashes": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        "sleeps": "import time\ntime.sleep(600)\n",
        "sound": "def create(code, fmt, fmap, source): ...\ndef devices(): return []\n",
    }.items():
        groups = {
            "devmod.create": {name: f"{name}_plugin:create"},
            "devmod.device": {name: f"{name}_plugin:devices"},
        }
        install(site, f"devmod-{name}", groups=groups, modules={f"{name}_plugin": body})
    env = {
        "PYTHONPATH": str(site),
        "DEVMOD_PLUGINS_ALLOW": "devmod-leaves,devmod-crashes,devmod-sleeps,devmod-sound",
    }
    for timeout in (1, 20, 200):
        done = shell("plugins", "--json", "--timeout", timeout, env=env, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        rows = [
            row for row in json.loads(done.stdout) if not row["state"].startswith("excluded by")
        ]
        found = {(row["group"], row["name"]): (row["state"], row["problem"]) for row in rows}
        if sum("takes longer" in problem for _, problem in found.values()) == 2:
            break  # on a loaded machine, sound imports may take longer than the first timeout
    assert len(found) == len(rows) == 8
    for name, end in {
        "leaves": "ends the process with exit status 3",
        "crashes": "ends the process with signal 9",
        "sleeps": f"takes longer than {timeout} s",
    }.items():
        for group in ("devmod.create", "devmod.device"):
            assert found[group, name] == (
                "broken",
                f"{group}.{name} is broken: devmod-{name} 1.0: importing {name}_plugin {end}. "
                f"Install it again (pip install --force-reinstall devmod-{name}==1.0), or report it to its publisher",
            )
    assert found["devmod.create", "sound"] == found["devmod.device", "sound"] == ("ok", "")


@pytest.mark.skipif(os.name != "posix", reason="a terminal signals a process group on POSIX alone")
def test_plugins_is_interrupted_without_a_traceback(tmp_path: Path) -> None:
    marker = tmp_path / "importing"
    body = f"import pathlib, time\npathlib.Path({str(marker)!r}).touch()\ntime.sleep(600)\n"
    install(
        tmp_path / "site",
        "devmod-sleeps",
        groups={"devmod.create": {"sleeps": "sleeps:create"}},
        modules={"sleeps": body},
    )
    env = os.environ | {
        "PYTHONPATH": str(tmp_path / "site"),
        "DEVMOD_PLUGINS_ALLOW": "devmod-sleeps",
    }
    command = interruptible_python("-m", "devmod", "plugins")
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while not marker.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (130, "", "\ninterrupted\n")


def test_an_interrupt_during_the_import_of_the_program_has_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod.__main__ import main as program

    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "devmod_workbench._cli", Interrupted("devmod_workbench._cli"))
    assert program() == 130
    assert capsys.readouterr() == ("", "\ninterrupted\n")


def test_an_end_of_file_in_a_command_is_an_error_and_no_interrupt(
    capsys: pytest.CaptureFixture[str], bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise EOFError("the file ends early")

    monkeypatch.setattr("devmod.load", fail)
    code, out, err = run(capsys, "inspect", bundle)
    assert (code, out, err) == (
        1,
        "",
        "\ndevmod: error: EOFError: the file ends early (--debug shows the traceback)\n",
    )


def test_plugins_lists_the_distributions_of_a_group_in_order(tmp_path: Path) -> None:
    names = [f"devmod-{letter}" for letter in "dbace"]
    for name in names:  # the order of a folder's listing is that of its file system
        install(tmp_path / "site", name, groups={"devmod.create": {name[-1]: "nothing:create"}})
    env = {"PYTHONPATH": str(tmp_path / "site"), "DEVMOD_PLUGINS_ALLOW": ",".join(names)}
    rows = json.loads(shell("plugins", "--json", "--no-import", env=env, cwd=tmp_path).stdout)
    listed = [
        row["distribution"]
        for row in rows
        if row["group"] == "devmod.create" and row["distribution"] in names
    ]
    assert listed == sorted(names)


@pytest.mark.row("R1")
def test_plugins_lists_entry_points_in_unknown_groups(tmp_path: Path) -> None:
    groups = {
        "devmod.devices": {"npu": "npu_plugin:devices"},
        "devmod.wheels": {"npu": "npu_plugin:wheels"},
        "other.devmod": {"x": "y:z"},
    }
    install(tmp_path / "site", "devmod-npu", groups=groups)
    env = {"PYTHONPATH": str(tmp_path / "site"), "DEVMOD_PLUGINS_ALLOW": "devmod-npu"}
    for flags in ([], ["--no-import"]):
        found = json.loads(shell("plugins", "--json", *flags, env=env, cwd=tmp_path).stdout)
        ignored = (
            f"which devmod-core {devmod.__version__} does not have, so the entry point is ignored."
        )
        mine = [row for row in found if row["distribution"] == "devmod-npu"]
        assert [(row["group"], row["name"], row["state"], row["problem"]) for row in mine] == [
            (
                "devmod.devices",
                "npu",
                "unknown group",
                f"devmod-npu 1.0 declares the entry point 'npu' in the group 'devmod.devices', {ignored} Did you mean 'devmod.device'?",
            ),
            (
                "devmod.wheels",
                "npu",
                "unknown group",
                f"devmod-npu 1.0 declares the entry point 'npu' in the group 'devmod.wheels', {ignored} "
                f"The groups are {', '.join(devmod._plugins.registry.GROUPS)}",
            ),
        ]
    denied = json.loads(
        shell(
            "plugins",
            "--json",
            "--no-import",
            env=env | {"DEVMOD_PLUGINS_ALLOW": "nobody"},
            cwd=tmp_path,
        ).stdout
    )
    assert {row["state"] for row in denied} == {"excluded by DEVMOD_PLUGINS_ALLOW"}


@pytest.mark.row("R1")
def test_plugins_lists_hooks_that_are_never_called(tmp_path: Path) -> None:
    names = (
        "devmod_compile",
        "devmod_compile.npu",
        "devmod_compile.opencl",
        "devmod_compile.cud",
        "devmod_doctor.acme",
        "devmod_verfy",
    )
    hooks = dict.fromkeys((*names, "devmod_verify.npu"), "npu_hooks")
    modules = {"npu_hooks": "", "npu_plugin": "def create(code, fmt, fmap, source): ...\n"}
    install(
        tmp_path / "site",
        "devmod-npu",
        groups={"devmod.hooks": hooks, "devmod.create": {"npu": "npu_plugin:create"}},
        modules=modules,
    )
    env = {"PYTHONPATH": str(tmp_path / "site"), "DEVMOD_PLUGINS_ALLOW": "devmod-npu"}
    for flags in ([], ["--no-import"]):
        found = json.loads(shell("plugins", "--json", *flags, env=env, cwd=tmp_path).stdout)
        mine = {
            row["name"]: (row["state"], row["problem"])
            for row in found
            if row["distribution"] == "devmod-npu" and row["group"] == "devmod.hooks"
        }
        kind = "and no installed distribution has this kind, so it is never called"
        assert mine == {
            **dict.fromkeys(names[:3], ("ok", "")),
            "devmod_compile.cud": (
                "never called",
                f"devmod-npu 1.0 has an entry 'devmod_compile.cud' for the hook devmod_compile of the kind 'cud', {kind}. "
                "Did you mean 'cuda'?",
            ),
            "devmod_doctor.acme": (
                "never called",
                f"devmod-npu 1.0 has an entry 'devmod_doctor.acme' for the hook devmod_doctor of the kind 'acme', {kind}",
            ),
            "devmod_verfy": (
                "never called",
                "devmod-npu 1.0 has an entry 'devmod_verfy' for the hook 'devmod_verfy', and there is no such hook, so it is never called. "
                "Did you mean 'devmod_verify'?",
            ),
            "devmod_verify.npu": (
                "broken",
                "devmod-npu 1.0 declares the entry point 'devmod_verify.npu', and the hook devmod_verify takes no kind, so the plugin would "
                "check no file. Its publisher renames the entry point to 'devmod_verify'. To load files without its check: "
                "pip uninstall devmod-npu",
            ),
        }


@pytest.mark.row("R10")
def test_plugins_lists_entries_registered_in_the_process(
    capsys: pytest.CaptureFixture[str], register: Callable[..., None]
) -> None:
    register("devmod.create", "npu", lambda code, fmt, fmap, source: None)
    assert "in this process           npu " in run(capsys, "plugins", "--no-import")[1]
    code, out, _ = run(capsys, "plugins", "--all", "--no-import")
    assert code == 0
    assert any(
        line.split()[:5] == ["devmod.create", "npu", "in", "this", "process"]
        for line in out.splitlines()
    )


def test_no_plugin_and_no_device(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devmod._plugins.registry.declared_claims", lambda group, name="": [])
    monkeypatch.setattr(registry, "_cache", {})
    assert (
        run(capsys, "plugins")[1]
        == 'No plugin is installed. A runtime is added with pip, for example: pip install "devmod-opencl[pocl]"\n'
    )
    monkeypatch.setitem(sys.modules, "devmod_runtime", None)
    assert run(capsys, "devices")[2] == (
        "devmod: error: the command 'devices' cannot run: devmod-runtime is not installed. To add it: pip install \"devmod-opencl[pocl]\"\n"
    )


def test_no_backend_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "devices") == (
        0,
        'No runtime is installed, so there is no device. One for the CPU of Linux on x86-64: pip install "devmod-opencl[pocl]"\n',
        "",
    )


def test_devices_of_a_runtime_whose_driver_is_missing(
    capsys: pytest.CaptureFixture[str], register: Callable[..., None]
) -> None:
    def none() -> list[object]:
        raise devmod.DeviceNotFoundError("no driver of the npu is installed")

    register("devmod.device", "npu", none)
    register("devmod.device", "tpu", list)
    code, out, _ = run(capsys, "devices")
    assert code == 0
    assert "! npu: no driver of the npu is installed\n" in out
    assert "! tpu: its runtime is installed and finds no device\n" in out
    found = json.loads(run(capsys, "devices", "--json")[1])
    assert found["devices"] == []
    assert "npu: no driver of the npu is installed" in found["problems"]


def test_devices_of_runtimes_that_raise_anything(
    capsys: pytest.CaptureFixture[str], register: Callable[..., None]
) -> None:
    class Odd(BaseException):
        pass

    def odd() -> list[object]:
        raise Odd("no Exception")

    def leave() -> list[object]:
        raise SystemExit(3)

    register("devmod.device", "npu", odd)
    register("devmod.device", "tpu", leave)
    code, out, _ = run(capsys, "devices")
    assert code == 0
    assert "! npu: Odd: no Exception\n" in out
    assert "! tpu: devmod.device.tpu, registered in this process, failed: SystemExit: 3\n" in out


def test_devices_as_a_table_and_as_json(
    capsys: pytest.CaptureFixture[str],
    register: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Npu(devmod.Device):
        kind, index, name, vendor, driver_version, memory = (
            "npu",
            0,
            "Big NPU",
            "Nobody",
            "7.1",
            2_500_000_000,
        )

    Npu.__abstractmethods__ = frozenset()  # nothing but its description is asked for
    register("devmod.device", "npu", lambda: [Npu()])
    assert run(capsys, "devices") == (
        0,
        "kind  index  name     vendor  driver_version  arch  memory\nnpu   0      Big NPU  Nobody  7.1                   2.5 GB\n",
        "",
    )
    (found,) = json.loads(run(capsys, "devices", "--json")[1])["devices"]
    assert (found["name"], found["memory"]) == ("Big NPU", 2_500_000_000)

    monkeypatch.setattr(Npu, "memory", 0)
    monkeypatch.setattr(Npu, "arch", "npu1.2:Float16+Float64+Int64")
    assert (
        run(capsys, "devices")[1].splitlines()[1]
        == "npu   0      Big NPU  Nobody  7.1             npu1.2:Float16+Float64+…"
    )
    assert (
        json.loads(run(capsys, "devices", "--json")[1])["devices"][0]["arch"]
        == "npu1.2:Float16+Float64+Int64"
    )


def devices_of(
    folder: Path, bodies: dict[str, str], *options: object
) -> tuple[list[dict[str, object]], list[str]]:
    """Return the devices and the problems that the command lists. The body of each runtime's entry
    may raise or end the process.
    """
    for name, body in bodies.items():
        modules = {f"{name}_plugin": f"def devices():\n    {body}\n"}
        install(
            folder / "site",
            f"devmod-{name}",
            groups={"devmod.device": {name: f"{name}_plugin:devices"}},
            modules=modules,
        )
    paths = os.pathsep.join(
        map(
            str,
            (folder / "site", Path(__file__).parents[2] / "plugins" / "runtime" / "tests" / "toy"),
        )
    )
    env = {
        "PYTHONPATH": paths,
        "DEVMOD_PLUGINS_ALLOW": ",".join(f"devmod-{name}" for name in ["runtime", *bodies]),
    }
    done = shell("devices", "--json", *options, env=env, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    return found["devices"], sorted(found["problems"])


@pytest.mark.row("R8")
def test_devices_survives_a_driver_that_ends_the_process(tmp_path: Path) -> None:
    bodies = {
        "crashes": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "good": "from toy_backend import ToyDevice; return [ToyDevice(0)]",
        "leaves": "import os; os._exit(3)",
    }
    devices, problems = devices_of(tmp_path, bodies)
    assert [device["kind"] for device in devices] == ["toy"]
    assert problems == [
        "crashes: listing the devices of devmod-crashes 1.0 ends the process with signal 9",
        "leaves: listing the devices of devmod-leaves 1.0 ends the process with exit status 3",
    ]


@pytest.mark.row("R8")
def test_devices_survives_a_driver_that_hangs(tmp_path: Path) -> None:
    assert devices_of(tmp_path, {"sleeps": "import time; time.sleep(600)"}, "--timeout", 1) == (
        [],
        ["sleeps: listing the devices of devmod-sleeps 1.0 takes longer than 1 s"],
    )


def test_output_of_a_plugin_goes_to_standard_error(plugins: dict[str, str], tmp_path: Path) -> None:
    noise = "import os\nprint('noise')\nos.system('echo noise of a program')\n"
    body = (
        noise
        + "def create(code, fmt, fmap, source): ...\ndef devices():\n    print('noise of a driver')\n    return []\n"
    )
    groups = {
        "devmod.create": {"loud": "loud_plugin:create"},
        "devmod.device": {"loud": "loud_plugin:devices"},
    }
    install(tmp_path / "loud", "devmod-loud", groups=groups, modules={"loud_plugin": body})
    env = plugins | {
        "PYTHONPATH": str(tmp_path / "loud"),
        "DEVMOD_PLUGINS_ALLOW": "devmod-loud,devmod-runtime",
    }
    for command in ("plugins", "devices"):
        done = shell(command, "--json", env=env, cwd=tmp_path)
        assert "loud" in str(json.loads(done.stdout))
        assert "noise of a program" in done.stderr
        assert ("noise of a driver" in done.stderr) == (command == "devices")


def test_what_a_driver_of_this_process_prints_goes_to_standard_error(
    capfd: pytest.CaptureFixture[str], register: Callable[..., None]
) -> None:
    def devices() -> list[object]:
        print("noise of Python")
        os.write(1, b"noise of C\n")
        return []

    register("devmod.device", "npu", devices)
    code, out, err = run(capfd, "devices", "--json")
    assert (code, json.loads(out)["devices"]) == (0, [])
    assert sorted(err.splitlines()) == ["noise of C", "noise of Python"]
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "after\n"


def test_a_command_of_github_actions_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    annotate("warning", "100%: a,\nb", file="a:b,c%.cl", title="", line="3")
    annotate("error", "x", err=True, title="y")
    out, err = capsys.readouterr()
    assert out == "::warning file=a%3Ab%2Cc%25.cl,line=3::100%25: a,%0Ab\n"
    assert err == "::error title=y::x\n"


# -- compile


def test_compile_then_inspect(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = tmp_path / "k.cl"
    source.write_text(SOURCE)
    code, out, err = run(capsys, "compile", source, "-t", "opencl", "-o", tmp_path / "k.devmod")
    assert (code, err) == (0, "")
    assert out.startswith("opencl cl: twice\n")
    out = run(capsys, "inspect", tmp_path / "k.devmod")[1]
    assert "  twice(x: float32* rw, n: int32) any block\n" in out
    assert "from target 'opencl', libclang " in out


def test_several_sources_make_one_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.cl").write_text(SOURCE.replace("twice", name))
    assert run(
        capsys,
        "compile",
        "-q",
        tmp_path / "a.cl",
        tmp_path / "b.cl",
        "-t",
        "opencl",
        "-o",
        tmp_path / "both.devmod",
    ) == (0, "", "")
    module = devmod.load(tmp_path / "both.devmod")
    assert (module.kind, list(module.functions)) == ("bundle", ["a", "b"])


def test_defines_includes_and_options_travel_in_the_payload(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "twice.h").write_text(SOURCE.replace("2", "FACTOR"))
    (tmp_path / "k.cl").write_text('#include "twice.h"\n')
    arguments = [
        "-D",
        "FACTOR=3",
        "-D",
        "FLAG",
        "-I",
        tmp_path / "include",
        "--option=-cl-fast-relaxed-math",
    ]
    assert run(
        capsys,
        "compile",
        "-q",
        tmp_path / "k.cl",
        "-t",
        "opencl",
        *arguments,
        "-o",
        tmp_path / "k.devmod",
    ) == (0, "", "")
    text = devmod.load(tmp_path / "k.devmod").inspect_source()
    assert text.startswith("//devmod: -cl-fast-relaxed-math\n")
    assert "#define FACTOR 3\n" in text
    assert "#define FLAG" in text
    assert "twice(__global float *x" in text
    assert str(tmp_path) not in text


LOCALS = "kernel void f(global float *x, local float *s, local int *t) { x[0] = s[0]; } kernel void g(local int *s) { s[0] = 0; }"


@pytest.mark.parametrize(
    ("options", "blocks", "sizes"),
    [
        (["--block", "64"], [(64, 1, 1)] * 2, [None, None, None]),
        (["--block", "g=8,4,2"], [None, (8, 4, 2)], [None, None, None]),
        (["--block", "f=16", "--block", "g=8,4"], [(16, 1, 1), (8, 4, 1)], [None, None, None]),
        (["--local", "t=64"], [None] * 2, [None, devmod.Local(64), None]),
        (
            ["--local", "f.s=4/thread", "--local", "g.s=128"],
            [None] * 2,
            [devmod.Local(per_thread=4), None, devmod.Local(128)],
        ),
    ],
)
def test_defaults_of_calls(
    options: list[str],
    blocks: object,
    sizes: object,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "k.cl").write_text(LOCALS)
    assert run(
        capsys,
        "compile",
        "-q",
        tmp_path / "k.cl",
        "-t",
        "opencl",
        *options,
        "-o",
        tmp_path / "k.devmod",
    ) == (0, "", "")
    interfaces = [info.interface for info in devmod.load(tmp_path / "k.devmod").functions.values()]
    assert [each.default_block for each in interfaces if each] == blocks
    assert [
        param.default
        for each in interfaces
        if each
        for param in each.params
        if param.kind == "local"
    ] == sizes


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--block", "0"],
            "--block 0: expected threads in x, y, z, such as 64, 16,16, blur=16,16 or BLOCK",
        ),
        (
            ["--block", "=8"],
            "--block =8: expected threads in x, y, z, such as 64, 16,16, blur=16,16 or BLOCK",
        ),
        (
            ["--block", "1,2,3,4"],
            "--block 1,2,3,4: expected threads in x, y, z, such as 64, 16,16, blur=16,16 or BLOCK",
        ),
        (["--block", "8", "--block", "16"], "--block is given twice for all functions"),
        (["--block", "f=8", "--block", "f=16"], "--block is given twice for the function 'f'"),
        (
            ["--block", "8", "--block", "f=16"],
            "--block is given for all functions and for one; give it for each function",
        ),
        (
            ["--local", "s"],
            "--local s: expected bytes, such as scratch=1024, scratch=4/thread or reduce.scratch=4/thread",
        ),
        (
            ["--local", "s=0"],
            "--local s=0: expected bytes, such as scratch=1024, scratch=4/thread or reduce.scratch=4/thread",
        ),
        (
            ["--local", "s=4/block"],
            "--local s=4/block: expected bytes, such as scratch=1024, scratch=4/thread or reduce.scratch=4/thread",
        ),
        (["--local", "s=4", "--local", "s=8"], "--local s=8: s is given twice"),
        (["--local", "f.s=4", "--local", "f.s=8"], "--local f.s=8: f.s is given twice"),
    ],
)
def test_wrong_defaults_of_calls(
    options: list[str], text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "k.cl").write_text(LOCALS)
    code, _, err = run(
        capsys, "compile", tmp_path / "k.cl", "-t", "opencl", *options, "-o", tmp_path / "k.devmod"
    )
    assert code == 2
    assert err.endswith(f"{text}\n")
    assert not (tmp_path / "k.devmod").exists()


def test_defaults_of_a_function_are_for_the_sources_that_have_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.cl").write_text(SOURCE.replace("twice", name))
    sources = (tmp_path / "a.cl", tmp_path / "b.cl", "-t", "opencl", "-o", tmp_path / "both.devmod")
    assert run(capsys, "compile", "-q", *sources, "--block", "64")[0] == 0
    assert [
        info.interface and info.interface.default_block
        for info in devmod.load(tmp_path / "both.devmod").functions.values()
    ] == [(64, 1, 1)] * 2
    assert run(capsys, "compile", "-q", *sources, "--block", "b=16,2")[0] == 0
    assert [
        info.interface and info.interface.default_block
        for info in devmod.load(tmp_path / "both.devmod").functions.values()
    ] == [None, (16, 2, 1)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--block", "a=64", "--block", "c=64"], "--block c=: no source has this function"),
        (
            ["--local", "a.x=4"],
            "--local a.x=: no source has this parameter of local memory",  # x is a buffer
        ),
        (["--local", "s=4"], "--local s=: no source has this parameter of local memory"),
        (
            ["--name-expression", "a"],
            "--function and --name-expression are for one source; compile the sources separately, and join the files: devmod bundle",
        ),
        (
            ["--function", "a(handle)"],
            "--function and --name-expression are for one source; compile the sources separately, and join the files: devmod bundle",
        ),
    ],
)
def test_options_that_are_for_none_of_the_sources(
    options: list[str], text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.cl").write_text(SOURCE.replace("twice", name))
    sources = (tmp_path / "a.cl", tmp_path / "b.cl", "-t", "opencl", "-o", tmp_path / "both.devmod")
    code, _, err = run(capsys, "compile", *sources, *options)
    assert (code, err.splitlines()[-1]) == (2, f"devmod: error: {text}")
    assert not (tmp_path / "both.devmod").exists()


def test_the_default_output_is_the_stem_in_this_folder(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "k.cl").write_text(SOURCE)
    done = shell("compile", Path("src", "k.cl"), "-t", "opencl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "k.devmod").exists()


def test_another_suffix_writes_the_raw_payload(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "k.cl").write_text(SOURCE)
    assert run(
        capsys, "compile", "-q", tmp_path / "k.cl", "-t", "opencl", "-o", tmp_path / "raw.cl"
    ) == (0, "", "")
    assert (tmp_path / "raw.cl").read_text() == SOURCE
    assert list(devmod.load_metadata_from_json((tmp_path / "raw.tvm_meta.json").read_text())) == [
        "twice"
    ]
    (tmp_path / "l.cl").write_text(SOURCE.replace("twice", "thrice"))
    code, _, err = run(
        capsys,
        "compile",
        tmp_path / "k.cl",
        tmp_path / "l.cl",
        "-t",
        "opencl",
        "-o",
        tmp_path / "two.cl",
    )
    assert code == 2
    assert "two.cl holds one raw payload, and this is 2; choose a name that ends in .devmod" in err


@pytest.mark.parametrize("name", ["k", "k.xyz", "k.ptx"])
def test_an_unknown_output_suffix_is_refused(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "k.cl").write_text(SOURCE)
    code, _, err = run(capsys, "compile", tmp_path / "k.cl", "-t", "opencl", "-o", tmp_path / name)
    assert code == 2
    path = tmp_path / name
    assert (
        f"{path}: opencl has no files of that suffix; choose a name that ends in .devmod, or in .cl for the raw payload"
        in err
    )
    assert [each.name for each in tmp_path.iterdir()] == ["k.cl"]


def test_functions_with_equal_names_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.cl").write_text(SOURCE)
    a, b, out = tmp_path / "a.cl", tmp_path / "b.cl", tmp_path / "both.devmod"
    for arguments, text in (
        (
            [a, b, "-t", "opencl"],
            f"{a} and {b} both have a function 'twice'; rename one, or write two files",
        ),
        (
            [a, a, "-t", "opencl"],
            f"{a} and {a} both have a function 'twice'; rename one, or write two files",
        ),
        ([a, "-t", "opencl", "-t", "opencl"], "the target 'opencl' is given twice"),
    ):
        code, _, err = run(capsys, "compile", *arguments, "-o", out)
        assert (code, text in err) == (2, True), err
    assert not out.exists()


def test_a_source_is_not_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(SOURCE)
    code, _, err = run(
        capsys, "compile", tmp_path / "k.cl", "-t", "opencl", "-o", tmp_path / "k.cl"
    )
    assert code == 2
    assert "is a source; writing to it would overwrite it" in err
    assert (tmp_path / "k.cl").read_text() == SOURCE


def test_a_syntax_error_has_the_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text("__kernel void k(__global float *x) {\n  x[0] = 1\n}\n")
    code, out, err = run(
        capsys, "compile", tmp_path / "k.cl", "-t", "opencl", "-o", tmp_path / "k.devmod"
    )
    assert (code, out) == (1, "")
    assert err.startswith("devmod: error: ")
    assert "k.cl:2:11" in err
    assert not (tmp_path / "k.devmod").exists()


def test_a_function_of_an_extension_is_a_warning(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "k.cl").write_text(
        "__kernel void k(__global float *x) { x[0] = qcom_special(x[0]); }\n"
    )
    code, _, err = run(
        capsys, "compile", tmp_path / "k.cl", "-t", "opencl", "-o", tmp_path / "k.devmod"
    )
    assert code == 0
    assert err.startswith("devmod: warning: ")
    assert "qcom_special" in err
    assert "UserWarning" not in err


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        (
            "opencl2",
            "Did you mean 'opencl'? The targets here: cuda, hexagon, metal, opencl, rocm, vulkan, webgpu",
        ),
        ("opensea", "The targets here: cuda, hexagon, metal, opencl, rocm, vulkan, webgpu"),
    ],
)
def test_an_unknown_target(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, target: str, advice: str
) -> None:
    (tmp_path / "k.cl").write_text(SOURCE)
    assert run(capsys, "compile", tmp_path / "k.cl", "-t", target, "-o", tmp_path / "k.devmod") == (
        1,
        "",
        f"devmod: error: devmod.targets.{target} is not registered, and no known distribution provides it; by convention it would be "
        f"devmod-{target}; install that only if you trust its publisher. {advice}\n",
    )


def test_errors_name_the_options_of_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = tmp_path / "k.comp"
    source.write_text(SOURCE)
    code, _, err = run(capsys, "compile", source, "-t", "opencl", "-o", tmp_path / "k.devmod")
    assert (code, err) == (
        1,
        "devmod: error: k.comp is GLSL by its suffix, a source for vulkan; opencl takes OpenCL C (.cl). If the suffix is wrong, pass "
        "the language: --language 'OpenCL C'\n",
    )
    for language in ("OpenCL C", "cl"):
        assert run(
            capsys,
            "compile",
            "-q",
            source,
            "-t",
            "opencl",
            "--language",
            language,
            "-o",
            tmp_path / "k.devmod",
        ) == (0, "", "")
    missing = tmp_path / "missing"
    assert run(capsys, "compile", source, "-t", "opencl", "--language", "cl", "-I", missing) == (
        1,
        "",
        f"devmod: error: -I has '{missing}', which is not a folder\n",
    )


def test_standard_input_and_output(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(SOURCE)
    begin = [sys.executable, "-m", "devmod", "compile", "-", "-t", "opencl"]

    def compiled(
        *arguments: str, data: bytes = SOURCE.encode()
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*begin, *arguments], input=data, capture_output=True, check=False, cwd=tmp_path
        )

    done = compiled("-o", "-")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == devmod.dumps(devmod.compile(SOURCE, "opencl"))
    done = compiled("-o", "k.devmod")
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(devmod.load(tmp_path / "k.devmod").functions) == ["twice"]
    for arguments, data, code, text in (
        (
            [],
            SOURCE.encode(),
            2,
            "the source is standard input, so the file to write needs a name: -o FILE, or -o - for standard output",
        ),
        (["-", "-o", "-"], SOURCE.encode(), 2, "standard input (-) is given twice as a source"),
        (
            ["-o", "-"],
            b"\xff",
            1,
            "standard input:1: the source is not UTF-8: byte 0xff outside of a comment",
        ),
    ):
        done = compiled(*arguments, data=data)
        assert (done.returncode, done.stdout) == (code, b"")
        assert text in done.stderr.decode()
    closed = subprocess.run(
        ["/bin/sh", "-c", f"'{sys.executable}' -m devmod inspect - <&-"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert closed.returncode == 2
    assert closed.stderr.endswith(
        "\ndevmod: error: the file is standard input (-), which is closed; redirect a file or a pipe to it\n"
    )
    with_terminal = "import sys; from devmod_workbench._cli import main; code = main(['compile', 'k.cl', '-t', 'opencl', '-o', '-']); print(code); sys.exit(0)"
    said = in_a_terminal([f"import os; os.chdir({str(tmp_path)!r}); {with_terminal}"], {})
    assert (
        "the output is standard output (-), which is a terminal; redirect it to a file or a pipe"
        in " ".join(said.split())
    )


# -- tables


def in_a_terminal(arguments: list[str], env: dict[str, str]) -> str:
    """Return the output of the command in a terminal."""
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals on this system")
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", *arguments], stdout=follower, stderr=follower, env=os.environ | env
    ) as process:
        os.close(follower)
        said = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not part:
                break
            said += part
    os.close(leader)
    assert process.returncode == 0, said
    return said.decode()


LIST = "import sys; from devmod_workbench._cli import main; sys.exit(main(['plugins', '--all', '--no-import']))"


def test_a_closed_output_is_not_an_error() -> None:
    command = f"'{sys.executable}' -m devmod plugins --all --no-import >&-"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_table_has_borders_in_a_terminal_with_rich_alone() -> None:
    pytest.importorskip("rich", reason="rich is not installed (devmod-core[cli])")
    env = {"COLUMNS": "140", "TERM": "xterm-256color"}
    drawn = in_a_terminal([LIST], env)
    assert "━┳━" in drawn
    plain = in_a_terminal(["import sys; sys.modules['rich.console'] = None; " + LIST], env)
    assert plain.startswith("group ")
    assert "┃" not in plain
    assert "devmod.targets" in drawn
    assert "devmod.targets" in plain
    piped = subprocess.run(
        [sys.executable, "-c", LIST], capture_output=True, text=True, check=True
    ).stdout
    assert piped == plain.replace("\r\n", "\n")
