"""Draws panels as small SVG for a page: what is shown before the page's script draws, without
JavaScript, and on paper.

The charts are those of `render_file`, drawn by matplotlib onto a device of our own, which writes
little: whole coordinates, relative to the last one, one path for neighbours of the same style, and
colours as variables of the page's theme.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import colors
from matplotlib.backend_bases import GraphicsContextBase, RendererBase
from matplotlib.path import Path
from matplotlib.transforms import Bbox, Transform

from drivebay.report import theme
from drivebay.report.charts.model import Panel, Series
from drivebay.report.markup import Html, text
from drivebay.report.render_file import bare

FINE = 2
"""Coordinates are whole numbers of a pixel's parts."""
SCATTER_MAX = 4_000
LINE_MAX = 1_200
AREA_MAX = 160
NAMES = {colors.to_hex(value): f"var(--{name})" for name, value in theme.LIGHT.items()
         if value.startswith("#")}  # fmt: skip
TEXT = NAMES[colors.to_hex(theme.LIGHT["muted"])]
Floats = npt.NDArray[np.float64]


def still(panel: Panel) -> Html:
    """The chart in its first view, without title, legend and caption."""
    chart = replace(panel.chart, series=tuple(map(_thinned, panel.chart.series)))
    figure = bare(replace(panel, chart=chart), FINE)
    device = _Device(round(figure.bbox.width), round(figure.bbox.height), figure.dpi)
    figure.draw(device)
    size = device.font_size
    return Html(
        f'<svg class="still" viewBox="0 0 {device.width} {device.height}" '
        f'preserveAspectRatio="xMinYMin" font-size="{size}" fill="none">{device.content()}</svg>'
    )


def _thinned(one: Series) -> Series:
    """The series with fewer points; outlines and bars are whole."""
    most = {"scatter": SCATTER_MAX, "line": LINE_MAX, "area": AREA_MAX}.get(one.kind, len(one.y))
    step = -(-len(one.y) // most) if most else 1
    if step <= 1 or one.labels:
        return one
    spread = None if one.spread is None else one.spread[::step]
    return replace(one, x=one.x[::step], y=one.y[::step], spread=spread)


class _Device(RendererBase):
    """Takes what matplotlib draws, as SVG elements."""

    def __init__(self, width: int, height: int, dpi: float) -> None:
        super().__init__()
        self.width, self.height, self.dpi = width, height, dpi
        self.font_size = round(8 * dpi / 72)
        self._done: list[str] = []
        self._style = ""
        self._path: list[str] = []

    def content(self) -> str:
        """The elements drawn so far."""
        self._end()
        return "".join(self._done)

    # --- what matplotlib calls ----------------------------------------------------------------

    def flipy(self) -> bool:
        """Whether y grows downwards, for texts."""
        return True

    def get_canvas_width_height(self) -> tuple[float, float]:
        """In the device's pixels."""
        return self.width, self.height

    def points_to_pixels(self, points: Any) -> Any:
        """In the device's pixels."""
        return points * self.dpi / 72

    def draw_path(
        self, gc: GraphicsContextBase, path: Path, transform: Transform, rgbFace: Any = None
    ) -> None:
        """A line or a filled outline, within the axes."""
        clip: Bbox | None = gc.get_clip_rectangle()
        if rgbFace is not None:
            path = path.transformed(transform)
            outlines = path.clip_to_bbox(clip) if clip is not None else path
            self._draw(_fill(gc, rgbFace), self._lines(outlines, close=True))
        if gc.get_linewidth() and (rgbFace is None or not _same(gc.get_rgb(), rgbFace)):
            window: Any = clip.extents if clip is not None else (0, 0, self.width, self.height)
            seen = path.cleaned(None if rgbFace is not None else transform, remove_nans=True,
                                clip=window, simplify=True)  # fmt: skip
            self._draw(self._stroke(gc), self._lines(seen, close=False))

    def draw_markers(
        self,
        gc: GraphicsContextBase,
        marker_path: Path,
        marker_trans: Transform,
        path: Path,
        trans: Transform,
        rgbFace: Any = None,
    ) -> None:
        """Points: dots as ends of lines without a length, everything else as copies."""
        places = np.asarray(trans.transform(path.vertices), dtype=float)
        places = places[np.isfinite(places).all(axis=1)]
        clip: Bbox | None = gc.get_clip_rectangle()
        if clip is not None:
            inside = (places >= np.subtract(clip.min, 1)) & (places <= np.add(clip.max, 1))
            places = places[inside.all(axis=1)]
        shape = marker_path.transformed(marker_trans)
        if marker_path.codes is not None and Path.CURVE4 in np.asarray(marker_path.codes):
            if rgbFace is None:
                return
            wide = shape.get_extents().width
            style = f"{_paint('stroke', rgbFace, gc)} stroke-width={_quoted(wide)} "
            self._draw(style + 'stroke-linecap="round"', _dots(self._whole(places)))
            return
        style = self._stroke(gc) if rgbFace is None or gc.get_linewidth() else _fill(gc, rgbFace)
        for x, y in places:
            moved = Path(np.add(shape.vertices, (x, y)), shape.codes)
            self._draw(style, self._lines(moved, close=style.startswith("fill")))

    def draw_text(
        self,
        gc: GraphicsContextBase,
        x: float,
        y: float,
        s: str,
        prop: Any,
        angle: float,
        ismath: Any = False,
        mtext: Any = None,
    ) -> None:
        """Words, anchored as matplotlib anchors them: the reader's font has other widths."""
        self._end()
        anchor = ""
        if mtext is not None and not angle:
            x = mtext.get_transform().transform(mtext.get_unitless_position())[0]
            place = {"center": "middle", "right": "end"}.get(mtext.get_horizontalalignment())
            anchor = f' text-anchor="{place}"' if place else ""
        size = round(self.points_to_pixels(prop.get_size_in_points()))
        styles = _paint("fill", gc.get_rgb(), gc)
        styles += "" if size == self.font_size else f' font-size="{size}"'
        turn = f' transform="rotate({-angle:g} {x:.0f} {y:.0f})"' if angle else ""
        place = f'x="{x:.0f}" y="{y:.0f}"'
        self._done.append(f"<text {place} {styles}{anchor}{turn}>{text(s)}</text>")

    # --- paths --------------------------------------------------------------------------------

    def _whole(self, places: Floats) -> npt.NDArray[np.int64]:
        flipped = np.column_stack((places[:, 0], self.height - places[:, 1]))
        return np.rint(np.clip(flipped, -9999, 9999)).astype(np.int64)

    def _lines(self, path: Path, *, close: bool) -> str:
        """Path data of straight lines; without places that round to the one before."""
        vertices = np.asarray(path.vertices, dtype=float)
        finite = np.isfinite(vertices).all(axis=1)
        points = self._whole(np.where(finite[:, None], vertices, 0))
        codes = np.full(len(points), Path.LINETO)
        codes[:1] = Path.MOVETO
        if path.codes is not None:
            codes = np.asarray(path.codes)
        out = _Pen()
        for (x, y), code, known in zip(
            points.tolist(), codes.tolist(), finite.tolist(), strict=True
        ):
            if code == Path.STOP or not known:
                continue
            if code == Path.CLOSEPOLY:
                out.close()
            elif code == Path.MOVETO:
                out.move(x, y)
            else:
                out.line(x, y)
        if close:
            out.close()
        return out.data()

    def _stroke(self, gc: GraphicsContextBase) -> str:
        width = self.points_to_pixels(gc.get_linewidth())
        style = f"{_paint('stroke', gc.get_rgb(), gc)} stroke-width={_quoted(width)}"
        dashes: Any = gc.get_dashes()[1]
        if dashes is not None:
            lengths = " ".join(f"{self.points_to_pixels(one):.0f}" for one in dashes)
            style += f' stroke-dasharray="{lengths}"'
        return style

    def _draw(self, style: str, data: str) -> None:
        if not data:
            return
        if style != self._style:
            self._end()
            self._style = style
        self._path.append(data)

    def _end(self) -> None:
        if self._path:
            self._done.append(f'<path {self._style} d="{"".join(self._path)}"/>')
        self._path, self._style = [], ""


class _Pen:
    """Writes path data: each subpath from an absolute place, then relative steps."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.start: tuple[int, int] | None = None
        self.at: tuple[int, int] | None = None
        self.steps: list[tuple[int, int]] = []

    def move(self, x: int, y: int) -> None:
        self._flush("")
        self.start = self.at = (x, y)

    def line(self, x: int, y: int) -> None:
        assert self.at is not None, "a line begins somewhere"
        step = x - self.at[0], y - self.at[1]
        if step != (0, 0):
            self.steps.append(step)
        self.at = x, y

    def close(self) -> None:
        self._flush("z")

    def data(self) -> str:
        self._flush("")
        return "".join(self.parts)

    def _flush(self, end: str) -> None:
        if self.start is not None and self.steps:
            self.parts.append(f"M{_pairs([self.start])}l{_pairs(self.steps)}{end}")
            self.at = self.start
        self.steps = []


def _pairs(steps: Sequence[tuple[int, int]]) -> str:
    """Numbers one after the other; a minus needs no space before it."""
    words = " ".join(str(one) for step in steps for one in step)
    return words.replace(" -", "-")


def _dots(places: npt.NDArray[np.int64]) -> str:
    """Each place once, from left to right, as lines without a length."""
    seen = np.unique(places, axis=0)
    if not len(seen):
        return ""
    steps = np.diff(seen, axis=0).tolist()
    first = f"M{_pairs([tuple(seen[0].tolist())])}h0"
    return first + "".join(f"m{_pairs([(x, y)])}h0" for x, y in steps)


def _quoted(number: float) -> str:
    return f'"{number:.3g}"'


def _same(one: Any, other: Any) -> bool:
    return bool(colors.same_color(colors.to_rgb(one), colors.to_rgb(other)))


def _fill(gc: GraphicsContextBase, face: Any) -> str:
    return _paint("fill", face, gc)


def _paint(kind: str, colour: Any, gc: GraphicsContextBase) -> str:
    """A colour as a name of the theme where it has one, and its opacity."""
    name = colors.to_hex(colour)
    alpha = gc.get_alpha() if gc.get_forced_alpha() else (colour[3] if len(colour) == 4 else 1)
    words = f'{kind}="{NAMES.get(name, name)}"'
    return words if alpha == 1 else f'{words} {kind}-opacity="{alpha:.2g}"'
