"""`drivebay new-policy`: creates a policy plug-in to change."""

from __future__ import annotations

import re
from pathlib import Path

from drivebay.cli.options import argument


def new_policy(name: str = argument()) -> None:
    """Create a policy plug-in of your own, a Rust crate in the folder NAME.

    The new plug-in selects garbage collection victims like `greedy`. Its policy.h lists the other
    decisions of a plug-in: write frontier, pace of garbage collection, wear levelling, reads that
    wait for programs, data that is moved after read retries. The crate builds without drivebay.
    Existing files are not overwritten.

    Examples:
      drivebay new-policy windowed
      cd windowed && cargo build --release
      drivebay review sm951-ahci-512 --quick \\
        --policy target/release/libwindowed.so

    A plug-in is compiled code that drivebay runs with your rights. Load only code
    that you have built, or that you would run as a program. A profile can name a
    plug-in, but cannot load it. Other ways to load one are
    DRIVEBAY_POLICIES=FOLDER, which is searched by name, and drivebay.load_policy
    in Python.

    Parameters
    ----------
    name : NAME
        Name of the policy: lower-case letters, digits and hyphens.
    """
    from drivebay.common import files
    from drivebay.common.errors import UserError
    from drivebay.definitions import policies

    if not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", name):
        raise UserError(
            f"{name}: a policy's name is a lower-case letter, then letters, digits and hyphens",
            "drivebay new-policy windowed",
        )
    folder = Path(name)
    for source in sorted(path for path in policies.TEMPLATE.rglob("*") if path.is_file()):
        text = source.read_text(encoding="utf-8")
        if source.name in ("Cargo.toml", "README.md"):
            text = text.replace("NAME", name).replace("FILE", name.replace("-", "_"))
        path = folder / source.relative_to(policies.TEMPLATE)
        files.write_new(path, text)
    print(f"{folder}/README.md: next run: cd {name} && cargo build --release")
