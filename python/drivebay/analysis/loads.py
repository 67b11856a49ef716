"""Figures of tests of several loads: mixes, sizes, scores, compressibility, ladders, ages, TRIM.

Sources: AnandTech's 2015 client suite: the bar of a mixed test is the mean of its six mixes' data
rates, the line has a point for each. ATTO shows a rate of reads and one of writes for each size. A
score is defined by the test's data: formula, weights and their source (suites.Score). AnandTech's
XP941 review, 2014-05-15: 128 KiB sequential writes for ten minutes on a clean drive, and again
after it was filled, tortured with random writes and trimmed; the ratio of the two rates is this
project's. A drive that ages has the rate over busy time, as in the Storage Bench: for each part of
the test the lowest rate and the last one.
"""

from __future__ import annotations

from dataclasses import replace

from drivebay.analysis import ladder
from drivebay.analysis.figures import Figure, Measured, Phases, by_key, iops, mean_of, per_io, rate
from drivebay.analysis.groups import NAMES, by_age, by_mix, mix_words
from drivebay.analysis.phases import absent, of_any_phase, of_each, of_phases
from drivebay.common.units import binary_bytes
from drivebay.definitions.suites import Test, spoken


def mixes(test: Test, phases: Phases) -> Measured:
    """Mean and extremes over the mixes, then the rate and IOPS of each."""
    mean = ladder.mean_rate([phase.step for phase in phases])
    label, note = f"Mean of {len(phases)} mixes", "" if phases else "no mix was run"
    rows = [mean_of("mean_rate", label, mean, "MB/s", note)]
    for key, extreme, pick in (("lowest", "Lowest", min), ("highest", "Highest", max)):
        if phases:
            picked = pick(phases, key=lambda phase: phase.step.rate_mb_s)
            row = rate(f"rate_{key}", f"{extreme} rate of all mixes", picked.step)
            rows.append(replace(row, place=f"at {mix_words(picked.workload)}"))
    for phase in phases:
        percent, mix = phase.workload.read_percent, mix_words(phase.workload)
        rows.append(rate(f"rate_r{percent}", f"Data rate at {mix}", phase.step))
        rows.append(iops(f"iops_r{percent}", f"IOPS at {mix}", phase.step))
    main = ("mean_rate", "rate_lowest", "rate_highest")
    return Measured(test, phases, by_key(rows + of_phases(phases)), main)


def sizes(test: Test, phases: Phases) -> Measured:
    """The highest rate of each direction, then the rate of each size."""
    rows = []
    for percent, (name, plural) in reversed(NAMES.items()):
        some = [phase for phase in phases if phase.workload.read_percent == percent]
        if not some:
            continue
        best = max(some, key=lambda phase: phase.step.rate_mb_s)
        row = rate(f"highest_{name}", f"Highest {name} rate", best.step)
        rows.append(replace(row, place=f"at {binary_bytes(best.workload.block_bytes)}"))
        for phase in some:
            label = f"Data rate of {plural} of {binary_bytes(phase.workload.block_bytes)}"
            rows.append(rate(f"rate_{name}_{phase.workload.block_bytes}", label, phase.step))
    main = tuple(row.key for row in rows if row.key.startswith("highest_"))
    return Measured(test, phases, by_key(rows + of_phases(phases)), main)


def loads(test: Test, phases: Phases) -> Measured:
    """Scores followed by the phases that they are computed from; without scores the phases'
    rates, and for resets and finishes of zones, which move no data, the latency.
    """
    rows = of_each(phases)
    rates = {phase.label: phase.step.rate_mb_s for phase in phases}
    scores = []
    for score in test.scores:
        points = score.points(rates)
        note = "" if points is not None else "a required phase has no data rate"
        key, n = f"score_{score.key}", len(score.terms)
        scores.append(Figure(key, score.label, points, "points", n=n, n_kind="phases", note=note))
    main = [row.key for row in scores]
    for phase in () if scores else phases:
        kind = "latency_mean" if phase.workload.manages_zones else "rate"
        main.append(kind if len(phases) == 1 else f"{kind}_{phase.label}")
    return Measured(test, phases, by_key([*scores, *rows]), tuple(main))


def efficiency(test: Test, phases: Phases) -> Measured:
    """MB/s per watt of every load, over the seconds with known power, then its rates.

    Source: AnandTech's suites since 2017 print the mean data rate over the mean power.
    """
    rows = []
    for phase in phases:
        power = phase.step.power
        value = phase.step.rate_mb_s / power.mean if power and power.mean else None
        n = power.n if power else 0
        label = f"Data rate per watt, {spoken(phase.label)}"
        key, note = f"per_watt_{phase.label}", absent(value)
        rows.append(Figure(key, label, value, "MB/s per W", n=n, note=note))
    main = tuple(row.key for row in rows)
    return Measured(test, phases, by_key([*rows, *of_each(phases)]), main)


def compression(test: Test, phases: Phases) -> Measured:
    """For each direction, the rate with the most compressible data divided by that with the
    least.
    """
    gains = []
    for group in by_mix(phases):
        ends = sorted(group.phases, key=lambda phase: phase.workload.content.compressible_percent)
        first, last = ends[0].step, ends[-1].step
        most, least = (phase.workload.content.compressible_percent for phase in (ends[-1], ends[0]))
        label = f"{group.words}, ratio of rates at {most} % and {least} % compressible"
        gain = last.rate_mb_s / first.rate_mb_s if first.rate_mb_s else None
        note = "" if gain is not None else "no data was transferred"
        key, n = f"gain_{group.name}", len(ends)
        gains.append(Figure(key, label, gain, "", n=n, n_kind="phases", note=note))
    main = tuple(row.key for row in gains)
    return Measured(test, phases, by_key(gains + of_each(phases)), main)


def ladders(test: Test, phases: Phases) -> Measured:
    """Rate, IOPS and mean latency of every mix by queue depth; the deepest queue's IOPS are main
    figures.
    """
    rows: list[Figure] = []
    main = []
    for group in by_mix(phases):
        for phase in group.phases:
            depth = phase.workload.queue_depth
            three = of_any_phase(phase, alone=False)[:3]
            for kind, row in zip(("rate", "iops", "latency_mean"), three, strict=True):
                name = row.label.partition(",")[0]
                label = f"{group.words}, {name} at QD {depth}"
                rows.append(replace(row, key=f"{kind}_{group.name}_qd{depth}", label=label))
        deepest = max(phase.workload.queue_depth for phase in group.phases)
        main.append(f"iops_{group.name}_qd{deepest}")
    return Measured(test, phases, by_key(rows), tuple(main))


def ageing(test: Test, phases: Phases) -> Measured:
    """For each part of the test the mean, lowest and last rate over busy time; then every
    replay.
    """
    rows: list[Figure] = []
    for group in by_age(phases):
        rates = [phase.bench.rate_busy for phase in group.phases if phase.bench is not None]
        for key, label, value in (
            ("rate", "mean data rate", sum(rates) / len(rates)),
            ("rate_lowest", "lowest data rate", min(rates)),
            ("rate_last", "last data rate", rates[-1]),
        ):
            title = f"{group.words}, {label}"
            name, n = f"{key}_{group.name}", len(rates)
            rows.append(Figure(name, title, value, "MB/s", n=n, n_kind="replays"))
    main = tuple(row.key for row in rows if row.key.startswith(("rate_lowest_", "rate_last_")))
    for phase in phases:
        if phase.bench is None:
            rows += of_any_phase(phase, alone=False)[:2]
            continue
        bench = phase.bench
        for key, label, value, unit in (
            ("busy_rate", "Data rate over busy time", bench.rate_busy, "MB/s"),
            ("latency_mean", "Mean latency", bench.latency_mean_us, "µs"),
            ("over_10_ms", "I/Os over 10 ms", bench.over_10_ms_percent, "%"),
        ):
            title = f"{label}, {phase.label}"
            rows.append(per_io(f"{key}_{phase.label}", title, value, unit, bench.ios))
    return Measured(test, phases, by_key(rows), main)


def trim_write(test: Test, phases: Phases) -> Measured:
    """Rates before and after TRIM, their ratio, and the rates in between."""
    rows = [
        rate(f"rate_{phase.label}", f"Data rate, {phase.label.replace('-', ' ')}", phase.step)
        for phase in phases
    ]
    if len(phases) > 1:
        first, last = phases[0].step, phases[-1].step
        left = 100 * last.rate_mb_s / first.rate_mb_s if first.rate_mb_s else None
        note = "" if left is not None else "nothing was written before TRIM"
        n = sum(step.rate.n for step in (first, last) if step.rate)
        label = "Rate after TRIM, relative to the clean drive"
        rows.insert(0, Figure("left_percent", label, left, "%", n=n, note=note))
    ends = dict.fromkeys(phases[place].label for place in (0, -1)) if phases else {}
    main = ("left_percent", *(f"rate_{label}" for label in ends))
    return Measured(test, phases, by_key(rows + of_phases(phases)), main)
