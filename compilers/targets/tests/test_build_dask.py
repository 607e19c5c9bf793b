"""A build on a Dask cluster: a real one, of worker processes on this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from build_project import plan_in, wait_for, write_kernels

import devmod
from devmod_targets.build import jobs
from devmod_targets.build.build import build_plan
from devmod_targets.build.plan import Job

pytestmark = [
    pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed"),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.xdist_group("dask"),
]  # distributed's own warnings
WORKERS = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    import distributed  # takes longer than the collection of a hundred files

    with distributed.LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))


def statuses(result: Any) -> list[str]:
    return [each.status for each in result.results]


def test_the_file_is_that_of_a_local_build_and_includes_travel_with_the_job(
    tmp_path: Path, cluster: Any
) -> None:
    manifest = write_kernels(tmp_path / "p", 4)
    (tmp_path / "inc" / "deep").mkdir(parents=True)
    (tmp_path / "inc" / "deep" / "b.h").write_text("#define TWO 2\n")
    (tmp_path / "inc" / "a.h").write_text('#include "deep/b.h"\n')
    (tmp_path / "p" / "k1.cl").write_text(
        "#include <a.h>\nkernel void k1(global float *x) { x[0] *= TWO; }\n"
    )
    (tmp_path / "p" / "k3.cl").write_text("not a kernel\n")
    manifest.write_text(
        manifest.read_text().replace("[kernels.k1]", '[kernels.k1]\ninclude = ["../inc"]')
    )
    remote = devmod.build(
        manifest,
        dask=cluster.scheduler_address,
        cache=False,
        output=tmp_path / "remote.devmod",
        partial=True,
    )
    local = devmod.build(manifest, cache=False, output=tmp_path / "local.devmod", partial=True)
    assert statuses(remote) == ["compiled", "compiled", "compiled", "failed"]
    assert (tmp_path / "remote.devmod").read_bytes() == (tmp_path / "local.devmod").read_bytes()
    assert [(each.message, each.log, each.line) for each in remote.failures] == [
        (each.message, each.log, each.line) for each in local.failures
    ]


def test_a_killed_worker_costs_its_own_jobs_alone(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost, and no more is compiled twice than the worker had."""
    count = 60
    write_kernels(tmp_path / "p", count)
    plan = plan_in(
        tmp_path / "p",
        *(
            Job(f"k{number}", str(tmp_path / "p"), f"k{number}.cl", "opencl")
            for number in range(count)
        ),
    )
    runs = tmp_path / "runs"
    runs.mkdir()
    monkeypatch.setattr(jobs, "attempt", _noting(str(runs)))

    def done() -> dict[int, list[str]]:
        result: dict[int, list[str]] = {}
        for path in runs.iterdir():
            kernel, pid, _ = path.name.split(".")
            result.setdefault(int(pid), []).append(kernel)
        return result

    killed: list[int] = []

    def kill_one() -> None:
        wait_for(lambda: len(done()) == WORKERS and sum(map(len, done().values())) >= count // 3)
        killed.append(min(done()))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    result = build_plan(plan, dask=cluster.scheduler_address)
    killer.join()
    assert statuses(result) == ["compiled"] * count
    assert [list(module) for module in devmod.load(result.output).imports] == [
        [f"k{number}"] for number in range(count)
    ]
    per_worker = done()
    again = sum(map(len, per_worker.values())) - count
    assert 0 <= again <= len(per_worker[killed[0]])


def test_workers_with_other_compilers_are_an_error(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "attempt", _other_toolchain())
    manifest = write_kernels(tmp_path / "p", 1)
    result = devmod.build(manifest, dask=cluster.scheduler_address)
    (failure,) = result.failures
    assert failure.error == "ClusterError"
    assert failure.message.startswith(
        "the workers of the cluster have different compilers, and their results would differ: one has devmod-core "
    )
    assert failure.message.endswith(
        "another another compiler 2.0. Install the same versions on all"
    )
    assert not (tmp_path / "p" / "k.devmod").exists()


@pytest.mark.parametrize(
    ("include", "reason"),
    [
        ('#include "link/a.h"\n', "an include leads through a linked folder"),
        (
            "#define TEXT(x) #x\n#if __has_include(TEXT(a.h))\n#endif\n",
            "an include, or a test for a file, may name its file in a way that devmod does not evaluate, such as a macro",
        ),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="symbolic links need a privilege on Windows")
def test_a_job_whose_files_are_not_certain_is_an_error(
    tmp_path: Path, cluster: Any, include: str, reason: str
) -> None:
    """On a worker, the compiler would see other files, without an error."""
    manifest = write_kernels(tmp_path / "p", 2)
    (tmp_path / "p" / "inc").mkdir()
    (tmp_path / "p" / "inc" / "a.h").write_text("")
    (tmp_path / "p" / "link").symlink_to("inc")
    source = tmp_path / "p" / "k1.cl"
    source.write_text(include + source.read_text())
    result = devmod.build(manifest, dask=cluster.scheduler_address)
    assert sorted(statuses(result)) == ["compiled", "failed"]
    assert [(each.error, each.message) for each in result.failures] == [
        (
            "ClusterError",
            f"k1.cl cannot be compiled on a cluster, because its files are not certain: {reason}. Compile it without --dask",
        )
    ]


def test_the_results_are_in_the_cache_of_the_client(tmp_path: Path, cluster: Any) -> None:
    manifest = write_kernels(tmp_path / "p", 2)
    assert statuses(devmod.build(manifest, dask=cluster.scheduler_address)) == ["compiled"] * 2
    (tmp_path / "p" / "k.devmod").unlink()
    assert statuses(devmod.build(manifest, dask=cluster.scheduler_address)) == ["cached"] * 2


def _noting(folder: str) -> Any:
    """Return a task that is sent to the workers by value, and notes each run in a folder."""

    def task(job: Any, files: Any, *, with_sources: bool) -> Any:
        import os
        import time

        from devmod_targets.build.jobs import attempt

        result = attempt(job, files, with_sources=with_sources)
        time.sleep(0.05)
        with open(os.path.join(folder, f"{job.kernel}.{os.getpid()}.{time.time_ns()}"), "w"):
            pass
        return result

    return task


def _other_toolchain() -> Any:
    def task(job: Any, files: Any, *, with_sources: bool) -> Any:
        from devmod_targets.build.jobs import attempt

        return attempt(job, files, with_sources=with_sources)._replace(
            toolchain="another compiler 2.0"
        )

    return task
