"""The sentences under charts: how many samples, how far they spread, where the axes begin.

Also the parts that every test has: its facts in one line, its method, its table of figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis import Measured, latency
from drivebay.analysis.timeline import Spread
from drivebay.common.units import binary_bytes
from drivebay.definitions.suites import Phase, Test
from drivebay.report import charts_time
from drivebay.report.entries import SELF, Run
from drivebay.report.markup import Child, Html, el
from drivebay.report.parts import details, table
from drivebay.report.words import DASH, load, number, preparation, quantity, step_words
from drivebay.report.words import kind as _kind
from drivebay.report.words import latency as latency_words

ZERO = "The axis starts at zero."
LOG = "Logarithmic axis, does not start at zero."
CLOSE = "Close-up: the axis does not start at zero."
PERCENTILES = (
    f"Percentiles are nearest-rank from exact counts in bins, at most "
    f"{latency.BIN_ERROR_PERCENT} % too high."
)


def spread(found: Spread | None, unit: str) -> str:
    """ "7,779 IOPS, sd 48.9, n = 400 s"."""
    if found is None:
        return "unknown"
    sd = "" if found.sd is None else f", sd {number(found.sd)}"
    return f"{quantity(found.mean, unit)}{sd}, n = {found.n:,}"


def counted(run: Run, *, of_ios: bool) -> str:
    """How many I/Os, or how many full seconds, all phases of a run have together."""
    steps = run.measured.steps
    if of_ios:
        return f"n = {sum(step.total_ios for step in steps):,} I/Os"
    return f"n = {sum(step.rate.n for step in steps if step.rate):,} samples of 1 s"


def named(runs: Sequence[Run], words: Sequence[str]) -> str:
    """One statement per run, with the run's name where there are several."""
    if len(runs) == 1:
        return f"{words[0]}."
    joined = "; ".join(f"{run.name}: {word}" for run, word in zip(runs, words, strict=True))
    return f"{joined}."


def heat(runs: Sequence[Run]) -> str:
    """Which of temperature and power are drawn, and which no target reports."""
    known = {
        "Temperature": charts_time.reports(runs, "temperature_c"),
        "Power": charts_time.reports(runs, "power_w"),
    }
    words = [f"{name}: not reported by this target." for name, there in known.items() if not there]
    if known["Temperature"]:
        words.append("The temperature axis does not start at zero.")
    if known["Power"]:
        words.append("The power axis starts at zero.")
    return " ".join(words)


def throttling(runs: Sequence[Run]) -> str:
    """What the tint means, where there is one: drives laid over each other have none."""
    if len({run.entry.key for run in runs}) > 1 or any(run.colour == SELF for run in runs):
        return ""
    shaded = any(
        (phase.timeline.throttle_stage > 0).any() for run in runs for phase in run.measured.phases
    )
    return "Tinted: the drive reports that it throttles." if shaded else ""


def test_facts(measured: Measured) -> list[tuple[str, str]]:
    """Figures of a test that stand in no chart: latency, write amplification, power, heat."""
    found = measured.figures
    pairs = []
    burst = found.get("burst_s")
    if burst is not None and burst.value is not None:
        rate = quantity(found["burst_iops"].value, "IOPS")
        pairs.append(("First burst", f"{rate} for {quantity(burst.value, 's')}"))
    for key, name in (("latency_p99", "p99 latency"), ("latency_p99.9", "p99.9 latency")):
        if key in found and found[key].value is not None:
            pairs.append((name, latency_words(found[key].value)))
    for key, name in (
        ("waf", "Write amplification"),
        ("power_mean", "Mean power"),
        ("power_peak", "Peak power"),
        ("temperature_peak", "Highest temperature"),
        ("throttled_s", "Throttled for"),
    ):
        if key in found and found[key].value is not None:
            pairs.append((name, quantity(found[key].value, found[key].unit)))
    return pairs


def steady(measured: Measured) -> list[str]:
    """Whether the load before the test became steady, where its preparation asks for it."""
    rounds = measured.figures.get("steady_rounds")
    if rounds is None or measured.test.rounds is not None:
        return []
    if rounds.note:
        return [f"Steady state, which the test asks for, was not reached: {rounds.note}"]
    return [f"Steady by SNIA's criterion after {number(rounds.value)} rounds of the load before"]


def method(test: Test) -> Html:
    """How a test was run, one click away."""
    rows: list[tuple[str, str]] = [
        ("Prepared", preparation(test)),
        ("Load", "; ".join(_loads(test))),
    ]
    if test.what_if:
        rows.insert(0, ("Drive changed", ", ".join(test.what_if)))
    if test.metric_window_s is not None:
        rows.append(("Figure from", f"the last {number(test.metric_window_s)} s"))
    if len(test.metric_queue_depths) > 1:
        rows.append(("Figure from", f"queue depths {_list(test.metric_queue_depths)}"))
    stable = test.phases[0].workload.until_stable
    if stable is not None:
        rows.append(
            (
                "Stable when",
                f"the rates of the last {stable.window_s} s lie within "
                f"{stable.within_percent:g} % of their mean, not before {stable.min_s} s",
            )
        )
    rows.append(("Source", test.source))
    return details(
        f"Method: {test.title}",
        el("p", " ".join(test.method.split())),
        el("dl", [el("div", el("dt", name), el("dd", words)) for name, words in rows]),
        class_="method",
    )


def _loads(test: Test) -> list[str]:
    """The phases' loads; what alone differs between them is listed within one line."""
    first, depth = test.phases[0].workload, test.phases[0].workload.queue_depth
    plain = not any(phase.replay or phase.trim or phase.before for phase in test.phases)
    varied = {
        name
        for phase in test.phases
        for name in type(first).model_fields
        if getattr(phase.workload, name) != getattr(first, name)
    }
    if not plain or not varied or varied - {"queue_depth", "read_percent", "block_bytes"}:
        return [_load(phase) for phase in test.phases]
    words = f"{load(first)} at each"
    for name, one, several, say in (
        ("queue_depth", f"queue depth {depth}", "queue depths ", str),
        ("read_percent", _kind(first), "mixes of reads and writes ", _mix),
        ("block_bytes", binary_bytes(first.block_bytes), "", binary_bytes),
    ):
        if name in varied:
            values = dict.fromkeys(getattr(phase.workload, name) for phase in test.phases)
            words = words.replace(one, several + ", ".join(say(value) for value in values), 1)
    return [words]


def _mix(read_percent: int) -> str:
    return f"{read_percent}/{100 - read_percent}"


def _load(phase: Phase) -> str:
    before = [step_words(step) for step in phase.before]
    special = phase.replay or phase.trim
    words = load(phase.workload) if special is None else special.words()
    return f"{words} (before it {', '.join(before)})" if before else words


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def ladder_table(runs: Sequence[Run]) -> Html:
    """Every figure of a ladder, by queue depth."""
    heads = ["Queue depth", "MB/s ± sd", "IOPS", "Mean latency"]
    heads += [f"p{q:g}" for q in latency.PERCENTILES]
    heads += ["Power ± sd", "Temperature", "WAF", "I/Os", "Samples of 1 s"]
    rows: list[list[Child]] = []
    for run in runs:
        for step in run.measured.steps:
            name = f"QD {step.queue_depth}"
            power = step.power
            rows.append(
                [
                    name if len(runs) == 1 else f"{run.name}, {name}",
                    _with_sd(step.rate_mb_s, step.rate.sd if step.rate else None),
                    number(step.iops),
                    latency_words(step.latency_mean_us),
                    *(latency_words(us) for us in step.percentiles_us.values()),
                    _with_sd(power.mean, power.sd) + " W" if power else DASH,
                    quantity(step.temperature_last_c, "°C"),
                    number(step.waf),
                    f"{step.total_ios:,}",
                    f"{step.rate.n:,}" if step.rate else "0",
                ]
            )
    return details(
        "All figures as a table",
        table(heads, rows, caption="Temperature: at the end of the step.", kind="data many"),
    )


def figures_table(runs: Sequence[Run]) -> Html:
    """Every figure of tests that are no ladder."""
    rows: list[list[Child]] = []
    for run in runs:
        for figure in run.measured.figures.values():
            spread_words = ""
            if figure.spread is not None:
                spread_words = f"± {quantity(figure.spread, figure.unit)} ({figure.spread_kind})"
            rows.append(
                [
                    figure.label if len(runs) == 1 else f"{run.name}: {figure.label}",
                    quantity(figure.value, figure.unit),
                    spread_words,
                    f"{figure.n:,} {figure.n_kind}" if figure.n else "",
                    figure.note,
                ]
            )
    return details(
        "All figures as a table", table(["Figure", "Value", "Spread", "From", "Note"], rows)
    )


def _with_sd(value: float, sd: float | None) -> str:
    return number(value) if sd is None else f"{number(value)} ± {number(sd)}"
