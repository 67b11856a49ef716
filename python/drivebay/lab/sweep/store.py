"""Dataset of a sweep on any storage: a manifest, a part for each finished run, blocks of parts.

    manifest.json                       the plan, its fingerprint, the tool
    parts/run-000012-3fa9c1d2.arrow     one run: parameters, figures, wall time, memory
    parts/block-000000-3fa9c1d2.parquet the runs from 0 to 999 that had ended when it was written
    failed/run-000013-3fa9c1d2.json     a failed run, with the reason
    report.html

Parts are Arrow IPC, as a Parquet file of one row takes ten times as long to read and to write; the
sweep's process packs them into blocks when all runs have ended. A block is written before its parts
are removed; if the process is killed in between, the remaining parts are not counted twice. Storage
is anything that fsspec opens: a folder, or s3://, gs://, abfs://, hdfs:// and so on. A part appears
whole or not at all: in a folder it is renamed to its final name; object stores create an object at
once; elsewhere it is moved. A part's name has the plan's fingerprint, so parts of another plan
never count. A part has one row, or one for each test of a fleet's drive.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from drivebay.common import documents
from drivebay.common.errors import EnvironmentProblem, UserError
from drivebay.common.files import system_errors
from drivebay.results import checking, files

SCHEMA_VERSION = 2
MANIFEST = "manifest.json"
REPORT = "report.html"
KIND = "sweep"
# Protocols whose writes appear whole or not at all.
WHOLE_AT_ONCE = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "memory"})
# Number of parts that are read in parallel, which hides the latency of an object store.
READERS = 16
# Number of runs in a block.
BLOCK_RUNS = 1000
_NAME = re.compile(r"(run|block)-(\d{6,})-([0-9a-f]{8})\.(arrow|parquet|json)")
# Key of a block's metadata: the columns and labels of its parts, and for each row the part that
# it came from.
_KINDS = b"drivebay_kinds"

# A row of a part, and the part's labels.
Labelled = tuple[dict[str, Any], dict[str, Any]]
# Number of a block, its table, and tables and names of the parts beside it.
Block = tuple[int, pa.Table | None, list[pa.Table], list[str]]


class Store:
    """The dataset at `url`, a path or any fsspec URL; nothing is created before the first write."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._fs, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as problem:
            raise EnvironmentProblem(
                f"--out {url}: {' '.join(str(problem).split())}",
                "install the package that fsspec names, or choose a folder: --out my-sweep",
            ) from None
        protocol = self._fs.protocol
        self._protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self.is_local = bool(self._protocols & {"file", "local"})

    def read_manifest(self) -> dict[str, Any] | None:
        """Reads the manifest; None if there is none. Raises UserError if it is not a sweep's;
        EnvironmentProblem if it is damaged.
        """
        try:
            manifest = documents.from_json(self._read(MANIFEST))
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            manifest = None
        except ValueError as problem:
            raise self._damaged(MANIFEST, f"it is not valid JSON: {problem}") from None
        if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
            raise UserError(
                f"{self.url} holds something else, not a sweep", "choose another place: --out DIR"
            )
        if manifest.get("schema") != SCHEMA_VERSION:
            raise UserError(
                f"{self.url} has schema {manifest.get('schema')}, this drivebay reads "
                f"{SCHEMA_VERSION}",
                "use the drivebay that made it, or choose another place: --out DIR",
            )
        if type(manifest.get("fingerprint")) is not str or not isinstance(
            manifest.get("plan"), dict
        ):
            raise self._damaged(MANIFEST, "it has no plan")
        return manifest

    def _damaged(self, name: str, reason: str) -> EnvironmentProblem:
        return EnvironmentProblem(
            f"{self.url}/{name} is damaged: {reason}",
            "restore it from a copy, or start the sweep in another place: --out DIR",
        )

    def create(self, fingerprint: str, plan: dict[str, Any], runs: int) -> None:
        """Creates the dataset with its manifest."""
        head = {"schema": SCHEMA_VERSION, "kind": KIND, "fingerprint": fingerprint}
        self.write(MANIFEST, files.json_bytes({**head, "runs": runs, "plan": plan}))

    def done(self, fingerprint: str) -> set[int]:
        """Numbers of the runs that have succeeded."""
        runs = {index for index, _ in self._listed("parts", fingerprint, "run")}
        blocks = [name for _, name in self._listed("parts", fingerprint, "block")]
        for table in self._tables(blocks):
            runs.update(table["run"].to_pylist())
        return runs

    def failures(self, fingerprint: str) -> set[int]:
        """Numbers of the runs that failed; `failed/` has the reasons."""
        return {index for index, _ in self._listed("failed", fingerprint, "run")}

    def write_part(self, index: int, fingerprint: str, table: pa.Table) -> None:
        """Writes the part of a run."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        self.write(part_name(index, fingerprint), bytes(sink.getvalue()))

    def has_part(self, index: int, fingerprint: str) -> bool:
        """True if the run's part exists, as seen from here."""
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self._path(part_name(index, fingerprint))))

    def write_failure(self, index: int, fingerprint: str, failure: dict[str, Any]) -> None:
        """Stores the reason of a run's failure."""
        self.write(f"failed/{_stem('run', index, fingerprint)}.json", files.json_bytes(failure))

    def forget_failure(self, index: int, fingerprint: str) -> None:
        """Removes the record of a failure."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(f"failed/{_stem('run', index, fingerprint)}.json"))

    def rows(self, fingerprint: str) -> Iterator[Labelled]:
        """Yields every row of every part with the part's labels, in the runs' order; only one
        block at a time is in memory.
        """
        for _, block, parts, _ in self._blocks(fingerprint):
            rows = _labelled(block)
            packed = {row["run"] for row, _ in rows}
            for table in parts:
                labels = documents.from_json(_labels(table))
                rows += [(row, labels) for row in table.to_pylist() if row["run"] not in packed]
            yield from sorted(rows, key=lambda labelled: int(labelled[0]["run"]))

    def pack(self, fingerprint: str) -> None:
        """Packs parts into blocks, and removes them."""
        for number, block, parts, names in self._blocks(fingerprint):
            if names:
                sink = pa.BufferOutputStream()
                pq.write_table(_packed(block, parts), sink, version="2.6", compression="zstd")
                name = f"parts/{_stem('block', number, fingerprint)}.parquet"
                self.write(name, bytes(sink.getvalue()))
                self._fs.rm([self._path(name) for name in names])

    def _blocks(self, fingerprint: str) -> Iterator[Block]:
        """Yields for each block its number, its packed rows, and the unpacked parts with their
        names.
        """
        packed = dict(self._listed("parts", fingerprint, "block"))
        beside = defaultdict(list)
        for index, name in sorted(self._listed("parts", fingerprint, "run")):
            beside[index // BLOCK_RUNS].append(name)
        for number in sorted({*packed, *beside}):
            tables = list(self._tables([packed[number]] if number in packed else []))
            names = beside[number]
            yield number, tables[0] if tables else None, list(self._tables(names)), names

    def write(self, name: str, content: bytes) -> None:
        """Writes a file of the dataset, whole or not at all. Raises EnvironmentProblem if the
        storage refuses it.
        """
        path = self._path(name)
        with system_errors(
            f"writing {name} to {self.url} failed",
            "free some space or make it writable; finished runs are kept: add --resume",
        ):
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

    def upload(self, folder: Path, place: str, *, last: str) -> None:
        """Copies a folder into the dataset; the file `last` is copied last, as it marks the
        folder as complete.
        """
        inside = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        for path in sorted(inside, key=lambda path: path == folder / last):
            self.write(f"{place}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def is_empty(self) -> bool:
        """True if nothing exists at the place."""
        return not self._fs.exists(self._root) or not self._fs.ls(self._root, detail=False)

    def _listed(self, folder: str, fingerprint: str, kind: str) -> list[tuple[int, str]]:
        self._fs.invalidate_cache()
        try:
            paths = self._fs.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        matches = []
        for path in paths:
            match = _NAME.fullmatch(posixpath.basename(path))
            if match is not None and (match[1], match[3]) == (kind, fingerprint[:8]):
                matches.append((int(match[2]), f"{folder}/{posixpath.basename(path)}"))
        return matches

    def _tables(self, names: list[str]) -> Iterator[pa.Table]:
        """Reads these parts or blocks, several in parallel."""
        with ThreadPoolExecutor(READERS) as readers:
            yield from readers.map(self.table, names)

    def table(self, name: str) -> pa.Table:
        """Reads a part or a block. Raises EnvironmentProblem if it is damaged."""
        try:
            return checking.runs(self._read(name), arrow=name.endswith(".arrow"))
        except (pa.ArrowException, OSError, ValueError) as problem:
            raise self._damaged(name, " ".join(str(problem).split())) from None

    def _read(self, name: str) -> bytes:
        if self.is_local:
            return documents.read_kept(Path(self._path(name)))
        return bytes(self._fs.cat_file(self._path(name)))

    def _path(self, name: str) -> str:
        return posixpath.join(self._root, name)


def part_name(index: int, fingerprint: str) -> str:
    """Name of a run's part in the dataset.

    >>> part_name(12, "3fa9c1d2e5b60718")
    'parts/run-000012-3fa9c1d2.arrow'
    """
    return f"parts/{_stem('run', index, fingerprint)}.arrow"


def _stem(kind: str, number: int, fingerprint: str) -> str:
    return f"{kind}-{number:06d}-{fingerprint[:8]}"


def _labels(part: pa.Table) -> bytes:
    return bytes((part.schema.metadata or {}).get(b"drivebay", b"{}"))


def _packed(block: pa.Table | None, parts: list[pa.Table]) -> pa.Table:
    """Merges an existing block and these parts. A column that a part lacks is null."""
    kinds: dict[str, int] = {}
    tables, row_kinds = [], []
    packed: set[int] = set()
    if block is not None:
        kept = documents.from_json(block.schema.metadata[_KINDS])
        kinds = {json.dumps(kind): number for number, kind in enumerate(kept["kinds"])}
        tables, row_kinds, packed = [block], list(kept["of"]), set(block["run"].to_pylist())
    for table in parts:
        if table["run"][0].as_py() not in packed:
            kind = json.dumps([table.column_names, documents.from_json(_labels(table))])
            row_kinds += [kinds.setdefault(kind, len(kinds))] * len(table)
            tables.append(table)
    whole = pa.concat_tables(tables, promote_options="default")
    order = pa.compute.sort_indices(whole["run"])  # stable: the rows of a part keep their order
    kept = {"kinds": [*map(json.loads, kinds)], "of": [row_kinds[i] for i in order.to_pylist()]}
    return whole.take(order).replace_schema_metadata({_KINDS: json.dumps(kept)})


def _labelled(block: pa.Table | None) -> list[Labelled]:
    """The rows of a block as they were in their parts."""
    if block is None:
        return []
    kept = documents.from_json(block.schema.metadata[_KINDS])
    rows = []
    for row, kind in zip(block.to_pylist(), kept["of"], strict=True):
        columns, labels = kept["kinds"][kind]
        rows.append(({name: row[name] for name in columns}, labels))
    return rows
