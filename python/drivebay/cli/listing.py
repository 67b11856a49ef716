"""The command `review --list`: a suite's tests, what each is, and how long it takes."""

from __future__ import annotations

import json
from contextlib import closing

from drivebay import review as engine
from drivebay.cli import reviewing, show
from drivebay.common import units
from drivebay.definitions import suites
from drivebay.definitions.suites import Test


def tests(options: reviewing.Options, *, as_json: bool) -> None:
    """Lists the tests that `review` would run; with a drive, how long they take on it."""
    suite = suites.load(options.suite or reviewing.DEFAULT_SUITE)
    chosen = reviewing.select(suite, options.only, options.skip)
    estimates = _estimates(options, chosen.tests) if options.drive is not None else {}
    if as_json:
        rows = [
            {
                "id": test.id,
                "title": test.title,
                "page": test.page,
                "kind": test.kind,
                "what_if": list(test.what_if),
                "drive_s": test.in_real_time().drive_seconds(),
                "quick_drive_s": test.shortened().in_real_time().drive_seconds(),
                "estimate_s": estimates.get(test.id),
            }
            for test in chosen.tests
        ]
        print(json.dumps({"suite": suite.name, "title": suite.title, "tests": rows}, indent=1))
        return
    print(f"{suite.name}: {suite.title}")
    heads = ["test", "lasts", "quick", *(["on this drive"] if estimates else []), "title"]
    lines = []
    for test in chosen.tests:
        line = [test.id, *map(_lasts, (test, test.shortened()))]
        line += [units.duration(estimates[test.id])] if estimates else []
        lines.append((*line, test.title))
    show.table(tuple(heads), lines)
    print("lasts: rests and loads on a real drive, at the longest, without fills and purges")


def _lasts(test: Test) -> str:
    return units.duration(test.in_real_time().drive_seconds())


def _estimates(options: reviewing.Options, chosen: tuple[Test, ...]) -> dict[str, float]:
    """Wall-clock seconds of each test on the drive, in the form asked for; nothing is touched."""
    assert options.drive is not None, "the caller has looked"
    forms = tuple(test.shortened() if options.quick else test for test in chosen)
    with closing(reviewing.factory_of(options.drive, options)()) as target:
        if target.kind != "virtual":
            forms = tuple(test.in_real_time() for test in forms)
        return {step.test.id: step.estimate_s for step in engine.make_plan(target, forms).steps}
