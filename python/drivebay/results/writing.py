"""Writes a result folder: the manifest first, then each step as a whole when it ends.

A step is written to DIR/.partial-ID, flushed, and renamed to DIR/steps/ID; then the manifest, the
only record that a step is done, is replaced. After a kill between any two of these, `Folder.reopen`
can continue with the folder. Only one process may write at a time: log.jsonl is locked while a
folder is open.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from drivebay.common.errors import UserError
from drivebay.results import checking, files, history, manifest
from drivebay.results.checking import DOCUMENT, RAW, SCHEMAS, Damage
from drivebay.results.manifest import STEPS, Manifest
from drivebay.results.records import TOTALS, PhaseResult, labelled

LOG = "log.jsonl"


class Taken(UserError):
    """The path for a new folder is in use."""


class Folder:
    """A result folder that this process is writing; close it, or use it in a `with`.

    Methods may be called from any thread.
    """

    def __init__(self, path: Path, log: IO[bytes], content: Manifest) -> None:
        self.path = path
        self._log = log
        self._manifest = content
        self._mutex = threading.Lock()

    @classmethod
    def create(
        cls, path: Path, content: Manifest, steps: Mapping[str, list[PhaseResult]] | None = None
    ) -> Folder:
        """Creates a new folder; it appears with its manifest and these finished tests in it, or not
        at all.

        Raises
        ------
        UserError
            If `path` exists and is not an empty directory.
        EnvironmentProblem
            If it cannot be written.
        """
        with files.storing(path, resumable=False):
            path = path.absolute()
            build = path
            go_on = f", or go on with that one: drivebay review --resume {path}"
            other = f"choose another folder with --out{go_on if steps is None else ''}"
            with contextlib.ExitStack() as undo:
                if os.path.lexists(path):
                    _must_be_empty(path, other)
                else:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    _remove_leftovers(path)
                    build = path.with_name(f"{files.PARTIAL}{path.name}-{os.getpid()}")
                    build.mkdir()
                    undo.callback(_discard, build)
                log = _open_log(build, create=True)
                undo.callback(_discard, build / LOG)
                (build / STEPS).mkdir()
                undo.callback(_discard, build / STEPS)
                for step_id, phases in (steps or {}).items():
                    sums = _store(build, step_id, phases)
                    content = content.with_step(step_id, state="done", files=sums)
                files.replace(build / manifest.NAME, content.encoded())
                if build != path:
                    _rename_new(build, path, other)
                undo.pop_all()
                files.flush_directory(path.parent)
        folder = cls(path, log, content)
        folder.log("created", version=content.tool.version, **_process())
        return folder

    @classmethod
    def reopen(cls, path: Path) -> tuple[Folder, tuple[Damage, ...]]:
        """Opens a folder to continue its review. Partially written files are removed, and finished
        steps whose files have changed are set back to pending, and returned.

        Raises
        ------
        UserError
            If it is not a result, is damaged beyond its steps, or another review is writing to it.
        EnvironmentProblem
            If it cannot be written.
        """
        path = path.absolute()
        manifest.read_manifest(path)
        with files.storing(path):
            log = _open_log(path, create=False)
            folder = cls(path, log, manifest.read_manifest(path))
            try:
                damages = folder._repair()
            except BaseException:
                log.close()
                raise
        folder.log("resumed", damaged=[damage.path for damage in damages], **_process())
        return folder, damages

    def _repair(self) -> tuple[Damage, ...]:
        for left in self.path.glob(f"{files.PARTIAL}*"):
            files.remove_tree(left)
        steps = self.path / STEPS
        if steps.is_symlink():
            raise UserError(f"{steps} is a link", "put the folder itself in its place")
        steps.mkdir(exist_ok=True)
        damages = []
        for test, entry in zip(self._manifest.suite.tests, self._manifest.steps, strict=True):
            if entry.state == "done":
                try:
                    checking.step(self.path, entry, test)
                except Damage as problem:
                    damages.append(problem)
                    self._set(entry.id, state="pending", error=None, files={})
        done = {entry.id for entry in self._manifest.steps if entry.state == "done"}
        for left in steps.iterdir():
            if left.name not in done:
                files.remove_tree(left)
        return tuple(damages)

    @property
    def manifest(self) -> Manifest:
        """The manifest as it is on the disk."""
        return self._manifest

    def interruptions(self, step_id: str) -> list[dict[str, Any]]:
        """Runs of a test that began and did not finish: see `history.interruptions`."""
        with self._mutex:
            return history.interruptions(self.path / LOG, step_id)

    def write_step(self, step_id: str, phases: list[PhaseResult]) -> None:
        """Stores a finished test, whole or not at all.

        Raises
        ------
        EnvironmentProblem
            If the disk is full or not writable; the step is then unchanged.
        """
        with files.storing(self.path):
            sums = _store(self.path, step_id, phases)
            self._set(step_id, state="done", error=None, files=sums)

    def fail_step(self, step_id: str, error: str) -> None:
        """Records why a test did not finish; it runs again on resume."""
        with files.storing(self.path):
            self._set(step_id, state="failed", error=error, files={})

    def log(self, event: str, **details: Any) -> None:
        """Adds a line with the time of day to log.jsonl. Failures are ignored, so that a review
        does not fail because its log cannot be written.
        """
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
        with self._mutex, contextlib.suppress(OSError, ValueError):
            self._log.write((json.dumps({**line, **details}) + "\n").encode())
            self._log.flush()
            os.fsync(self._log.fileno())

    def close(self) -> None:
        """Releases the folder for other processes."""
        # a buffered line of the log that the disk did not accept
        with contextlib.suppress(OSError):
            self._log.close()

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _set(self, step_id: str, **changes: Any) -> None:
        with self._mutex:
            changed = self._manifest.with_step(step_id, **changes)
            files.replace(self.path / manifest.NAME, changed.encoded())
            self._manifest = changed


def _process() -> dict[str, Any]:
    return {"pid": os.getpid(), "boot_id": history.boot_id()}


def _must_be_empty(path: Path, other: str) -> None:
    if not path.is_dir():
        raise Taken(f"{path} is a file", "give a folder that does not exist yet: --out DIR")
    if (path / manifest.NAME).exists():
        raise Taken(f"{path} holds a result already; results are never overwritten", other)
    if any(path.iterdir()):
        raise Taken(
            f"{path} is not empty", "give a folder that is empty or does not exist yet: --out DIR"
        )


def _remove_leftovers(path: Path) -> None:
    """Removes the leftovers of killed processes that were creating this folder."""
    for left in path.parent.glob(f"{files.PARTIAL}{glob.escape(path.name)}-*"):
        pid = left.name.rpartition("-")[2]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            files.remove_tree(left)


def _rename_new(build: Path, path: Path, other: str) -> None:
    try:
        build.rename(path)
    except OSError:
        if path.exists():
            _must_be_empty(path, other)
        raise


def _open_log(folder: Path, *, create: bool) -> IO[bytes]:
    # Opens the log without following a link, since in a foreign result it may be a link to a file
    # of ours.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    log = os.fdopen(os.open(folder / LOG, flags, 0o666), "ab+")
    try:
        files.lock(log, folder)
        if not create and log.seek(0, os.SEEK_END) > 0:
            log.seek(-1, os.SEEK_END)
            if log.read(1) != b"\n":  # the last line was cut off by a kill
                log.write(b"\n")
    except BaseException:
        log.close()
        raise
    return log


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):
        files.remove_tree(path)


def _store(folder: Path, step_id: str, phases: list[PhaseResult]) -> dict[str, str]:
    """Stores the files of a finished test, all or none; returns their checksums by path."""
    partial, place = folder / f"{files.PARTIAL}{step_id}", folder / STEPS / step_id
    try:
        files.remove_tree(partial)
        partial.mkdir()
        _write_phases(partial, step_id, phases)
        sums = {
            f"{STEPS}/{step_id}/{file.relative_to(partial).as_posix()}": files.sha256(file)
            for file in sorted(partial.rglob("*"))
            if file.is_file()
        }
        files.remove_tree(place)
        partial.rename(place)
    except BaseException:
        _discard(partial)
        raise
    files.flush_directory(place.parent)
    return sums


def _write_phases(place: Path, step_id: str, phases: list[PhaseResult]) -> None:
    summary: dict[str, Any] = {
        "id": step_id,
        "phases": [
            {name: getattr(phase, name) for name in ("label", "duration_s", *TOTALS, "metrics")}
            | {"workload": phase.workload.model_dump(mode="json")}
            for phase in phases
        ],
    }
    if conditions := [phase.conditions for phase in phases if phase.conditions]:
        assert len(conditions) == 1, "one phase speaks for the whole test"
        summary["conditions"] = conditions[0]
    files.write_new(place / DOCUMENT, files.json_bytes(summary))
    for name, schema in SCHEMAS.items():
        tables = [
            (phase.label, phase.table(name)) for phase in phases if phase.table(name) is not None
        ]
        if tables:
            files.write_new(place / f"{name}.parquet", parquet_bytes(tables, schema))
    for name, content in _artefacts(phases).items():
        target = place / RAW / name
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write_new(target, content)
    for directory in (place, *(path for path in place.rglob("*") if path.is_dir())):
        files.flush_directory(directory)


def _artefacts(phases: list[PhaseResult]) -> dict[str, bytes]:
    """All phases' own files by name; if two differ under one name, the later one goes into a
    folder with its phase's label.
    """
    together: dict[str, bytes] = {}
    for phase in phases:
        for name, content in phase.artefacts.items():
            path = PurePosixPath(name)
            assert not path.is_absolute() and ".." not in path.parts, name
            taken = together.get(name, content) != content
            together[f"{phase.label}/{name}" if taken else name] = content
    return together


def parquet_bytes(tables: list[tuple[str, Any]], schema: Any) -> bytes:
    """Writes labelled tables as one Parquet file with `phase` as the first column: same data, same
    bytes.

    Parameters
    ----------
    tables : list of (label, pyarrow.Table), each with the columns of `schema`, in any chunks.
    schema : pyarrow.Schema of the tables without `phase`.
    """
    whole = labelled(schema)
    parts = []
    for label, table in tables:
        assert table.column_names == schema.names, (label, table.column_names)
        phase = pa.array([label] * table.num_rows, pa.string())
        parts.append(table.cast(schema).replace_schema_metadata(None).add_column(0, "phase", phase))
    joined = pa.concat_tables(parts) if parts else whole.empty_table()
    sink = pa.BufferOutputStream()
    pq.write_table(
        joined.cast(whole).combine_chunks(),
        sink,
        version="2.6",
        compression="zstd",
        use_dictionary=["phase"],
        write_statistics=True,
        row_group_size=1_000_000,
    )
    return bytes(sink.getvalue())
