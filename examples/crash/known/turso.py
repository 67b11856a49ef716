"""Turso (pyturso): rows that were committed with synchronous=FULL."""

import os
import sys

import turso

db = turso.connect("db")
db.execute("PRAGMA synchronous=FULL")
if sys.argv[1] == "work":
    db.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, filling TEXT)")
    db.commit()
    for number in range(1, 21):
        db.execute("INSERT INTO rows VALUES (?, ?)", (number, str(number) * 500))
        db.commit()
        print("mark", number, flush=True)
        sys.stdin.readline()
        if number % 7 == 0:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
else:
    promised = int(os.environ["DRIVEBAY_MARK"].replace("mounted", "0"))
    tables = db.execute("SELECT name FROM sqlite_master").fetchall()
    rows = (
        db.execute("SELECT number, filling FROM rows ORDER BY number").fetchall() if tables else []
    )
    if [tuple(row) for row in rows] != [(n, str(n) * 500) for n in range(1, len(rows) + 1)]:
        sys.exit("rows are missing or damaged")
    print(f"{promised} rows were promised, {len(rows)} are there")
    sys.exit(len(rows) < promised)
