"""Writes `python/drivebay/_core.pyi` from the core; with --check reports whether it is stale.

    .venv/bin/python scripts/stub.py [--check] [--profile NAME]

pyo3 stores the types of every function and class in the library that it builds; maturin reads them.
Use the profile that the core was built with: then nothing is built again.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
STUB = TOP / "python" / "drivebay" / "_core.pyi"
TOOLS = Path(sysconfig.get_path("scripts"))


def generated(profile: str) -> str:
    """The stub from the core, formatted."""
    with tempfile.TemporaryDirectory() as folder:
        command = [TOOLS / "maturin", "generate-stubs", "--quiet", "--locked"]
        subprocess.run([*command, "--profile", profile, "--out", folder], cwd=TOP, check=True)
        (made,) = Path(folder).rglob("*.pyi")
        text = made.read_text(encoding="utf-8")
    # Hints written in a Rust signature come quoted, and pyo3 does not know their imports.
    hint = r'"?typing\.(Any|Literal\[[^"]*\])"?'
    text = re.sub(hint, lambda match: match[1].replace("'", '"'), text)
    text = text.replace("\nfrom ", "\nfrom typing import Any, Literal\nfrom ", 1)
    text = re.sub(r'(:\n *)"""\n *(.*)\n *"""', r'\1"""\2"""', text)
    for tool in (
        ["check", "--fix-only", "--quiet", "--select", "F401,I,UP"],
        ["format", "--quiet"],
    ):
        command = [TOOLS / "ruff", *tool, "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(
            command, input=text, text=True, capture_output=True, check=True, cwd=TOP
        ).stdout
    return text


def main() -> int:
    """Returns 0 if the stub is up to date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--profile", default="release", help="of cargo")
    args = parser.parse_args()
    text = generated(args.profile)
    if args.check:
        stale = STUB.read_text(encoding="utf-8") != text
        if stale:
            print(f"{STUB.name} is stale: .venv/bin/python scripts/stub.py", file=sys.stderr)
        return int(stale)
    STUB.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
