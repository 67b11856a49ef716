"""The same as mixed.c, by cffi, which reads the header.

mixed.py LIBRARY HEADER PROFILE REQUESTS [STATE]
"""

import re
import sys
from pathlib import Path

import cffi

MASK = 2**64 - 1
library, header, profile, requests, *state = sys.argv[1:]
ffi = cffi.FFI()
text = re.sub(r"#ifdef __cplusplus.*?#endif.*?$", "", Path(header).read_text(), flags=re.S | re.M)
ffi.cdef(re.sub(r"^#(?!define \w+ \d+$).*$", "", text, flags=re.M))
lib = ffi.dlopen(library)
random_state = 1


def checked(result: int) -> int:
    """The result, unless it is an error."""
    if result == -1:
        sys.exit("error: " + ffi.string(lib.drivebay_error()).decode())
    return result


def draw(below: int) -> int:
    """Linear congruential generator with Knuth's constants."""
    global random_state
    random_state = (random_state * 6364136223846793005 + 1442695040888963407) & MASK
    return (random_state >> 33) % below


def submit(at_ns: int, tag: int) -> None:
    """A read or a write of 4 KiB."""
    lba = draw(lib.drivebay_capacity(drive) // 8) * 8
    op = lib.DRIVEBAY_OP_READ if draw(10) < 7 else lib.DRIVEBAY_OP_WRITE
    fields = {"at_ns": at_ns, "lba": lba, "sectors": 8, "op": op, "tag": tag}
    checked(lib.drivebay_submit(drive, ffi.new("drivebay_request *", fields)))


drive = lib.drivebay_create(profile.encode(), state[0].encode() if state else ffi.NULL, 1)
checked(0 if drive else -1)
begin_ns, checksum = lib.drivebay_now(drive), 0
done, counters = ffi.new("drivebay_completion *"), ffi.new("drivebay_counters *")
for tag in range(16):
    submit(begin_ns, tag)
for _ in range(int(requests)):
    checked(lib.drivebay_next_completion(drive, MASK, done))
    checksum = (checksum * 31 + done.done_ns) & MASK
    submit(done.done_ns, done.tag)
checked(lib.drivebay_read_counters(drive, counters))
print(
    f"{requests} requests in {done.done_ns - begin_ns} ns, checksum {checksum:016x},"
    f" {counters.placed_pages} pages programmed"
)
lib.drivebay_destroy(drive)
