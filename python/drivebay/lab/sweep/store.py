"""A sweep's dataset: a manifest, and a Parquet part for each run that has ended, on any storage.

    manifest.json                     the plan, its fingerprint, the tool
    parts/run-000012-3fa9c1d2.parquet one run: parameters, figures, wall time, memory
    failed/run-000013-3fa9c1d2.json   a run that could not be done, and why
    report.html

Storage is whatever fsspec opens: a folder, or s3://, gs://, abfs://, hdfs:// and so on. A part is
there whole or not at all: in a folder it is renamed into its place; object stores put an object at
once; elsewhere it is moved there. A part's name has the plan's fingerprint, so parts of another
plan never count. A part has one row, or one for each test of a fleet's drive.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from drivebay.common import documents
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.results import files

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
REPORT = "report.html"
KIND = "sweep"
WHOLE_AT_ONCE = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "memory"})
"""Protocols whose writes appear whole or not at all."""
READERS = 16
"""Parts that are read at once; what hides the latency of an object store."""
_NAME = re.compile(r"run-(\d{6,})-([0-9a-f]{8})\.(parquet|json)")


class Store:
    """The dataset at `url`, a path or any fsspec URL; nothing is made before it is written."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._fs, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as problem:
            raise EnvironmentProblem(
                f"--out {url}: {' '.join(str(problem).split())}",
                "install what fsspec names, or give a folder: --out my-sweep",
            ) from None
        protocol = self._fs.protocol
        self._protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self.is_local = bool(self._protocols & {"file", "local"})

    def read_manifest(self) -> dict[str, Any] | None:
        """The manifest, None where there is none.

        Raises
        ------
        UserError
            If there is one that is not a sweep's.
        """
        try:
            found = documents.from_json(self._read(MANIFEST))
        except FileNotFoundError:
            return None
        except ValueError:
            raise UserError(
                f"{self.url}/{MANIFEST} is damaged: it is not valid JSON",
                "restore it from a copy, or start the sweep in another place: --out DIR",
            ) from None
        if not isinstance(found, dict) or found.get("kind") != KIND:
            raise UserError(
                f"{self.url} holds something else, not a sweep", "give another place: --out DIR"
            )
        if found.get("schema") != SCHEMA_VERSION:
            raise UserError(
                f"{self.url} has schema {found.get('schema')}, this drivebay reads "
                f"{SCHEMA_VERSION}",
                "use the drivebay that made it, or give another place: --out DIR",
            )
        if type(found.get("fingerprint")) is not str or not isinstance(found.get("plan"), dict):
            raise UserError(
                f"{self.url}/{MANIFEST} is damaged: it has no plan",
                "restore it from a copy, or start the sweep in another place: --out DIR",
            )
        return found

    def create(self, fingerprint: str, plan: dict[str, Any], runs: int) -> None:
        """Makes the dataset with its manifest."""
        content = {
            "schema": SCHEMA_VERSION,
            "kind": KIND,
            "fingerprint": fingerprint,
            "runs": runs,
            "plan": plan,
        }
        self.write(MANIFEST, files.json_bytes(content))

    def done(self, fingerprint: str) -> set[int]:
        """Numbers of the runs that have ended well."""
        return {index for index, _ in self._listed("parts", fingerprint)}

    def failures(self, fingerprint: str) -> set[int]:
        """Numbers of the runs that could not be done; `failed/` says why."""
        return {index for index, _ in self._listed("failed", fingerprint)}

    def write_part(self, index: int, fingerprint: str, table: pa.Table) -> None:
        """Keeps a run; a failure of it from before is forgotten."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, version="2.6", compression="zstd", write_statistics=False)
        self.write(part_name(index, fingerprint), bytes(sink.getvalue()))

    def has_part(self, index: int, fingerprint: str) -> bool:
        """Whether the run's part is there, seen from here."""
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self._path(part_name(index, fingerprint))))

    def write_failure(self, index: int, fingerprint: str, what: dict[str, Any]) -> None:
        """Keeps why a run could not be done."""
        self.write(f"failed/{_stem(index, fingerprint)}.json", files.json_bytes(what))

    def forget_failure(self, index: int, fingerprint: str) -> None:
        """Removes what was kept of a failure."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(f"failed/{_stem(index, fingerprint)}.json"))

    def rows(self, fingerprint: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Every row of every part with the part's labels, in the runs' order; a few parts are in
        memory at once, never all."""
        names = [name for _, name in sorted(self._listed("parts", fingerprint))]
        with ThreadPoolExecutor(READERS) as readers:
            for at in range(0, len(names), READERS * 4):
                for table in readers.map(self._table, names[at : at + READERS * 4]):
                    labels = documents.from_json(
                        (table.schema.metadata or {}).get(b"drivebay", b"{}")
                    )
                    for row in table.to_pylist():
                        yield row, labels

    def write(self, name: str, content: bytes) -> None:
        """A file of the dataset, whole or not at all.

        Raises
        ------
        EnvironmentProblem
            If the storage does not take it.
        """
        path = self._path(name)
        try:
            if self.is_local:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                files.replace(Path(path), content)
            elif self._protocols & WHOLE_AT_ONCE:
                self._fs.pipe_file(path, content)
            else:
                folder, last = posixpath.split(path)
                self._fs.makedirs(folder, exist_ok=True)
                beside = posixpath.join(folder, f"{files.PARTIAL}{last}")
                self._fs.pipe_file(beside, content)
                self._fs.mv(beside, path)
        except OSError as problem:
            raise EnvironmentProblem(
                f"writing {name} to {self.url} failed: {problem.strerror or problem}",
                "free some space or make it writable; what has ended is kept: add --resume",
            ) from problem

    def upload(self, folder: Path, place: str, *, last: str) -> None:
        """Copies a folder into the dataset; the file `last` comes last, as it makes it whole."""
        inside = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        for path in sorted(inside, key=lambda one: one == folder / last):
            self.write(f"{place}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def is_empty(self) -> bool:
        """Whether there is nothing at the place."""
        return not self._fs.exists(self._root) or not self._fs.ls(self._root, detail=False)

    def _listed(self, folder: str, fingerprint: str) -> list[tuple[int, str]]:
        self._fs.invalidate_cache()
        try:
            paths = self._fs.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        found = []
        for path in paths:
            match = _NAME.fullmatch(posixpath.basename(path))
            if match is not None and match[2] == fingerprint[:8]:
                found.append((int(match[1]), f"{folder}/{posixpath.basename(path)}"))
        return found

    def _table(self, name: str) -> pa.Table:
        # Not read_table: it plans a whole dataset, at several times the cost of so small a file.
        with pq.ParquetFile(pa.BufferReader(self._read(name))) as file:
            return file.read(use_threads=False)

    def _read(self, name: str) -> bytes:
        return bytes(self._fs.cat_file(self._path(name)))

    def _path(self, name: str) -> str:
        return posixpath.join(self._root, name)


def part_name(index: int, fingerprint: str) -> str:
    """Where a run's part lies in the dataset.

    >>> part_name(12, "3fa9c1d2e5b60718")
    'parts/run-000012-3fa9c1d2.parquet'
    """
    return f"parts/{_stem(index, fingerprint)}.parquet"


def _stem(index: int, fingerprint: str) -> str:
    return f"run-{index:06d}-{fingerprint[:8]}"
