"""`drivebay doctor`: checks this machine for programs and permissions that drivebay uses."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from drivebay.cli import options
from drivebay.cli.output import print_json, show_wrapped
from drivebay.common.errors import EnvironmentProblem

if TYPE_CHECKING:
    from drivebay.targets.doctor import Finding

INDENT = " " * 11
STYLES = {"ok": "32", "note": "33", "missing": "31"}


def doctor(as_json: options.Json = False) -> None:
    """Check this machine for programs and permissions that drivebay uses.

    For each missing item it explains how to get it. It changes nothing. Exit code
    3 if something is missing without which drivebay cannot run.

    Examples:
      drivebay doctor
      drivebay doctor --json
    """
    from drivebay.targets import doctor as checks

    findings = checks.everything()
    lacking = [finding for finding in findings if finding.basic and finding.state == "missing"]
    if as_json:
        print_json({"ok": not lacking, "findings": [asdict(finding) for finding in findings]})
    else:
        for group in checks.GROUPS:
            _print_group(group, findings)
    if lacking:
        names = ", ".join(finding.name for finding in lacking)
        raise EnvironmentProblem(f"missing, and needed for every use: {names}", lacking[0].get)
    if not as_json:
        missing = sum(finding.state == "missing" for finding in findings)
        more = f"; {missing} optional items are missing" if missing else ""
        print(f"Virtual drives work here{more}.")


def _print_group(group: str, findings: list[Finding]) -> None:
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    wide = max(len(finding.name) for finding in findings)
    print(group)
    for finding in findings:
        if finding.group != group:
            continue
        state = f"{finding.state:<7}"
        if colour:
            state = f"\033[{STYLES[finding.state]}m{state}\033[0m"
        show_wrapped(finding.found, f"  {state}  {finding.name:<{wide}}  ", wide + 13)
        if finding.state != "ok":
            how = "to get it" if finding.state == "missing" else "so"
            show_wrapped(finding.needed_for, f"{INDENT}needed for: ")
            show_wrapped(finding.get, f"{INDENT}{how}: ")
    print()
