"""The build of a manifest: keys, cache, workers, and the bundle."""

from __future__ import annotations

import json
import os
import warnings
from contextlib import ExitStack, suppress
from functools import partial as partial_call

import devmod
from devmod.backend import DiskCache, file_name, loads_own, path_problem, read_tuning_file
from devmod.errors import FormatError, count_text, list_names
from devmod.plugins import shared_scan
from devmod.worker import processors
from devmod_targets._executables import clear_caches, file_digest
from devmod_targets._paths import below
from devmod_targets.build import toolchains
from devmod_targets.build.cache import CacheError, job_key, open_entries, pack_entry, unpack_entry
from devmod_targets.build.closure import Closure, SourceTree, closure_of
from devmod_targets.build.document import ManifestError
from devmod_targets.build.error_texts import bundle_text
from devmod_targets.build.plan import Job, Plan, check_functions, check_main, plan_of
from devmod_targets.build.progress import Progress
from devmod_targets.build.read import read_manifest
from devmod_targets.build.result import BuildResult, JobResult, Outcome, result_of
from devmod_targets.writable import check_writable, noting_interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from devmod import Module
    from devmod_targets.build.cache import Entries
    from devmod_targets.build.cluster import Cluster
    from devmod_targets.build.manifest import Manifest

    _Path = str | os.PathLike[str]
    #: The place of a cache: its folder or its URL, True for the user's, False for none.
    _Cache = _Path | bool
    #: Groups of tasks with one compile each, and the outcomes with the numbers of the groups.
    _Compiles = tuple[list[list["Task"]], Iterator[tuple[int, Outcome]]]

#: The longest wait of an interrupted build for the writes to its cache, in seconds.
_GRACE = 10
#: The digests of bundles, and the warnings and reports of their jobs, by `record_of` their inputs.
_RECORDS = DiskCache("build")


def build_manifest(
    manifest: _Path = ".",
    *,
    targets: str | Iterable[str] = (),
    strict: bool = False,
    partial: bool = False,
    **options: Any,
) -> BuildResult:
    """Build the kernels of a manifest into one file. The compiles run in worker processes; their
    results are cached by their inputs.

    If a compile fails, the others go on, and the file is not written. It is written whole or not at
    all.

    Parameters
    ----------
    manifest
        The manifest, or its folder.
    targets
        The targets to build, each a kind or a target of the manifest; a string is one. Default:
        all.
    output
        The file to write. Default: that of the manifest, which must be in its folder, and behind no
        symbolic link there.
    workers
        The largest number of worker processes. Default: the number of processors.
    cache
        The folder or the URL of the cache; False for none. Default: DEVMOD_BUILD_CACHE, else
        devmod's cache folder.
    dask
        The address of the scheduler of a Dask cluster, which compiles in place of this machine.
    or_local
        Whether to use this machine, with a warning, if the cache or the cluster cannot be reached.
    partial
        Whether to write the file also if some compiles, or some kernels of OpenCL C for Vulkan,
        fail.
    strict
        Whether to compile all kernels with the option ``--strict``, as with ``strict = true`` in
        the manifest.
    allow_python
        Whether to execute the Python sources of the manifest, which are in Triton's language. A
        manifest may come from a stranger.
    progress
        Receives the results as they come: an instance of a subclass of
        `devmod_targets.build.progress.Progress`.

    Returns
    -------
    BuildResult
        Its `failures` are the compiles that failed; `raise_for_failures` raises them.

    Raises
    ------
    FormatError
        The manifest has mistakes, its output is behind a symbolic link, it has a Python source
        without `allow_python`, or the kernels do not fit into one file.
    CacheError, ClusterError
        The cache or the cluster cannot be used. Both are RuntimeErrors of devmod.
    KeyboardInterrupt
        Ctrl-C. Its note has the number of finished compiles.
    OSError
        The file cannot be written. A missing folder and a missing permission are found before the
        first compile.
    """
    plan = plan_of(read_manifest(manifest), targets, strict=strict, partial=partial)
    return build_plan(plan, partial=partial, **options)


def build_plan(
    plan: Plan,
    output: _Path | None = None,
    workers: int | None = None,
    *,
    cache: _Cache = True,
    dask: str = "",
    or_local: bool = False,
    partial: bool = False,
    allow_python: bool = False,
    progress: Progress | None = None,
) -> BuildResult:
    """Build a plan. The parameters are those of `build_manifest`."""
    if workers is not None and workers < 1:
        raise devmod.ArgumentError(
            f"workers= is a number of processes, 1 or more, not {workers!r}", argument="workers"
        )
    if output is None:
        path = plan.output
        within = plan.manifest.folder
    else:
        path = os.path.abspath(file_name(output))
        within = ""
    if not path.endswith(".devmod"):
        raise devmod.ArgumentError(
            f"the output is a file that ends in .devmod, not {os.fsdecode(output or path)!r}",
            argument="output",
        )
    if not allow_python:
        _check_sources(plan)
    build = _Build(plan, path, within, workers or processors(), progress or Progress())
    return build.run(cache, dask, or_local, partial)


def _check_sources(plan: Plan) -> None:
    """Raise FormatError if the build would execute a source of the manifest, also where the cache
    has its result.
    """
    if plan.triton_targets:
        raise FormatError(
            f"{plan.manifest.path} is not built: the compile of {list_names(plan.manifest.triton_records)} imports the modules of Triton's "
            "functions. A manifest may come from a stranger, so look at them, and then allow it: devmod build --allow-python, or "
            "devmod.build(allow_python=True)"
        )
    job = next(filter(toolchains.executes_source, plan.jobs), None)
    if job is not None:
        raise FormatError(
            f"{plan.manifest.path} is not built: {job.source!r} of the kernel {job.kernel!r} is a Python file, and its compile for "
            f"{job.kind} executes it. A manifest may come from a stranger, so look at the file, and then allow it: "
            "devmod build --allow-python, or devmod.build(allow_python=True)"
        )


class _Build:
    """One run of a build: its tasks with their results, its cache, and the warnings so far."""

    def __init__(
        self, plan: Plan, output: str, within: str, workers: int, progress: Progress
    ) -> None:
        self._plan = plan
        self._output = output
        self._within = within
        self._workers = workers
        self._progress = progress
        self._tasks = [Task(job) for job in plan.jobs]
        self._problems: list[str] = []
        self._triton_kernels = 0
        self._entries: Entries | None = None

    def run(self, cache: _Cache, dask: str, or_local: bool, partial: bool) -> BuildResult:
        clear_caches()
        if self._within:
            check_output(self._plan)
        # The loader of the constants in each entry with warnings is looked up.
        with shared_scan(), ExitStack() as stack:
            self._entries = self._open_cache(cache, or_local)
            cluster = self._open_cluster(dask, or_local)
            if cluster is not None:
                stack.enter_context(cluster)
            unreadable = self._find_inputs(cluster)
            for text in self._plan.warnings:
                self._report(text)
            record = self._record()
            if record:
                texts = texts_of_current(self._output, record)
                if texts is not None:
                    return self._unchanged(texts)
            check_writable(self._output)
            workers = cluster.workers if cluster else self._workers
            self._progress.begin(self._plan.jobs, workers)
            stack.callback(self._progress.close)
            for text in self._plan.notes:
                self._progress.report(text)
            for task, error in unreadable:
                message = f"{task.job.source}: {error.strerror}"
                self._end(task, "failed", Outcome(error=type(error).__name__, message=message))
            try:
                self._build(cluster)
                self._close_cache()
            except BaseException as error:
                with suppress(KeyboardInterrupt):  # a further Ctrl-C ends the wait
                    self._close_cache(_GRACE)
                if isinstance(error, KeyboardInterrupt):
                    error.add_note(self._interrupted())
                raise
        return self._write(partial, record)

    # -- inputs

    def _open_cache(self, place: _Cache, or_local: bool) -> Entries | None:
        try:
            return open_entries(place)
        except CacheError as error:
            if not or_local:
                raise
            self._report(f"{error}. The local cache is used")
            return open_entries(default=True)

    def _open_cluster(self, address: str, or_local: bool) -> Cluster | None:
        if not address:
            return None
        from devmod_targets.build.cluster import Cluster, ClusterError

        try:
            return Cluster(address)
        except ClusterError as error:
            if not or_local:
                raise
            self._report(f"{error}. The build runs on this machine")
            return None

    def _find_inputs(self, cluster: Cluster | None) -> list[tuple[Task, OSError]]:
        """Find the inputs of each task. Return the tasks whose source cannot be read."""
        result = []
        tree = SourceTree()
        versions: Callable[[Job], str] = toolchains.toolchain_of
        if cluster is not None:
            versions = cluster.toolchain_of([task.job for task in self._tasks])
        for task in self._tasks:
            try:
                task.find_inputs(tree, versions, with_sources=self._plan.manifest.with_sources)
            except OSError as error:
                result.append((task, error))
        return result

    # -- an unchanged build

    def _record(self) -> str:
        """Return the key of the bundle's digest; "" if an input is unknown, or there is no
        cache.
        """
        keys = [task.key for task in self._tasks]
        # What a record of Triton's kernels imports is unknown here.
        if self._entries is None or not all(keys) or self._plan.triton_targets:
            return ""
        return record_of(self._plan.manifest, keys)

    def _unchanged(self, texts: Sequence[tuple[Sequence[str], Sequence[str]]]) -> BuildResult:
        for task, (own_warnings, reports) in zip(self._tasks, texts, strict=True):
            self._end(task, "cached", Outcome(warnings=tuple(own_warnings), reports=tuple(reports)))
        return self._result()

    # -- jobs

    def _build(self, cluster: Cluster | None) -> None:
        """Use the cached results, and compile the rest. Workers start first: they import their
        compilers in the meantime.
        """
        entries = {}
        if self._entries is not None:
            keys = dict.fromkeys(task.key for task in self._tasks if task.key)
            entries = self._entries.read_all(list(keys))
        with ExitStack() as stack:
            absent = [task for task in self._tasks if not entries.get(task.key)]
            compiles = self._start(absent, cluster, stack)
            damaged_tasks = self._use_cached(entries)
            self._finish(compiles)
            self._finish(self._start(damaged_tasks, cluster, stack))

    def _use_cached(self, entries: dict[str, bytes | None]) -> list[Task]:
        """Complete the tasks with an entry in the cache. Return those with a damaged entry."""
        result = []
        for task in self._tasks:
            data = entries.get(task.key)
            if data is None:
                continue
            try:
                task.module, outcome = task.read_entry(data)
            except FormatError as error:
                self._report(
                    f"the cached result of {task.job} is damaged, and is compiled again: {error}"
                )
                result.append(task)
                continue
            self._end(task, "cached", outcome)
        return result

    def _start(self, tasks: Sequence[Task], cluster: Cluster | None, stack: ExitStack) -> _Compiles:
        """Start the compiles of tasks without a result. Tasks with equal keys are compiled once."""
        groups: dict[str, list[Task]] = {}
        for at, task in enumerate(tasks):
            if task.result is None:
                groups.setdefault(task.key or str(at), []).append(task)
        members = list(groups.values())
        if not members:
            return members, iter(())
        return members, self._outcomes([group[0] for group in members], cluster, stack)

    def _outcomes(
        self, tasks: Sequence[Task], cluster: Cluster | None, stack: ExitStack
    ) -> Iterator[tuple[int, Outcome]]:
        """Start the compiles of tasks, and return an iterator of their numbers and outcomes."""
        from devmod_targets.build.jobs import attempt

        jobs = [task.job for task in tasks]
        with_sources = self._plan.manifest.with_sources
        if cluster is not None:
            closures = [task.closure for task in tasks if task.closure is not None]
            return cluster.run(jobs, closures, partial_call(attempt, with_sources=with_sources))
        if len(jobs) == 1 and toolchains.is_process(jobs[0]):
            # A worker would take longer to start than to compile.
            return ((0, attempt(job, with_sources=with_sources)) for job in jobs)
        from devmod_targets.build.pool import Pool

        pool = stack.enter_context(Pool(self._workers, attempt, with_sources=with_sources))
        return pool.run(jobs)

    def _finish(self, compiles: _Compiles) -> None:
        """Wait for the compiles. Complete their tasks, and write the results to the cache."""
        members, outcomes = compiles
        for number, outcome in outcomes:
            # First: what counts as compiled is in the cache, also after Ctrl-C.
            note = self._store(members[number][0], outcome)
            if note:
                outcome = outcome._replace(reports=(*outcome.reports, note))
            for task in members[number]:
                if outcome.data:
                    task.module = loads_own(outcome.data)
                status = "compiled"
                if outcome.error:
                    status = "failed"
                self._end(task, status, outcome)

    def _store(self, task: Task, outcome: Outcome) -> str:
        """Write a result to the cache. Return why it is not written, or "" if the user need not
        know.
        """
        if self._entries is None or outcome.error:
            return ""
        assert task.closure is not None
        problem = task.storing_problem(outcome)
        # The compiler may have read other text than the key has.
        if problem or not task.closure.is_current:
            task.key = ""
        if task.key:
            self._entries.write(task.key, pack_entry(outcome))
        return problem and f"{task.job.source} is not cached: {problem}"

    def _end(self, task: Task, status: str, outcome: Outcome) -> None:
        """Set the result of a task and show it."""
        task.result = result_of(task.job, status, outcome)
        self._progress.add(task.result)

    def _result(self, modules: tuple[Module, ...] | None = None) -> BuildResult:
        results = tuple(task.result for task in self._tasks if task.result is not None)
        return BuildResult(self._output, results, tuple(self._problems), modules)

    def _close_cache(self, seconds: float | None = None) -> None:
        """Complete the writes to the cache, in at most so many seconds."""
        entries = self._entries
        if entries is None:
            return
        if seconds is not None and entries.unwritten:
            results = count_text(entries.unwritten, "result")
            self._progress.note(
                f"writing {results} to the cache, for {seconds:g} seconds at most; Ctrl-C ends it"
            )
        entries.close(seconds)
        self._report(entries.problem)

    def _interrupted(self) -> str:
        done = sum(task.result is not None and task.result.failure is None for task in self._tasks)
        text = f"interrupted: {done} of {len(self._tasks)} compiled"
        if not done or self._entries is None or self._entries.problem:
            return text
        unwritten = self._entries.unwritten
        if unwritten:
            verb = "was" if unwritten == 1 else "were"
            return f"{text}; {unwritten} of the results {verb} not written to the cache"
        return f"{text}; the results written so far are in the cache"

    def _report(self, text: str) -> None:
        if text:
            self._problems.append(text)
            self._progress.warn(text)

    # -- the bundle

    def _write(self, partial: bool, record: str) -> BuildResult:
        built = [(task.job, task.module) for task in self._tasks if task.module is not None]
        # Equal jobs have one module.
        unique = {}
        for _, module in built:
            for each in candidates_of(module):
                unique[id(each)] = each
        modules = tuple(unique.values())
        result = self._result(modules)
        complete = not result.failures
        plan = self._plan
        has_content = bool(
            modules or plan.triton_targets or (complete and plan.manifest.constants.files)
        )
        if not has_content or not (complete or partial):
            return result
        check_functions(built)
        if complete:
            check_main(built)
        left_out = self._save(built, modules, complete=complete)
        result.written = True
        result.triton_kernels = self._triton_kernels
        for text in left_out:
            self._report(text)
        result.problems = tuple(self._problems)
        # A source may have changed since its key was made.
        if record and complete and not left_out and record == self._record():
            texts = [(each.warnings, each.reports) for each in result.results]
            _RECORDS.write(record, json.dumps([file_digest(self._output), texts]).encode())
        return result

    def _save(
        self, built: Sequence[tuple[Job, Module]], modules: Sequence[Module], *, complete: bool
    ) -> list[str]:
        """Write the bundle. Return the reason for each program that is left out."""
        try:
            with warnings.catch_warnings(record=True) as records:
                warnings.simplefilter("always", UserWarning)
                nodes = [*modules]
                lines: list[str] = []
                if self._plan.triton_targets:
                    own, lines = self._record_modules()
                    nodes += own
                    self._triton_kernels = sum(each.kind != "const_loader" for each in own)
                left_out = save_bundle(
                    self._plan, nodes, self._output, self._within, complete=complete
                )
                left_out += lines
        except ManifestError:
            raise
        except FormatError as error:
            error.args = (bundle_text(str(error), built),)
            raise
        for each in records:
            self._report(bundle_text(str(each.message), built))
        return left_out

    def _record_modules(self) -> tuple[list[Module], list[str]]:
        """Compile the records of Triton's kernels. Return the modules, and a line for each kernel
        that cannot be compiled: Triton compiles it where it is launched.
        """
        from devmod_targets.triton.package import record_modules

        manifest = self._plan.manifest
        return record_modules(
            [below(manifest.folder, path) for path in manifest.triton_records],
            [manifest.folder, *(below(manifest.folder, each) for each in manifest.section.include)],
            self._plan.triton_targets,
            self._workers,
            cache=self._entries is not None,
        )


def rows_of(plan: Plan, cache: _Cache = True) -> list[tuple[str, str, str, str]]:
    """Return the kernel, the source, the target and the status of each job: "cached", "compile", or
    "missing" without a source. A record of Triton's kernels is both kernel and source.
    """
    clear_caches()
    entries = open_entries(cache)
    tree = SourceTree()
    rows = []
    for job in plan.jobs:
        task = Task(job)
        status = "compile"
        try:
            task.find_inputs(tree, toolchains.toolchain_of, with_sources=plan.manifest.with_sources)
            if entries is not None and task.key and entries.read(task.key) is not None:
                status = "cached"
        except OSError:
            status = "missing"
        rows.append((job.kernel, job.source, job.target, status))
    for record in plan.manifest.triton_records:
        status = "compile" if os.path.exists(below(plan.manifest.folder, record)) else "missing"
        rows += [(record, record, target, status) for target in plan.triton_targets]
    return rows


class Task:
    """A job of a build, with its files, its key ("" if its inputs are unknown), its module and its
    result.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.closure: Closure | None = None
        self.key = ""
        self.module: Module | None = None
        self.result: JobResult | None = None

    def find_inputs(
        self, tree: SourceTree, toolchain_of: Callable[[Job], str], *, with_sources: bool
    ) -> None:
        """Find the files and the key. Raise OSError if the source cannot be read."""
        self.closure = job_closure(self.job, tree)
        toolchain = ""
        if toolchains.knows_headers(self.job):
            toolchain = toolchain_of(self.job)
        self.key = job_key(self.job, self.closure, toolchain, with_sources=with_sources)

    def storing_problem(self, outcome: Outcome) -> str:
        """Return why the key does not contain all files that the compiler read; "" if it does."""
        assert self.closure is not None
        if not self.closure.digest:
            return "an include, or a test for a file, may name its file in a way that devmod does not evaluate, such as a macro"
        if outcome.files is None:
            if not self.key:
                return ""
            return "its compiler does not list the files that it reads (Payload.files)"
        file = self.closure.unknown_file(outcome.files)
        if not file:
            if self._is_result(loads_own(outcome.data)):
                return ""
            file = "a source in its origin"
        read = "read" if outcome.files.get(file, "origin") else "may read"
        return f"its compiler {read} {file}, which is not among the includes that devmod found in the text"

    def read_entry(self, data: bytes) -> tuple[Module, Outcome]:
        """Return the module of a cache's entry, and an outcome with the warnings and the reports of
        its compile.

        Raises
        ------
        FormatError
            The entry is damaged, or it is the result of another job.
        """
        module, outcome = unpack_entry(data)
        for each in candidates_of(module):
            each.wire_parts()  # checks the digest
        if not self._is_result(module):
            raise FormatError("it was made from another source")
        return module, outcome

    def _is_result(self, module: Module) -> bool:
        """Return whether a module, or its variants, are of the job's kind, and were made from the
        job's files alone.
        """
        if self.closure is None:
            return False
        for each in candidates_of(module):
            if each.kind != self.job.kind:
                return False
            origin = each.origin  # it is decoded at each use
            if origin is not None and not self.closure.has_contents(origin.sources.values()):
                return False
        return True


def candidates_of(module: Module) -> tuple[Module, ...]:
    """Return the modules of a job: several for the variants of a tuned function."""
    if module.kind == "bundle":
        return module.imports
    return (module,)


# -- The files that a job and a build read.


def job_closure(job: Job, tree: SourceTree) -> Closure:
    """Return the files of a job. Raise OSError if the source cannot be read."""
    options = [option.removeprefix("-D").strip().replace("=", " ", 1) for option in job.options]
    definitions = [*options, *(f"{name} {value}" for name, value in job.defines)]
    return closure_of(
        job.path,
        job.include_paths,
        tree,
        toolchains.system_headers(job),
        definitions,
        embedded=toolchains.is_embedded(job),
    )


def input_files(plan: Plan) -> list[str]:
    """Return the absolute paths of the manifest, the sources with everything that they may include,
    and the files of constants and of tuning records, sorted.

    A source distribution must hold all of them. A file that a macro with parameters names is not in
    the list.

    Raises
    ------
    OSError
        A source cannot be read.
    """
    tree = SourceTree()
    paths = set()
    for path in (os.path.abspath(plan.manifest.path), *own_files(plan.manifest)):
        folder, name = os.path.split(path)
        paths.add(os.path.join(os.path.realpath(folder), name))
    for job in plan.jobs:
        paths.update(job_closure(job, tree).files)
    return sorted({*paths, *map(os.path.realpath, paths)})  # links, and their targets


# -- The file of a build, and the check whether it is current.


def record_of(manifest: Manifest, keys: Sequence[str]) -> str:
    """Return the key of a bundle's digest: a digest of the keys of its jobs, its settings, its
    constants and its programs.
    """
    settings = repr(
        (
            manifest.mixed,
            manifest.with_sources,
            manifest.compress,
            manifest.constants,
            manifest.programs,
            manifest.tune_records,
            manifest.triton_records,
        )
    )
    return DiskCache.key("bundle 3", *keys, settings, *map(file_digest, own_files(manifest)))


def own_files(manifest: Manifest) -> list[str]:
    """Return the paths of the files with constants, tuning records and records of Triton."""
    paths = [each.path for each in manifest.constants.files]
    paths += (*manifest.tune_records, *manifest.triton_records)
    return [below(manifest.folder, path) for path in paths]


def texts_of_current(path: str, record: str) -> list[tuple[list[str], list[str]]] | None:
    """Return the warnings and the reports of each job if a file is the bundle of a record; else
    None.
    """
    data = _RECORDS.read(record)
    try:
        digest, texts = json.loads(data or b"")
        if digest != file_digest(path):
            return None
        return [(warnings, reports) for warnings, reports in texts]
    except (OSError, TypeError, ValueError):
        return None


def check_output(plan: Plan) -> None:
    """Raise FormatError if the output of the manifest, which may come from a stranger, has a
    symbolic link in the manifest's folder.
    """
    problem = path_problem(plan.output, plan.manifest.folder)
    if problem:
        raise FormatError(
            f"the output of {plan.manifest.path} is not written: {problem}. Remove it, or name the file: devmod build --output FILE"
        )


def save_bundle(
    plan: Plan, modules: Sequence[Module], path: str, within: str, *, complete: bool
) -> list[str]:
    """Write the bundle of a plan's modules. `within` is the parameter of `devmod.save`.

    Return the reason for each program that is left out, which it may be unless all jobs of the plan
    are `complete`.
    """
    manifest = plan.manifest
    nodes = [*modules]
    if manifest.constants.files:
        from devmod_targets.build.constants import load_constants

        nodes.append(load_constants(manifest.folder, manifest.constants))
    root = nodes[0] if len(nodes) == 1 else devmod.bundle(*nodes, mixed=manifest.mixed)
    left_out: list[str] = []
    if manifest.programs:
        from devmod_targets.build.programs import add_programs

        root, left_out = add_programs(manifest, root, complete=complete and plan.is_whole)
    records: list[devmod.TuningRecord] = []
    for name in manifest.tune_records:
        records.extend(read_tuning_file(below(manifest.folder, name)))
    root.tuning_records = records
    with noting_interrupts(path):
        devmod.save(
            root,
            path,
            compress=manifest.compress or None,
            # The sources of Triton's kernels have the metadata of each.
            with_sources=manifest.with_sources or bool(plan.triton_targets),
            within=within,
        )
    return left_out
