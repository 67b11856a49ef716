"""Turso (pyturso): with synchronous=NORMAL the last commits may be lost, but what is left is the
state between two commits, also if a checkpoint was cut off.
"""

import sys

import turso

ROWS = 60

db = turso.connect("db")
db.execute("PRAGMA synchronous=NORMAL")
if sys.argv[1] == "work":
    db.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, round INTEGER, filling TEXT)")
    for number in range(ROWS):
        db.execute("INSERT INTO rows VALUES (?, 0, ?)", (number, "x" * 2000))
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    for round in range(1, 9):
        db.execute("UPDATE rows SET round = ?", (round,))
        db.commit()
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        print("mark", round, flush=True)
        sys.stdin.readline()
elif db.execute("SELECT name FROM sqlite_master").fetchall():
    rounds = [row[0] for row in db.execute("SELECT round FROM rows").fetchall()]
    if len(rounds) not in (0, ROWS) or len(set(rounds)) > 1:
        sys.exit(f"{len(rounds)} rows of rounds {sorted(set(rounds))}: a transaction is torn")
