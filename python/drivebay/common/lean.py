"""Faster start of drivebay's own programs: unneeded packages are not loaded."""

from __future__ import annotations

import sys


class _Absent:
    """A finder (`sys.meta_path`) that reports pandas as not installed."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not loaded by drivebay's own programs", name=fullname)


def without_pandas() -> None:
    """Makes pandas appear not installed in this process. pyarrow loads it, which takes half of a
    short command's time, only to ask whether a list is a Series. For drivebay's own processes
    only: in a user's process `Result.frame` may return a pandas frame.
    """
    sys.meta_path.insert(0, _Absent())
