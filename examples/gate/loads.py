#!/usr/bin/env python3
"""Ten small storage programs to record with `drivebay gate`, each in the working folder.

usage: loads.py NAME [work|setup] [PERCENT]

PERCENT is a planted change: so many per cent more rows, commits or files than usual. `setup`
prepares what `work` does not measure (PostgreSQL only). Needs the packages lmdb, duckdb and
rocksdict for those names, git, tar and PostgreSQL's programs for theirs, and a redb program built
from redb.rs (DRIVEBAY_REDB).
"""

from __future__ import annotations

import glob
import os
import random
import sqlite3
import subprocess
import sys


def commits(percent: float, usual: int) -> int:
    """Number of commits: the usual one, and the planted change."""
    return round(usual * (1 + percent / 100))


def sync(path: str) -> None:
    """Fsyncs a file or folder."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def sqlite(percent: float) -> None:
    """Transactions of a row each, in WAL mode with synchronous FULL."""
    draw = random.Random(1)
    with sqlite3.connect("db", isolation_level=None) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("CREATE TABLE rows (key INTEGER PRIMARY KEY, value BLOB)")
        for _ in range(commits(percent, 1000)):
            row = (draw.getrandbits(32), draw.randbytes(200))
            db.execute("INSERT OR REPLACE INTO rows VALUES (?, ?)", row)
    db.close()


def lmdb(percent: float) -> None:
    """Transactions of ten rows each."""
    import lmdb as package

    draw = random.Random(1)
    with package.open("db", map_size=1 << 30) as db:
        for _ in range(commits(percent, 500)):
            with db.begin(write=True) as transaction:
                for _ in range(10):
                    transaction.put(draw.randbytes(8), draw.randbytes(100))


def rocksdb(percent: float) -> None:
    """Synchronous writes, and one flush of the memory table."""
    from rocksdict import Options, Rdict, WriteOptions

    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_stats_dump_period_sec(0)
    db = Rdict("db", options)
    write = WriteOptions()
    write.sync = True
    draw = random.Random(1)
    for _ in range(commits(percent, 1000)):
        db.put(draw.randbytes(8), draw.randbytes(200), write_opt=write)
    db.flush()
    db.close()


def redb(percent: float) -> None:
    """Transactions of ten rows each, with immediate durability."""
    subprocess.run([os.environ["DRIVEBAY_REDB"], str(commits(percent, 300))], check=True)


def git(percent: float) -> None:
    """Commits of ten files each, and a repack; objects and references are synced."""
    date = "2026-01-01T00:00:00Z"
    names = {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    environment = {**os.environ, **names, **dates, "HOME": os.getcwd()}
    draw = random.Random(1)

    def run(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "core.fsync=all", "-c", "gc.auto=0", *words], env=environment, check=True
        )

    run("init", "-q", ".")
    for number in range(commits(percent, 50)):
        for file in range(10):
            with open(f"{number}-{file}", "wb") as out:
                out.write(draw.randbytes(3000))
        run("add", "-A")
        run("commit", "-q", "-m", str(number))
    run("-c", "pack.threads=1", "repack", "-q", "-a", "-d")


def metadata(percent: float) -> None:
    """Files that are created, synced, renamed and deleted, in 20 folders."""
    for number in range(commits(percent, 500)):
        folder = f"folder{number % 20}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/new", "wb") as file:
            file.write(b"x" * 1000)
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{folder}/new", f"{folder}/{number}")
        sync(folder)
        if number % 3 == 2:
            os.unlink(f"{folder}/{number}")


def duckdb(percent: float) -> None:
    """Inserts with a commit each, and checkpoints."""
    import duckdb as package

    db = package.connect("db", config={"threads": 1})
    db.execute("CREATE TABLE rows (key BIGINT, value DOUBLE)")
    for number in range(commits(percent, 100)):
        db.execute(f"INSERT INTO rows SELECT i + {number}, i * 0.5 FROM range(2000) t(i)")
        if number % 20 == 19:
            db.execute("CHECKPOINT")
    db.close()


def logger(percent: float) -> None:
    """Appends of 1 to 8 KiB, each with fdatasync; a new file every 256 appends."""
    draw = random.Random(1)
    file = None
    for number in range(commits(percent, 1500)):
        if number % 256 == 0:
            if file is not None:
                os.close(file)
            file = os.open(f"log{number // 256}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            sync(".")
        assert file is not None
        os.write(file, draw.randbytes(draw.randrange(1024, 8192)))
        os.fdatasync(file)


def tar(percent: float) -> None:
    """Two thousand files, packed and unpacked; nothing is synced until the end."""
    draw = random.Random(1)
    os.makedirs("files")
    for number in range(commits(percent, 2000)):
        with open(f"files/{number}", "wb") as file:
            file.write(draw.randbytes(draw.randrange(1000, 60_000)))
    subprocess.run(
        "tar -cf all.tar files && mkdir out && tar -xf all.tar -C out", shell=True, check=True
    )
    os.sync()


POSTGRES = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


def postgresql(percent: float, *, setup: bool = False) -> None:
    """pgbench's transactions with one client, on a database that `setup` made. The recording begins
    when the server has started: several processes race in its start.
    """
    path = ":".join([*sorted(glob.glob("/usr/lib/postgresql/*/bin")), os.environ["PATH"]])
    data = os.path.abspath("data")

    def run(*words: str) -> None:
        subprocess.run(
            [*POSTGRES, *words],
            env={**os.environ, "PATH": path},
            check=True,
            stdout=subprocess.DEVNULL,
        )

    if setup:
        os.mkdir(data, 0o700)
        if POSTGRES:
            subprocess.run(["chown", "-R", "postgres", "."], check=True)
        run("initdb", "-D", data, "-A", "trust", "--no-sync")
        settings = (
            "autovacuum = off",
            "listen_addresses = ''",
            f"unix_socket_directories = '{data}'",
        )
        timers = ("checkpoint_timeout = 1d", "bgwriter_lru_maxpages = 0", "wal_writer_delay = 10s")
        # Otherwise a background process writes to the log 200 ms after the start and every 15 s.
        replication = ("wal_level = minimal", "max_wal_senders = 0")
        with open(f"{data}/postgresql.conf", "a") as file:
            file.write("\n".join((*settings, *timers, *replication, "")))
    run("pg_ctl", "-D", data, "-w", "-l", f"{data}/log", "start")
    if setup:
        run("pgbench", "-h", data, "-i", "-q", "-s", "2", "postgres")
    else:
        subprocess.run(["sync", "-f", data], check=True)
        if control := os.environ.get("DRIVEBAY_CONTROL"):
            ctl = [sys.executable, "-m", "drivebay", "ctl", control, "mark", "start"]
            subprocess.run(ctl, check=True, stdout=subprocess.DEVNULL)
        run(
            "pgbench",
            "-h",
            data,
            "-n",
            "-t",
            str(commits(percent, 500)),
            "--random-seed=1",
            "postgres",
        )
    run("pg_ctl", "-D", data, "-w", "-m", "fast", "stop")


LOADS = {
    load.__name__: load
    for load in (sqlite, postgresql, rocksdb, lmdb, redb, git, metadata, duckdb, logger, tar)
}

if __name__ == "__main__":
    name, *more = sys.argv[1:]
    if more[:1] == ["setup"]:
        postgresql(0, setup=True)
    else:
        LOADS[name](float(more[1]) if len(more) > 1 else 0)
