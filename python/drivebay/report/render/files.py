"""Writes panels to files: SVG, PNG made from it, and the data as CSV.

The same chart has the same bytes on every machine: PNG uses matplotlib's fonts instead of the
system's. In SVG, text stays text.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import io
import math
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from drivebay.common.errors import UserError
from drivebay.report.charts.model import Chart, Limits, Panel, Series, rounded
from drivebay.report.render.svg import picture

# Pixels of the PNG per pixel of the page.
ZOOM = 2
# Marks a folder written by drivebay, whose pictures may be replaced.
MARK = ".drivebay-pictures"


def write(panels: Sequence[Panel], who: str, out: Path) -> list[Path]:
    """Writes every panel with its switches in their first position as PNG, SVG and CSV into a
    folder and returns the paths of the pictures; `who` names the drives. Files are moved into
    place only after all have been made.
    """
    others = any(out.iterdir()) if out.is_dir() else out.exists()
    if others and not (out / MARK).is_file():
        raise UserError(
            f"--png: {out} contains other files, which could be overwritten", "choose a new folder"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-"))
    try:
        names = []
        for panel in panels:
            (made / f"{panel.chart.id}.csv").write_text(csv_of(panel.chart), encoding="utf-8")
            name, drawn = panel.chart.id, picture(panel, who)
            (made / f"{name}.png").write_bytes(png(drawn))
            (made / f"{name}.svg").write_text(drawn, encoding="utf-8")
            names += [f"{name}.png", f"{name}.svg"]
        out.mkdir(exist_ok=True)
        (out / MARK).touch()
        for path in sorted(made.iterdir()):
            path.replace(out / path.name)
    finally:
        shutil.rmtree(made)
    return [out / name for name in names]


def png(svg: str) -> bytes:
    """Picture as PNG."""
    import resvg_py  # a native library, needed for files only

    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=svg, zoom=ZOOM, font_files=_fonts(), skip_system_fonts=True
        )
    )


@functools.cache
def _fonts() -> list[str]:
    """DejaVu Sans from matplotlib's files, without loading matplotlib."""
    spec = importlib.util.find_spec("matplotlib")
    assert spec is not None and spec.origin is not None, "a dependency"
    folder = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
    return [str(folder / name) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")]


def csv_of(chart: Chart) -> str:
    """Data of a chart: one row per point, with series, unit, place, value, spread and both ends of
    the interval.
    """
    out = io.StringIO()
    rows = csv.writer(out)
    over = "load" if chart.horizontal else chart.x.label or "x"
    rows.writerow(["series", "unit", over, "value", "spread", "low", "high"])
    bands = {series.title: _band(series) for series in chart.series if series.kind == "band"}
    for series in chart.series:
        if series.kind in ("band", "words"):
            continue
        named = chart.x.scale == "category"
        x = series.x if named else rounded([float(value) for value in series.x])
        count = len(series.y)
        own = series.ends if any(series.ends) else [None] * count
        spread = [None] * count if series.spread is None else rounded(series.spread)
        band = bands.get(series.title, {})
        ends = [interval or band.get(at) for interval, at in zip(own, series.x, strict=True)]
        lows, highs = (rounded([end[at] if end else math.nan for end in ends]) for at in (0, 1))
        for row in zip(x, rounded(series.y), spread, lows, highs, strict=True):
            rows.writerow(map(_no_formula, (series.title, series.unit, *row)))
    return out.getvalue()


def _no_formula(cell: float | str | None) -> float | str | None:
    """Returns the cell. A text that a spreadsheet would run as a formula begins with an apostrophe.

    Source: OWASP, CSV Injection.

    >>> _no_formula("=1+1"), _no_formula(-1.0)
    ("'=1+1", -1.0)
    """
    is_formula = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{cell}" if is_formula else cell


def _band(series: Series) -> dict[float | str, Limits]:
    """Interval at each place of a band. A band lists its upper ends, then its lower ends in reverse
    order (`curves`).
    """
    half = len(series.y) // 2
    pairs = zip(series.x[:half], series.y[:half], reversed(series.y[half:]), strict=True)
    return {place: (low, high) for place, high, low in pairs}
