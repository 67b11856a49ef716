"""`drivebay suites`: lists the suites of tests that come with drivebay."""

from __future__ import annotations

from drivebay.cli import options
from drivebay.cli.output import answer


def suites(as_json: options.Json = False) -> None:
    """List the suites of tests.

    `review --suite` takes one of these names, or a file of your own.

    Examples:
      drivebay suites
      drivebay review --list --suite client-2024     its tests and durations
      drivebay review 980-pro-1tb --suite client-2024
    """
    from drivebay.definitions import suites as catalog

    known = [catalog.load(name) for name in catalog.names()]
    rows = [
        {
            "name": suite.name,
            "title": suite.title,
            "description": suite.description,
            "tests": [test.id for test in suite.tests],
        }
        for suite in known
    ]
    lines = [(suite.name, str(len(suite.tests)), suite.title) for suite in known]
    answer({"suites": rows}, as_json, ("suite", "tests", "title"), lines, right=(1,))
