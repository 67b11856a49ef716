"""`drivebay new-policy`: the beginning of a policy plug-in."""

from __future__ import annotations

import re
from pathlib import Path

from drivebay.cli import options
from drivebay.cli.options import argument

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay new-policy windowed
  cd windowed && cargo build --release
  drivebay review sm951-ahci-512 --quick \\
    --policy target/release/libwindowed.so

\b
A plug-in is compiled code that drivebay runs with your rights: load only what
you have built, or would run as a program. A profile can name one, but not
load it. Other ways to load one are DRIVEBAY_POLICIES=FOLDER, where it is
looked for by its name, and drivebay.load_policy in Python."""
)
def new_policy(name: str = argument("NAME", "Small letters, digits and hyphens.")) -> None:
    """Start a policy plug-in of your own, a Rust crate in the folder NAME.

    It chooses the victims of garbage collection as `greedy` does. Its policy.h says what else a
    plug-in can decide: the frontier of a write, the pace of garbage collection, wear levelling,
    which reads wait for programs, what is moved after read retries. It needs nothing of drivebay
    to build. Nothing that exists is overwritten.
    """
    from drivebay.common import files
    from drivebay.common.errors import UserError
    from drivebay.definitions import policies

    if not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", name):
        raise UserError(
            f"{name}: a policy's name is a small letter, then small letters, digits and hyphens",
            "drivebay new-policy windowed",
        )
    folder = Path(name)
    for source in sorted(path for path in policies.TEMPLATE.rglob("*") if path.is_file()):
        text = source.read_text(encoding="utf-8")
        if source.name in ("Cargo.toml", "README.md"):
            text = text.replace("NAME", name).replace("FILE", name.replace("-", "_"))
        path = folder / source.relative_to(policies.TEMPLATE)
        files.write_new(path, text)
    print(f"{folder}/README.md: next, cd {name} && cargo build --release")
