#!/usr/bin/env python3
"""SQLite under power cuts: every commit that was acknowledged is there afterwards."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import cuts


class Sqlite(cuts.Program):
    """Rows of a table, a transaction each."""

    def create(self, folder: Path) -> None:
        with contextlib.closing(sqlite3.connect(folder / "db")) as db:
            db.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, filling BLOB)")
            db.commit()

    def count(self, folder: Path) -> int:
        try:
            with contextlib.closing(sqlite3.connect(folder / "db")) as db:
                said = db.execute("PRAGMA integrity_check").fetchone()[0]
                count, last = db.execute("SELECT count(*), max(number) FROM rows").fetchone()
        except sqlite3.Error as problem:
            raise cuts.Lost(f"the database is damaged: {problem}") from None
        if said != "ok" or count != (last or 0):
            raise cuts.Lost(f"the database is damaged: {said}, {count} rows up to {last}")
        return int(count)

    def commit(self, folder: Path, last: int, begun: Callable[[], None]) -> int:
        first = last
        db = sqlite3.connect(folder / "db", isolation_level=None, timeout=1)
        try:
            # With FULL the unlinking of the journal is not synced: the last commit may be undone.
            db.execute(f"PRAGMA synchronous={'EXTRA' if self.fsync else 'OFF'}")
            while True:
                db.execute("INSERT INTO rows VALUES (?, ?)", (last + 1, os.urandom(200)))
                last += 1
                if last == first + 1:
                    begun()
        except sqlite3.Error:
            return last
        finally:
            with contextlib.suppress(sqlite3.Error):
                db.close()


if __name__ == "__main__":
    cuts.main(Sqlite, __doc__ or "")
