"""Programs of ours without what they would load for nothing."""

from __future__ import annotations

import sys


class _Absent:
    """A finder (`sys.meta_path`) by which a package is not there."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not loaded by drivebay's own programs", name=fullname)


def without_pandas() -> None:
    """Has pandas count as not installed in this process. pyarrow loads it, half of a short
    command's time, to ask whether a list is a Series. For processes that are drivebay's alone: in
    a user's, `Result.frame` may give one."""
    sys.meta_path.insert(0, _Absent())
