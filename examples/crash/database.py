#!/usr/bin/env python3
"""A database that commits numbered rows, and the check that every commit which was acknowledged is
there: a workload to be recorded by `drivebay crash record`, and the check of `drivebay crash run`.

usage: database.py work|check KIND [COUNT]

KIND is sqlite-wal, sqlite-rollback, lmdb (needs its Python package), postgresql (needs its server,
its user postgres, and root), or files: new files that take the place of old ones by rename.
files-no-fsync and files-no-folder-fsync are that with a bug. sqlite-off (no sync at all) and
files-no-sync promise no commit: they fail if what is there is damaged. The database lies in the
folder in which it is run.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

Commit = Callable[[int], None]


def mark(text: str) -> None:
    """Tells the recording what was promised."""
    with socket.socket(socket.AF_UNIX) as talk:
        talk.connect(os.environ["DRIVEBAY_CONTROL"])
        talk.sendall(f"mark {text}\n".encode())
        talk.recv(4096)


@contextlib.contextmanager
def sqlite(kind: str) -> Iterator[Commit]:
    """Rows of a table, a transaction each."""
    with closing(sqlite3.connect("db", isolation_level=None)) as db:
        db.execute(f"PRAGMA journal_mode={'WAL' if kind == 'sqlite-wal' else 'DELETE'}")
        # With FULL the unlinking of the journal is not synced: the last commit may be undone.
        db.execute(f"PRAGMA synchronous={'OFF' if kind == 'sqlite-off' else 'EXTRA'}")
        db.execute("PRAGMA wal_autocheckpoint=20")
        db.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, filling BLOB)")
        yield lambda number: db.execute(  # type: ignore[misc,return-value]
            "INSERT INTO rows VALUES (?, ?)", (number, bytes([number % 251]) * 3000)
        )


def count_sqlite(_kind: str) -> int:
    """Rows that are there, all up to the last."""
    if not os.path.exists("db"):
        return 0
    with closing(sqlite3.connect("db")) as db:
        said = db.execute("PRAGMA integrity_check").fetchone()[0]
        if said != "ok":
            sys.exit(f"the database is damaged: {said}")
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows'").fetchone():
            return 0
        rows = db.execute("SELECT number, filling FROM rows ORDER BY number").fetchall()
    if rows != [(n, bytes([n % 251]) * 3000) for n in range(1, len(rows) + 1)]:
        sys.exit("rows are missing or damaged")
    return len(rows)


@contextlib.contextmanager
def lmdb(_kind: str) -> Iterator[Commit]:
    """Keys, a transaction each."""
    import lmdb as library

    os.makedirs("lmdb", exist_ok=True)
    with library.open("lmdb", map_size=16 << 20) as db:

        def commit(number: int) -> None:
            with db.begin(write=True) as transaction:
                transaction.put(number.to_bytes(4, "big"), bytes([number % 251]) * 1000)

        yield commit


def count_lmdb(_kind: str) -> int:
    """Keys that are there, all up to the last."""
    import lmdb as library

    if not os.path.exists("lmdb/data.mdb"):
        return 0
    with library.open("lmdb", map_size=16 << 20) as db, db.begin() as transaction:
        rows = [(int.from_bytes(key, "big"), value) for key, value in transaction.cursor()]
    if rows != [(n, bytes([n % 251]) * 1000) for n in range(1, len(rows) + 1)]:
        sys.exit("keys are missing or damaged")
    return len(rows)


def postgresql_program(name: str) -> str:
    """Where a program of PostgreSQL is."""
    folders = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([*folders, os.environ["PATH"]]))
    return found or sys.exit(f"{name} not found: apt-get install postgresql")


@contextlib.contextmanager
def postgresql(_kind: str) -> Iterator[Commit]:
    """Rows of a table, a transaction each, and a checkpoint after every 20."""
    os.mkdir("pg", 0o700)
    shutil.chown("pg", "postgres", "postgres")
    words = [postgresql_program("initdb"), "--data-checksums", "--wal-segsize=1", "-D", "pg"]
    quiet = subprocess.DEVNULL
    subprocess.run(words, user="postgres", group="postgres", stdout=quiet, check=True)
    with tempfile.TemporaryDirectory() as sockets:
        shutil.chown(sockets, "postgres", "postgres")
        words = [postgresql_program("postgres"), "-D", "pg", "-k", sockets, "-h", "", "-B", "16"]
        server = subprocess.Popen(words, user="postgres", group="postgres", stderr=quiet)
        while subprocess.call([postgresql_program("pg_isready"), "-q", "-h", sockets]):
            if server.poll() is not None:
                sys.exit("PostgreSQL does not start")
        words = ["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", sockets, "-U", "postgres"]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as session:
            assert session.stdin is not None and session.stdout is not None

            def ask(statement: str) -> None:
                print(statement, "\\echo done", sep="\n", file=session.stdin, flush=True)
                assert session.stdout is not None
                if session.stdout.readline() != "done\n":
                    sys.exit(f"PostgreSQL has refused: {statement}")

            def commit(number: int) -> None:
                ask(f"INSERT INTO rows VALUES ({number}, repeat(md5('{number}'), 40));")
                if number % 20 == 0:
                    ask("CHECKPOINT;")

            ask("CREATE TABLE rows (number integer PRIMARY KEY, filling text);")
            yield commit
        server.terminate()
        server.wait()


def count_postgresql(_kind: str) -> int:
    """Rows that are there, all up to the last; both table and index are read."""
    # Its number may belong to another process by now.
    Path("pg/postmaster.pid").unlink(missing_ok=True)
    query = (
        "SELECT count(*), coalesce(max(number), 0), "
        "count(*) FILTER (WHERE filling <> repeat(md5(number::text), 40)) FROM rows\n"
        "SET enable_seqscan = off\nSELECT count(*) FROM rows WHERE number > 0\n"
    )
    # What recovery writes need not outlive another cut.
    words = [postgresql_program("postgres"), "--single", "-D", "pg", "-F", "postgres"]
    done = subprocess.run(
        words,
        user="postgres",
        group="postgres",
        input=query,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r'\d: \w+ = "(\d+)"', done.stdout)
    if done.returncode != 0 or len(found) != 4:
        sys.exit(f"the database does not come back: {done.stderr.strip()[-1000:]}")
    rows, last, wrong, indexed = map(int, found)
    if not (rows == last == indexed and wrong == 0):
        sys.exit(f"rows are missing or damaged: {rows} up to {last}, {indexed}, {wrong} wrong")
    return rows


@contextlib.contextmanager
def files(kind: str) -> Iterator[Commit]:
    """A file whose new version takes the place of the old one."""

    def commit(number: int) -> None:
        with open("new", "wb") as file:
            file.write(b"%d\n" % number * 2000)
            file.flush()
            if kind not in ("files-no-fsync", "files-no-sync"):
                os.fsync(file.fileno())
        os.rename("new", "current")
        if kind not in ("files-no-folder-fsync", "files-no-sync"):
            folder = os.open(".", os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    yield commit


def count_files(_kind: str) -> int:
    """The number that the file is full of."""
    if not os.path.exists("current"):
        return 0
    with open("current", "rb") as file:
        lines = file.read().splitlines()
    if len(lines) != 2000 or len(set(lines)) != 1:
        sys.exit(f"the file is damaged: {len(lines)} lines")
    return int(lines[0])


KINDS = {
    "sqlite": (sqlite, count_sqlite),
    "lmdb": (lmdb, count_lmdb),
    "postgresql": (postgresql, count_postgresql),
    "files": (files, count_files),
}


def main() -> int:
    what, kind, *count = sys.argv[1:]
    begin, count_of = KINDS[kind.partition("-")[0]]
    if what == "work":
        with begin(kind) as commit:
            for number in range(1, int(count[0]) + 1 if count else 21):
                commit(number)
                mark(str(number))
        return 0
    found = count_of(kind)
    promised = int(os.environ.get("DRIVEBAY_MARK") or 0)
    if kind in ("sqlite-off", "files-no-sync"):
        promised = 0
    print(f"{promised} were promised, {found} are there")
    return int(found < promised)


if __name__ == "__main__":
    sys.exit(main())
