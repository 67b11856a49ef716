"""What the doctor found, as lines that fit any terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from dataclasses import asdict

from drivebay.common.errors import EnvironmentProblem
from drivebay.targets import doctor

INDENT = " " * 11
STYLES = {"ok": "32", "note": "33", "missing": "31"}


def examine(*, as_json: bool) -> None:
    """Looks at everything and prints it.

    Raises
    ------
    EnvironmentProblem
        If a basic thing is missing; everything has been printed by then.
    """
    findings = doctor.everything()
    lacking = [found for found in findings if found.basic and found.state == "missing"]
    if as_json:
        report = {"ok": not lacking, "findings": [asdict(found) for found in findings]}
        print(json.dumps(report, indent=1))
    else:
        _show(findings)
    if lacking:
        names = ", ".join(found.name for found in lacking)
        raise EnvironmentProblem(f"missing for every use: {names}", lacking[0].get)


def _say(words: str) -> None:
    """Words under a finding; wrapped on a terminal, whole in a pipe, where somebody may search."""
    lines = [words]
    if sys.stdout.isatty():
        width = max(20, shutil.get_terminal_size().columns - len(INDENT) - 1)
        lines = textwrap.wrap(words, width, subsequent_indent="  ")
    for line in lines:
        print(f"{INDENT}{line}")


def _show(findings: list[doctor.Finding]) -> None:
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    wide = max(len(found.name) for found in findings)
    for group in doctor.GROUPS:
        print(group)
        for found in findings:
            if found.group != group:
                continue
            state = f"{found.state:<7}"
            if colour:
                state = f"\033[{STYLES[found.state]}m{state}\033[0m"
            print(f"  {state}  {found.name:<{wide}}  {found.found}")
            if found.state != "ok":
                _say(f"needed for: {found.needed_for}")
                _say(f"{'to get it' if found.state == 'missing' else 'so'}: {found.get}")
        print()
    missing = sum(found.state == "missing" for found in findings)
    basic = any(found.basic and found.state == "missing" for found in findings)
    if not basic:
        more = f"; {missing} more things would add to it" if missing else ""
        print(f"Virtual drives work here{more}.")
