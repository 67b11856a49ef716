"""Traces made from published statistics: the core's synthesizer, written out or described."""

from __future__ import annotations

import math
from pathlib import Path

from drivebay import _core
from drivebay._core import TraceSource
from drivebay.common.errors import UserError
from drivebay.traces.convert import KINDS, kind_by_name, whole_file, written
from drivebay.traces.read import Described, described

SCALES = (1e-4, 10.0)


def names() -> list[str]:
    """The traces that can be synthesized.

    >>> names()
    ['destroyer', 'heavy', 'light']
    """
    return _core.synth_names()


def source(name: str, *, scale: float = 1.0, seed: int = 1) -> TraceSource:
    """Where the trace's requests come from.

    Parameters
    ----------
    name : one of `names()`.
    scale : times the published number of I/Os, 0.0001 to 10; addresses shrink alike.
    seed : the same one gives the same trace, on every platform.

    Raises
    ------
    UserError
        If one of them is not allowed.
    """
    if name not in names():
        raise UserError(
            f"trace '{name}' is unknown; must be {', '.join(names())}",
            "drivebay trace synth light --out light.csv",
        )
    if not (math.isfinite(scale) and SCALES[0] <= scale <= SCALES[1]):
        raise UserError(f"--scale: {scale} is not allowed; must be 0.0001 to 10", "--scale 0.01")
    if not 0 <= seed < 2**63:
        raise UserError(f"--seed: {seed} is not allowed; must be 0 to 2^63 - 1", "--seed 1")
    return TraceSource.synth(name, scale, seed)


def synth_info(name: str, *, scale: float = 1.0, seed: int = 1) -> Described:
    """Statistics of a synthesized trace, as `info` gives them of a file."""
    return described(source(name, scale=scale, seed=seed))


def synth(
    name: str,
    out: Path,
    *,
    scale: float = 1.0,
    seed: int = 1,
    to: str | None = None,
    force: bool = False,
) -> int:
    """Writes a synthesized trace; returns the number of its requests.

    Parameters
    ----------
    name, scale, seed : as for `source`.
    out : the file to make; it appears when it is complete.
    to : one of `KINDS`; None to go by the ending of `out`.
    force : replace `out` if it exists.

    Raises
    ------
    UserError, EnvironmentProblem
        As `convert`.
    """
    trace = source(name, scale=scale, seed=seed)
    kind = to or kind_by_name(out)
    if kind not in KINDS:
        raise UserError(f"--to: '{kind}' is unknown; must be {', '.join(KINDS)}", "--to csv")
    with whole_file(out, force=force, option="--out") as part:
        return written(trace, part, kind).requests
