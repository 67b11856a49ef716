"""LevelDB (plyvel): a synced Put after the database was created."""

import os
import sys

import plyvel

if sys.argv[1] == "work":
    db = plyvel.DB("db", create_if_missing=True)
    for number in range(1, 11):
        db.put(b"%d" % number, b"value", sync=True)
        print("mark", number, flush=True)
        sys.stdin.readline()
    db.close()
else:
    promised = int(os.environ["DRIVEBAY_MARK"].replace("mounted", "0"))
    # Without CURRENT there is no database yet.
    db = plyvel.DB("db", create_if_missing=True)
    found = len(list(db))
    print(f"{promised} keys were promised, {found} are there")
    sys.exit(found < promised)
