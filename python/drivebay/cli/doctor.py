"""`drivebay doctor`: what this machine has of what drivebay can use."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

from drivebay.cli import options
from drivebay.cli.output import print_json
from drivebay.common.errors import EnvironmentProblem

if TYPE_CHECKING:
    from drivebay.targets.doctor import Finding

INDENT = " " * 11
STYLES = {"ok": "32", "note": "33", "missing": "31"}

app = options.Verb()


@app.command(epilog="\b\nExamples:\n  drivebay doctor\n  drivebay doctor --json")
def doctor(as_json: options.Json = False) -> None:
    """Check this machine for what drivebay can use.

    What is missing is listed with how to get it. Nothing is changed. Exit code
    3 if something is missing that every use needs.
    """
    from drivebay.targets import doctor as checks

    findings = checks.everything()
    lacking = [found for found in findings if found.basic and found.state == "missing"]
    if as_json:
        print_json({"ok": not lacking, "findings": [asdict(found) for found in findings]})
    else:
        for group in checks.GROUPS:
            _print_group(group, findings)
    if lacking:
        names = ", ".join(found.name for found in lacking)
        raise EnvironmentProblem(f"missing for every use: {names}", lacking[0].get)
    if not as_json:
        missing = sum(found.state == "missing" for found in findings)
        more = f"; {missing} more things would add to it" if missing else ""
        print(f"Virtual drives work here{more}.")


def _print_group(group: str, findings: list[Finding]) -> None:
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    wide = max(len(found.name) for found in findings)
    print(group)
    for found in findings:
        if found.group != group:
            continue
        state = f"{found.state:<7}"
        if colour:
            state = f"\033[{STYLES[found.state]}m{state}\033[0m"
        print(f"  {state}  {found.name:<{wide}}  {found.found}")
        if found.state != "ok":
            _print_wrapped(f"needed for: {found.needed_for}")
            _print_wrapped(f"{'to get it' if found.state == 'missing' else 'so'}: {found.get}")
    print()


def _print_wrapped(words: str) -> None:
    """Wrapped on a terminal, whole in a pipe, where somebody may search."""
    lines = [words]
    if sys.stdout.isatty():
        width = max(20, shutil.get_terminal_size().columns - len(INDENT) - 1)
        lines = textwrap.wrap(words, width, subsequent_indent="  ")
    for line in lines:
        print(f"{INDENT}{line}")
