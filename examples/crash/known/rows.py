"""Rows of the table of known durability bugs, and sound databases that must not fail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """A program of a package registry.

    Parameters
    ----------
    package : its name in the registry; empty for what this machine has.
    versions : the release with the bug, and one with its fix; a sound program has one.
    script : work and check, in the language of the program.
    noise : see mounted.py.
    after : the power is cut only after the first mark with this text.
    also : more lines of dependencies.
    more : more words for the script.
    """

    name: str
    program: str
    package: str
    versions: tuple[str, ...]
    script: str
    noise: float = 0
    after: str = "mounted"
    fs: str = "ext4"
    capacity: str = "64MiB"
    states: int = 120
    also: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


ROWS = (
    Row(
        name="leveldb",
        program="LevelDB (plyvel)",
        package="plyvel",
        versions=("1.5.1", "plyvel-ci==1.5.1"),
        script="leveldb.py",
    ),
    Row(
        name="turso",
        program="Turso (pyturso), first commit",
        package="pyturso",
        versions=("0.7.2", "0.8.3"),
        script="turso.py",
    ),
    Row(
        name="turso-normal",
        program="Turso (pyturso), checkpoint",
        package="pyturso",
        versions=("0.7.2", "0.8.3"),
        script="turso_normal.py",
    ),
    Row(
        name="surrealkv",
        program="SurrealKV",
        package="surrealkv",
        versions=("0.21.1", "0.21.3"),
        script="surrealkv.rs",
        after="100",
        also=('tokio = { version = "1", features = ["full"] }',),
    ),
    Row(
        name="redb",
        program="redb",
        package="redb",
        versions=("2.6.3", "4.6.0"),
        script="redb.rs",
        after="1",
    ),
    Row(
        name="badger",
        program="Badger",
        package="github.com/dgraph-io/badger/v3",
        versions=("v3.2011.0", "v3.2011.1"),
        script="badger.go",
        capacity="256MiB",
    ),
    Row(
        name="goleveldb",
        program="goleveldb",
        package="github.com/syndtr/goleveldb",
        versions=("v1.0.0", "v1.0.1-0.20210819022825-2ae1ddf74ef7"),
        script="goleveldb.go",
        after="1",
    ),
    Row(
        name="tsdb",
        program="Prometheus' tsdb",
        package="github.com/prometheus/tsdb",
        versions=("v0.6.1", "v0.7.1"),
        script="tsdb.go",
    ),
    Row(
        name="nedb",
        program="NeDB",
        package="nedb",
        versions=("1.4.0", "1.5.1"),
        script="nedb.js",
        noise=200,
    ),
    Row(
        name="write-file-atomic",
        program="write-file-atomic",
        package="write-file-atomic",
        versions=("1.3.1", "1.3.4"),
        script="write_file_atomic.js",
        noise=200,
    ),
    Row(
        name="python-atomicwrites",
        program="atomicwrites (Python)",
        package="atomicwrites",
        versions=("0.1.9", "1.4.1"),
        script="python_atomicwrites.py",
    ),
    Row(
        name="atomicwrites",
        program="atomicwrites (Rust)",
        package="atomicwrites",
        versions=("0.0.14", "0.4.4"),
        script="atomicwrites.rs",
    ),
)
SOUND = (
    Row(
        name="sqlite",
        program="SQLite, WAL",
        package="",
        versions=("",),
        script="../database.py",
        more=("sqlite-wal",),
        after="1",
    ),
    Row(
        name="lmdb",
        program="LMDB",
        package="lmdb",
        versions=("1.6.2",),
        script="../database.py",
        more=("lmdb",),
        after="1",
    ),
    Row(
        name="postgresql",
        program="PostgreSQL",
        package="",
        versions=("",),
        script="../database.py",
        more=("postgresql",),
        after="1",
        capacity="256MiB",
    ),
    Row(
        name="redb-4",
        program="redb",
        package="redb",
        versions=("4.6.0",),
        script="redb.rs",
        after="1",
    ),
    Row(
        name="rocksdb",
        program="RocksDB (rocksdict)",
        package="rocksdict",
        versions=("0.3.29",),
        script="rocksdb.py",
        after="1",
    ),
)
