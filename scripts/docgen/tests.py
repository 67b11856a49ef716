"""Pages of the suites that come with drivebay: every test's method, source and parameters.

Loads and preparations are described as in the reports.
"""

from __future__ import annotations

from docgen.markdown import code, page, plain, table
from drivebay.common.units import duration
from drivebay.definitions import suites
from drivebay.definitions.suites import Phase, Score, Suite, Test
from drivebay.report.base import text


def pages() -> dict[str, str]:
    """The pages by their path in docs/."""
    loaded = [suites.load(name) for name in suites.names()]
    rows = [
        (
            f"[{suite.name}]({suite.name}.md)",
            plain(suite.title),
            str(len(suite.tests)),
            duration(sum(test.drive_seconds() for test in suite.tests)),
            plain(suite.source),
        )
        for suite in loaded
    ]
    introduction = """
These pages describe every test for readers of reports. They are generated from the suites,
`suites/*.toml`, and a report shows the same text with each figure. "Chosen here" marks a choice
that the publication leaves open. Tests like those of a proprietary tool are named after it
("ATTO-style"): they imitate its method and are not the tool. [Suites](../concepts/suites.md)
explains the form, [the reference](../reference/suite.md) every field.

The times are the longest times of loads and rests on a drive, without fills. A virtual drive
simulates an hour in seconds."""
    head = ("Suite", "Title", "Tests", "Loads and rests", "Source")
    index = page("How each test works", introduction, table(head, rows))
    return {"tests/index.md": index} | {f"tests/{suite.name}.md": _suite(suite) for suite in loaded}


def _suite(suite: Suite) -> str:
    introduction = (
        f"{plain(suite.description)}\n\nSource: {plain(suite.source)}.\n\n"
        f"Run it with `drivebay review DRIVE --suite {suite.name}`; `--list` shows the times."
    )
    return page(suite.title, introduction, "".join(_test(test) for test in suite.tests))


def _test(test: Test) -> str:
    facts = [
        ("Name", code(test.id)),
        ("Kind of figures", code(test.kind)),
        ("Preparation", plain(text.preparation(test))),
    ]
    if test.what_if:
        facts.append(("Changes of the drive", ", ".join(code(word) for word in test.what_if)))
    if test.metric_window_s is not None:
        facts.append(("Figures are from the last", duration(test.metric_window_s)))
    if test.metric_queue_depths:
        depths = ", ".join(str(depth) for depth in test.metric_queue_depths)
        facts.append(("The bar is the mean of queue depths", depths))
    if (rounds := test.rounds) is not None:
        facts.append(
            (
                "Rounds",
                f"until {rounds.variable} of {', '.join(map(code, rounds.tracked))} are steady "
                f"over {rounds.window_rounds} (range at most {rounds.range_percent:g} %, slope "
                f"{rounds.slope_percent:g} % of the mean), at most {rounds.rounds_max}",
            )
        )
    facts += [(f"Score: {plain(score.label)}", _score(score)) for score in test.scores]
    facts.append(("Loads and rests", f"at most {duration(test.drive_seconds())}"))
    count = len(test.phases)
    phases = table(("Phase", "Load", "Before the phase"), [_phase(phase) for phase in test.phases])
    return (
        f"## {plain(test.title)} {{#{test.id}}}\n\n{plain(test.method)}\n\n"
        f"Source: {plain(test.source)}.\n\n{table(('', ''), facts)}"
        f'??? abstract "{count} phase{"s" * (count > 1)}"\n\n'
        + "".join(f"    {line}\n" for line in phases.splitlines())
        + "\n"
    )


def _score(score: Score) -> str:
    terms = ", ".join(f"{code(label)} × {weight:g}" for label, weight in score.terms.items())
    return (
        f"{score.rule} in {score.rate_unit} of {terms}, times {score.factor:g}. "
        f"Source: {plain(score.source)}"
    )


def _phase(phase: Phase) -> tuple[str, str, str]:
    if phase.replay is not None:
        load = f"{phase.replay.words()}, about {duration(phase.replay.drive_s)}"
    elif phase.trim is not None:
        load = phase.trim.words()
    else:
        load = text.load(phase.workload) + text.tenancy(phase)
    before = [text.step_words(step) for step in phase.before]
    if phase.rest_s:
        before.append(f"rested {duration(phase.rest_s)}")
    return code(phase.label), plain(load), plain(", ".join(before))
