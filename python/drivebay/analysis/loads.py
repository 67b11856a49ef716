"""Figures of several loads in one test: with scores, over compressibility, or as several ladders.

A score is what the test's data says it is: formula, weights and where they are from (suites.Score).
"""

from __future__ import annotations

from dataclasses import replace

from drivebay.analysis.figures import Figure, Measured, PhaseFigures, by_key
from drivebay.analysis.groups import by_mix
from drivebay.analysis.phases import of_any_phase, of_phases
from drivebay.definitions.suites import Test


def loads(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """Scores before the phases that they are made of; without scores the phases' rates."""
    rows = _of_each(phases)
    rates = {phase.label: phase.step.rate_mb_s for phase in phases}
    scores = []
    for score in test.scores:
        points = score.points(rates)
        scores.append(
            Figure(
                f"score_{score.key}",
                score.label,
                points,
                "points",
                n=len(score.terms),
                n_kind="phases",
                note="" if points is not None else "a phase that it needs has no rate",
            )
        )
    main = [row.key for row in scores] or [row.key for row in rows if row.unit == "MB/s"]
    return Measured(test, phases, by_key([*scores, *rows]), tuple(main))


def compression(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """For each direction how much faster the most compressible data is than the least."""
    gains = []
    for group in by_mix(phases):
        ends = sorted(group.phases, key=lambda one: one.workload.content.compressible_percent)
        first, last = ends[0].step, ends[-1].step
        percents = [one.workload.content.compressible_percent for one in (ends[-1], ends[0])]
        gain = last.rate_mb_s / first.rate_mb_s if first.rate_mb_s else None
        gains.append(
            Figure(
                f"gain_{group.name}",
                f"{group.words}, rate at {percents[0]} % compressible over that at {percents[1]} %",
                gain,
                "",
                n=len(ends),
                n_kind="phases",
                note="" if gain is not None else "nothing was moved",
            )
        )
    main = tuple(row.key for row in gains)
    return Measured(test, phases, by_key(gains + _of_each(phases)), main)


def ladders(test: Test, phases: tuple[PhaseFigures, ...]) -> Measured:
    """Every mix's rate, IOPS and mean latency by queue depth; the deepest queue's IOPS are main."""
    rows: list[Figure] = []
    main = []
    for group in by_mix(phases):
        for phase in group.phases:
            depth = phase.workload.queue_depth
            for kind, one in zip(
                ("rate", "iops", "latency_mean"), of_any_phase(phase, alone=False), strict=False
            ):
                name = one.label.partition(",")[0]
                label = f"{group.words}, {name} at QD {depth}"
                rows.append(replace(one, key=f"{kind}_{group.name}_qd{depth}", label=label))
        deepest = max(phase.workload.queue_depth for phase in group.phases)
        main.append(f"iops_{group.name}_qd{deepest}")
    return Measured(test, phases, by_key(rows), tuple(main))


def _of_each(phases: tuple[PhaseFigures, ...]) -> list[Figure]:
    """What every phase has; of a lone phase all that is known."""
    alone = len(phases) == 1
    rows = [row for phase in phases for row in of_any_phase(phase, alone=alone)]
    return rows + of_phases(phases)
