"""The report's colours are told apart with and without the three common colour-blindnesses.

Simulation: Machado, Oliveira and Fernandes 2009, severity 1, in linear RGB. Difference: CIEDE2000
(Sharma, Wu and Dalal 2005).
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from drivebay.analysis import stages
from drivebay.report.base import theme
from drivebay.report.base.theme import DARK, LIGHT, STAGES
from drivebay.report.charts.stages import OTHER_STAGE

DIFFERENCE_MIN = 10.0
CONTRAST_MIN = 3.0
Floats = npt.NDArray[np.float64]
SIGHT = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(colour: str) -> Floats:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: Floats) -> tuple[float, float, float]:
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return float(116 * y - 16), float(500 * (x - y)), float(200 * (y - z))


def difference(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    """CIEDE2000."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean_chroma = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    g = 0.5 * (1 - np.sqrt(mean_chroma**7 / (mean_chroma**7 + 25.0**7)))
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180
    dl, dc, dh = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    light, chroma, hue = (l1 + l2) / 2, (c1 + c2) / 2, h1 + turn / 2
    t = (
        1
        - 0.17 * np.cos(np.radians(hue - 30))
        + 0.24 * np.cos(np.radians(2 * hue))
        + 0.32 * np.cos(np.radians(3 * hue + 6))
        - 0.20 * np.cos(np.radians(4 * hue - 63))
    )
    sl = 1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2)
    sc, sh = 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    bend = 60 * np.exp(-((((hue % 360) - 275) / 25) ** 2))
    rt = -np.sin(np.radians(bend)) * 2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    parts = (dl / sl) ** 2 + (dc / sc) ** 2 + (dh / sh) ** 2 + rt * dc / sc * dh / sh
    return float(np.sqrt(parts))


def series(theme: dict[str, str]) -> dict[str, str]:
    return {name: theme[name] for name in ("c1", "c2", "c3", "c4", "c5", "c6")}


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize(
    "colours", [series(LIGHT), series(DARK), STAGES], ids=["light", "dark", "stages"]
)
def test_colours_are_told_apart(sight: str, colours: dict[str, str]) -> None:
    seen = {name: lab(SIGHT[sight] @ linear(colour)) for name, colour in colours.items()}
    alike = {
        (one, other): round(found, 1)
        for one, other in itertools.combinations(seen, 2)
        if (found := difference(seen[one], seen[other])) < DIFFERENCE_MIN
    }
    assert alike == {}


def contrast(one: Floats, other: Floats) -> float:
    low, high = sorted(float(TO_XYZ[1] @ rgb) for rgb in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_series_stand_out_from_the_paper(colours: dict[str, str]) -> None:
    for name, colour in series(colours).items():
        assert contrast(linear(colour), linear(colours["paper"])) >= CONTRAST_MIN, name


def test_every_stage_has_a_colour_and_a_pattern_of_its_own() -> None:
    assert set(theme.STAGE_PATTERNS) == set(STAGES) == set(stages.STAGES)
    patterns = [*theme.STAGE_PATTERNS.values(), OTHER_STAGE[1]]
    for looks in (
        patterns,
        [theme.PATTERNS[one] for one in patterns],
    ):
        assert len(set(looks)) == len(patterns)


def test_patterns_are_seen_on_every_stage_but_faint() -> None:
    """The ink over a colour, mixed as a browser mixes them: in sRGB."""
    keep = 1 - theme.PATTERN_OPACITY
    for stage, colour in STAGES.items():
        parts = [round(keep * int(colour[at : at + 2], 16)) for at in (1, 3, 5)]
        inked = "#" + "".join(f"{part:02x}" for part in parts)
        assert 1.4 <= contrast(linear(colour), linear(inked)) <= CONTRAST_MIN, stage
