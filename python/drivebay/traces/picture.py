"""Picture of a trace: addresses over time, rate over time, sizes.

Addresses are drawn for at most 200,000 requests, every n-th of the trace; rates and sizes count
all. Memory is bounded: two passes over the file, the first for the statistics.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drivebay._core import TraceBatches
from drivebay.common import units
from drivebay.common.errors import UserError
from drivebay.traces.convert import whole_file
from drivebay.traces.read import OPS, Described, Trace, in_order, source_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS_MAX = 200_000
BINS = 400
COLOURS = {"read": "#1f77b4", "write": "#d95f02"}
Floats = np.ndarray[Any, np.dtype[np.float64]]


def picture(what: Trace, described: Described, out: Path, *, force: bool = False) -> None:
    """Draws a trace into a PNG file. `what`: as for `info`. `described`: the output of `info`
    for it. `out`: the file to create; `force` replaces an existing one. Raises UserError or
    EnvironmentProblem as `info`; and if `out` exists or cannot be written.
    """
    source = source_of(what)
    path = source.path
    if path is not None and not path.is_file():
        raise UserError(f"--png: {path} is a pipe, which cannot be read twice", "save it to a file")
    with whole_file(out, force=force, option="--png") as part:
        gathered = in_order(source, lambda trace: _Gathered(trace, described))
        _draw(source.name, described, gathered, part)


class _Gathered:
    """Data for the picture, gathered from all requests."""

    def __init__(self, trace: TraceBatches, described: Described) -> None:
        self.bin_s = max(described.figures["duration_s"], 1e-6) / BINS
        limits = {"xlim": (0, self.bin_s * BINS), "ylim": (0, None)}
        self.time_axis: dict[str, Any] = {"xlabel": "time (s)", **limits}
        self.bytes: dict[str, Floats] = {name: np.zeros(BINS) for name in COLOURS}
        points: dict[str, list[Floats]] = {name: [] for name in COLOURS}
        step = -(-described.summary.requests // POINTS_MAX)
        count = 0
        while (columns := trace.next()) is not None:
            at_s = columns.at_ns / 1e9
            slots = np.minimum((at_s / self.bin_s).astype(np.int64), BINS - 1)
            drawn = (np.arange(len(at_s)) + count) % max(step, 1) == 0
            count += len(at_s)
            for name in COLOURS:
                mask = columns.op == OPS.index(name)
                self.bytes[name] += np.bincount(slots[mask], columns.bytes[mask], minlength=BINS)
                here = mask & drawn
                points[name].append(np.stack([at_s[here], columns.offset_bytes[here] / 1e9]))
        self.points = {name: np.concatenate(parts, axis=1) for name, parts in points.items()}
        self.step = max(step, 1)


def _draw(name: str, described: Described, gathered: _Gathered, part: Path) -> None:
    from matplotlib.figure import Figure

    figures = described.figures
    figure = Figure(figsize=(11, 9), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, height_ratios=(3, 2, 2))
    title = (
        f"{name} ({described.summary.format}): {figures['reads']:,} reads, "
        f"{units.si_bytes(figures['read_bytes'])}; {figures['writes']:,} writes, "
        f"{units.si_bytes(figures['written_bytes'])}; {figures['duration_s']:.6g} s"
    )
    # A "$" in the file name must not start a formula.
    figure.suptitle(title.replace("$", r"\$"))
    _addresses(top, gathered)
    times = (np.arange(BINS) + 0.5) * gathered.bin_s
    for name, colour in COLOURS.items():
        rate = gathered.bytes[name] / gathered.bin_s / 1e6
        middle.plot(times, rate, color=colour, linewidth=0.9, label=f"{name}s")
    middle.set(ylabel=f"MB/s, mean of {gathered.bin_s:.3g} s", **gathered.time_axis)
    middle.legend(loc="upper right")
    _sizes(bottom, figures["size_share"])
    figure.savefig(part, format="png", dpi=110)


def _addresses(axes: Axes, gathered: _Gathered) -> None:
    for name, colour in COLOURS.items():
        at_s, offset_gb = gathered.points[name]
        axes.scatter(at_s, offset_gb, s=2, color=colour, linewidths=0, alpha=0.5, label=f"{name}s")
    which = "every request" if gathered.step == 1 else f"1 of {gathered.step} requests"
    axes.set(ylabel=f"address (GB), {which}", **gathered.time_axis)
    axes.legend(loc="upper right", markerscale=4)


def _sizes(axes: Axes, shares: dict[str, float] | None) -> None:
    shares = shares or {}
    bars = axes.bar(list(shares), [share * 100 for share in shares.values()], color="#7f7f7f")
    axes.bar_label(bars, fmt="%.1f")
    axes.set(ylabel="% of reads and writes", xlabel="size (KB of 1024 bytes)", ylim=(0, 100))
