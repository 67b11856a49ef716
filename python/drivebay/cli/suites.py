"""`drivebay suites`: the suites of tests that come with drivebay."""

from __future__ import annotations

from drivebay.cli import options
from drivebay.cli.output import print_json, table

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay suites
  drivebay review --list --suite client-2024     its tests and durations
  drivebay review 980-pro-1tb --suite client-2024"""
)
def suites(as_json: options.Json = False) -> None:
    """List the suites of tests.

    `review --suite NAME` takes one of them, or a file of your own.
    """
    from drivebay.definitions import suites as catalog

    found = [catalog.load(name) for name in catalog.names()]
    if as_json:
        rows = [
            {
                "name": one.name,
                "title": one.title,
                "description": one.description,
                "tests": [test.id for test in one.tests],
            }
            for one in found
        ]
        print_json({"suites": rows})
        return
    shown = [(one.name, str(len(one.tests)), one.title) for one in found]
    table(("suite", "tests", "title"), shown, right=(1,))
