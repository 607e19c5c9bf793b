"""`devmod.build`: what is compiled again, what is written, and what stands after a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from build_project import KERNEL, write_kernels
from each_case import raised, refusal, some

import devmod
from devmod_targets.build.progress import Progress
from devmod_targets.build.result import BuildResult, JobResult

pytestmark = pytest.mark.usefixtures("own_cache")


class Recorder(Progress):
    """Records the sources that are compiled."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def add(self, result: JobResult) -> None:
        self.names.append(result.job.source)


def statuses(result: BuildResult) -> list[str]:
    return [each.status for each in result.results]


def test_a_string_is_one_target(tmp_path: Path) -> None:
    manifest = write_kernels(tmp_path / "p", 1)
    assert [each.job.target for each in devmod.build(manifest, targets="opencl").results] == [
        "opencl"
    ]
    assert (
        refusal(devmod.FormatError, devmod.build, manifest, targets="opncl")
        == f"{manifest} has no target 'opncl'; its targets are 'opencl'. Did you mean 'opencl'?"
    )


def test_an_output_of_another_suffix_is_an_error(tmp_path: Path) -> None:
    manifest = write_kernels(tmp_path / "p", 1)
    assert (
        refusal(devmod.ArgumentError, devmod.build, manifest, output="k.ptx")
        == "the output is a file that ends in .devmod, not 'k.ptx'"
    )


def test_a_build_writes_one_file_with_the_modules_in_the_order_of_the_manifest(
    tmp_path: Path,
) -> None:
    result = devmod.build(write_kernels(tmp_path / "p", 3), workers=2)
    assert (result.output, result.written, result.failures) == (
        str(tmp_path / "p" / "k.devmod"),
        True,
        (),
    )
    assert statuses(result) == ["compiled"] * 3
    root = devmod.load(result.output)
    assert [list(module) for module in root.imports] == [["k0"], ["k1"], ["k2"]]
    assert [list(module) for module in result.modules] == [["k0"], ["k1"], ["k2"]]
    assert all(each.seconds > 0 for each in some(result.results))


def test_the_file_is_the_bundle_of_what_devmod_compile_returns(tmp_path: Path) -> None:
    devmod.build(write_kernels(tmp_path / "p", 2))
    modules = [devmod.compile(tmp_path / "p" / f"k{number}.cl", "opencl") for number in range(2)]
    assert (tmp_path / "p" / "k.devmod").read_bytes() == devmod.dumps(devmod.bundle(*modules))


def test_nothing_is_compiled_or_written_if_nothing_has_changed(tmp_path: Path) -> None:
    manifest = write_kernels(tmp_path / "p")
    first = devmod.build(manifest)
    state = os.stat(first.output)
    again = devmod.build(manifest)
    assert (again.written, statuses(again)) == (False, ["cached", "cached"])
    assert os.stat(first.output) == state
    assert [list(module) for module in again.modules] == [["k0"], ["k1"]]


def test_only_the_changed_kernel_is_compiled_again(tmp_path: Path) -> None:
    manifest = write_kernels(tmp_path / "p", 3)
    before = devmod.build(manifest)
    (tmp_path / "p" / "k1.cl").write_text(KERNEL.format(name="k1", factor=100))
    after = devmod.build(manifest)
    assert statuses(after) == ["cached", "compiled", "cached"]
    assert [module.inspect_source() for module in after.modules][1] != [
        module.inspect_source() for module in before.modules
    ][1]
    (tmp_path / "p" / "k1.cl").write_text(KERNEL.format(name="k1", factor=3))
    assert statuses(devmod.build(manifest)) == ["cached"] * 3


@pytest.mark.parametrize(
    "change",
    [
        "defines = { N = 3 }",
        'options = ["-cl-fast-relaxed-math"]',
        "block = 64",
        'include = ["inc"]',
    ],
)
def test_settings_belong_to_the_key_and_the_folder_of_the_project_does_not(
    tmp_path: Path, change: str
) -> None:
    manifest = write_kernels(tmp_path / "p", 1)
    (tmp_path / "p" / "inc").mkdir()
    devmod.build(manifest)
    manifest.write_text(manifest.read_text() + change + "\n")
    assert statuses(devmod.build(manifest)) == ["compiled"]
    (tmp_path / "p").rename(tmp_path / "another")
    assert statuses(devmod.build(tmp_path / "another")) == ["cached"]


def test_a_changed_output_is_written_again_from_the_cache(tmp_path: Path) -> None:
    result = devmod.build(write_kernels(tmp_path / "p"))
    output = Path(result.output)
    good = output.read_bytes()
    for damage in (b"", good[:-1], good[:-1] + b"?"):
        output.write_bytes(damage)
        again = devmod.build(tmp_path / "p")
        assert (again.written, statuses(again), output.read_bytes()) == (
            True,
            ["cached", "cached"],
            good,
        )
    output.unlink()
    assert devmod.build(tmp_path / "p").written
    assert output.read_bytes() == good


def test_a_failure_does_not_end_the_other_jobs_and_leaves_the_old_file(tmp_path: Path) -> None:
    manifest = write_kernels(tmp_path / "p", 3)
    output = Path(devmod.build(manifest).output)
    good = output.read_bytes()
    for number in (0, 2):
        (tmp_path / "p" / f"k{number}.cl").write_text(KERNEL.format(name=f"k{number}", factor=50))
    (tmp_path / "p" / "k1.cl").write_text("\nkernel void k1(global float *x) { x[0] = ; }\n")
    result = devmod.build(manifest)
    assert (statuses(result), result.written) == (["compiled", "failed", "compiled"], False)
    (failure,) = result.failures
    assert (failure.error, failure.file, failure.line) == ("CompileError", "k1.cl", 2)
    assert (
        str(failure)
        == "k1.cl for opencl: the OpenCL C source does not compile: k1.cl:2:42: error: expected expression"
    )
    assert output.read_bytes() == good
    error = raised(devmod.CompileError, result.raise_for_failures)
    assert str(error) == f"1 of 3 compiles failed: {failure}"
    assert error.log == str(failure)
    (tmp_path / "p" / "k1.cl").write_text(KERNEL.format(name="k1", factor=3))
    assert statuses(devmod.build(manifest)) == ["cached"] * 3


def test_a_partial_build_writes_what_succeeded(tmp_path: Path) -> None:
    manifest = write_kernels(tmp_path / "p", 2)
    (tmp_path / "p" / "k0.cl").write_text("not a kernel")
    result = devmod.build(manifest, partial=True)
    assert (statuses(result), result.written) == (["failed", "compiled"], True)
    assert list(devmod.load(result.output)) == ["k1"]
    again = devmod.build(manifest, partial=True)
    assert (statuses(again), again.written) == (["failed", "cached"], True)


def test_a_missing_toolchain_fails_its_target_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = write_kernels(tmp_path / "p", 1)
    manifest.write_text(
        manifest.read_text()
        .replace('"opencl"]', '"vulkan", "opencl"]')
        .replace('"k0.cl"]', '"k0.cl", "k0.comp"]')
    )
    manifest.write_text(manifest.read_text() + '[target.vulkan]\noptions = ["--compiler=glslc"]\n')
    (tmp_path / "p" / "k0.comp").write_text("#version 450\nvoid main() {}\n")
    monkeypatch.setenv("PATH", "")
    result = devmod.build(manifest, partial=True)
    assert sorted(statuses(result)) == ["compiled", "failed"]
    (failure,) = result.failures
    assert (failure.error, failure.job.target) == ("ToolchainNotFoundError", "vulkan")
    assert failure.message.startswith(
        "cannot compile the GLSL source k0.comp: glslc is not installed. To add it: "
    )
    assert [module.kind for module in result.modules] == ["opencl"]


def test_a_source_that_disappears_is_a_failure_of_its_job(tmp_path: Path) -> None:
    manifest = write_kernels(tmp_path / "p", 2)
    from devmod_targets.build import plan_of, read_manifest
    from devmod_targets.build.build import build_plan

    plan = plan_of(read_manifest(manifest))
    (tmp_path / "p" / "k0.cl").unlink()
    result = build_plan(plan, partial=True)
    assert statuses(result) == ["failed", "compiled"]
    assert str(result.failures[0]) == "k0.cl for opencl: k0.cl: No such file or directory"


def test_a_result_is_not_stored_if_a_file_changed_during_the_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler may have read another text than the key has."""
    from devmod_targets.build import pool

    manifest = write_kernels(tmp_path / "p", 1)
    run = pool.Pool.run
    other = KERNEL.format(name="k0", factor=77)

    def change_first(self: pool.Pool, jobs: object) -> object:
        (tmp_path / "p" / "k0.cl").write_text(other)
        return run(self, jobs)  # type: ignore[arg-type]

    monkeypatch.setattr(pool.Pool, "run", change_first)
    devmod.build(manifest)
    monkeypatch.undo()
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "p" / "k0.cl").write_text(KERNEL.format(name="k0", factor=2))
    result = devmod.build(manifest)
    assert statuses(result) == ["compiled"]
    assert "*= 2" in result.modules[0].inspect_source()


def test_equal_jobs_are_compiled_once(tmp_path: Path) -> None:
    from build_project import note_and_compile, plan_in, run_count

    from devmod_targets.build import jobs
    from devmod_targets.build.build import build_plan
    from devmod_targets.build.plan import Job

    write_kernels(tmp_path / "p", 1)
    job = Job("k0", str(tmp_path / "p"), "k0.cl", "opencl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "attempt", note_and_compile)
        result = build_plan(plan_in(tmp_path / "p", job, job))
    assert statuses(result) == ["compiled", "compiled"]
    assert run_count(job) == 1
    assert list(devmod.load(result.output)) == ["k0"]


def test_an_output_in_a_missing_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    error = raised(
        FileNotFoundError,
        lambda: devmod.build(
            write_kernels(tmp_path / "p", 1), output=tmp_path / "missing" / "k.devmod"
        ),
    )
    assert error.filename == f"{tmp_path}/missing/"


@pytest.mark.parametrize(
    ("output", "error", "name", "reason"),
    [
        ("missing/k.devmod", FileNotFoundError, "missing/", "No such file or directory"),
        ("file/k.devmod", NotADirectoryError, "file/", "Not a directory"),
        ("folder.devmod", IsADirectoryError, "folder.devmod", "Is a directory"),
        ("loop.devmod", OSError, "loop.devmod", "Too many levels of symbolic links"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="the texts are those of POSIX")
def test_an_output_that_cannot_be_written_is_an_error_before_the_first_compile(
    tmp_path: Path, output: str, error: type[OSError], name: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.devmod").mkdir()
    (tmp_path / "loop.devmod").symlink_to("loop.devmod")
    progress = Recorder()
    refused = raised(
        error,
        lambda: devmod.build(
            write_kernels(tmp_path / "p", 1), output=tmp_path / output, progress=progress
        ),
    )
    assert (refused.filename, refused.strerror) == (f"{tmp_path}/{name}", reason)
    assert progress.names == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("locked", ["folder", "folder/k.devmod"])
def test_a_missing_permission_is_an_error_before_the_first_compile(
    tmp_path: Path, locked: str
) -> None:
    (tmp_path / "folder").mkdir()
    output = tmp_path / "folder" / "k.devmod"
    output.touch()
    (tmp_path / locked).chmod(0o555)
    progress = Recorder()
    try:
        with pytest.raises(PermissionError) as caught:
            devmod.build(write_kernels(tmp_path / "p", 1), output=output, progress=progress)
    finally:
        (tmp_path / "folder").chmod(0o755)
    assert (caught.value.filename, caught.value.strerror) == (str(output), "Permission denied")
    assert progress.names == []


def test_a_current_file_in_a_folder_without_write_permission_is_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = write_kernels(tmp_path / "p", 1)
    devmod.build(manifest)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert not devmod.build(manifest).written


def test_the_number_of_workers_is_checked(tmp_path: Path) -> None:
    assert (
        refusal(devmod.ArgumentError, devmod.build, write_kernels(tmp_path / "p", 1), workers=0)
        == "workers= is a number of processes, 1 or more, not 0"
    )


def test_devmod_build_names_the_missing_wheel() -> None:
    program = (
        "import sys\n"
        "class NoBuildSide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'devmod_targets':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, NoBuildSide())\n"
        "import devmod\ntry:\n    devmod.build()\nexcept devmod.ToolchainNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert (
        done.stdout
        == 'nothing can be built here: devmod-targets is not installed. To add it: pip install "devmod-core[build]"\n'
    )
