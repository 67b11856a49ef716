"""RocksDB (rocksdict): synced puts, and a flush of the memtable after every five."""

import os
import sys

from rocksdict import Options, Rdict, WriteOptions

options = Options(raw_mode=True)
options.create_if_missing(True)
db = Rdict("db", options)
synced = WriteOptions()
synced.sync = True
db.set_write_options(synced)
if sys.argv[1] == "work":
    for number in range(1, 21):
        db[b"%02d" % number] = bytes([number]) * 3000
        if number % 5 == 0:
            db.flush()
        print("mark", number, flush=True)
        sys.stdin.readline()
else:
    promised = int(os.environ["DRIVEBAY_MARK"].replace("mounted", "0"))
    rows = sorted(db.items())
    if rows != [(b"%02d" % n, bytes([n]) * 3000) for n in range(1, len(rows) + 1)]:
        sys.exit("rows are missing or damaged")
    print(f"{promised} rows were promised, {len(rows)} are there")
    sys.exit(len(rows) < promised)
