"""What TRIM gives back: the same write before and after torture and TRIM.

Source: AnandTech's XP941 review, 2014-05-15: 128 KiB sequential writes for ten minutes on a clean
drive, and again after it was filled, tortured with random writes and trimmed. The ratio of the two
is this project's; the review printed both rates.
"""

from __future__ import annotations

from collections.abc import Sequence

from drivebay.analysis.figures import SD, Figure, PhaseFigures


def of_trim_write(phases: Sequence[PhaseFigures]) -> list[Figure]:
    """The rates before, after, what is left, and what came between."""
    rows = []
    for phase in phases:
        step = phase.step
        some = step.rate
        rows.append(
            Figure(
                f"rate_{phase.label}",
                f"Data rate, {phase.label.replace('-', ' ')}",
                step.rate_mb_s,
                "MB/s",
                some.sd if some else None,
                SD,
                some.n if some else 0,
            )
        )
    if len(phases) < 2:
        return rows
    first, last = phases[0].step, phases[-1].step
    left = 100 * last.rate_mb_s / first.rate_mb_s if first.rate_mb_s else None
    note = "" if left is not None else "nothing was written before"
    n = sum(step.rate.n for step in (first, last) if step.rate)
    return [
        Figure("left_percent", "After TRIM, of the clean drive's rate", left, "%", n=n, note=note),
        *rows,
    ]
