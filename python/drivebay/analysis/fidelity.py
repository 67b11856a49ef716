"""What `make fidelity` found, as it is kept: leverage and errors of published rows, how far the
parameters leave figures open, and whether profiles or model have changed since.

Sources: fidelity.json.xz in published/computed/, and fidelity-modern.json.xz of today's drives,
which scripts/fidelity.py writes and docs/fidelity.md explains; validation-run.json.xz is the run
beside it."""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import math
import re
import statistics
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drivebay.analysis.figures import Figure
from drivebay.common import data

FILE = "fidelity"
MODERN = "fidelity-modern"
RECORDED = "validation-run"
Z_90 = 1.645
"""Half of a 90 % interval, in standard deviations."""
OPEN = 2.0
"""Where the parameters leave more than so many times open, as where some of their values throttle a
drive within a test, a derivative says no more than that: intervals end here."""
NEARLY_OPEN = 1.95
"""An interval of so many times each way is put into words: it ends where it is cut."""
UNITS = frozenset({"IOPS", "MB/s", "µs", "ms", "s", "h", "W"})
"""Units of figures that have an interval."""
RATES = frozenset({"IOPS", "MB/s"})
Spreads = Mapping[str, Mapping[str, Sequence[Any]]]
"""By test and key of a figure: standard deviation over the figure, unit."""
MODEL_CRATES = ("units", "drive", "run")
AGAIN = "make fidelity"


def folder() -> Path:
    """Where published figures are kept."""
    return data.path("published")


def file_of(name: str) -> Path:
    """Where a computed document lies: JSON, compressed by xz."""
    return folder() / "computed" / f"{name}.json.xz"


def compressed(document: Mapping[str, Any]) -> bytes:
    """A document as it is kept; the same document gives the same bytes."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


@functools.cache
def kept() -> Mapping[str, Any]:
    """The results; empty where there are none."""
    return _read(FILE)


@functools.cache
def kept_modern() -> Mapping[str, Any]:
    """Those of today's drives, named by `drives`; without intervals of figures that no row has."""
    return _read(MODERN)


def recorded() -> dict[str, Any]:
    """The recorded run of `drivebay validate`, as its `--json` prints it."""
    return _read(RECORDED)


def profile_of(run_drive: str) -> str:
    """The catalog's name of a run's drive.

    >>> profile_of("970-evo-plus-1tb+scaled-16@laptop")
    '970-evo-plus-1tb'
    """
    return run_drive.partition("@")[0].partition("+")[0]


@functools.cache
def derived_modern(drive: str) -> frozenset[str]:
    """The parameters of one of today's drives that its rows have derivatives by, as
    "nand.read_us"."""
    return frozenset(
        one["name"]
        for one in kept_modern().get("parameters", ())
        if drive in map(profile_of, one["drives"])
    )


def _read(name: str) -> dict[str, Any]:
    try:
        found = json.loads(lzma.decompress(file_of(name).read_bytes()))
    except FileNotFoundError:
        return {}
    assert isinstance(found, dict), name
    return found


def fingerprint(modern: Collection[str] = ()) -> dict[str, str]:
    """Of the profiles with what is run on them, and of the model's code; "" for code that is not
    here, as in an installed package. Drives that are not scored are not in it, nor their rows;
    `modern`: some of those, with theirs alone."""
    plan = tomllib.loads((folder() / "validation.toml").read_text(encoding="utf-8"))
    names = {line.split(",")[1] for line in _figures()} | set(_profiles())
    left_out = names - set(modern) if modern else set(plan["unscored"])
    figures = [line for line in _figures() if line.split(",")[1] not in left_out]
    ids = {line.split(",")[0] for line in figures}
    rows = [row for row in plan["row"] if row["id"] in ids]
    same = [group for group in plan["same"] if set(group) <= ids]
    runs = [text for row in rows for text in [*row.get("runs", ()), *map(str, row.values())]]
    used = {text.split("/")[1] for text in runs if "/" in text}
    tests = {name: one for name, one in plan["tests"].items() if name in used}
    suites = {one["suite"] for one in tests.values()}
    tables = [
        path
        for room in ("drives", "hosts", "suites")
        for path in sorted(data.path(room).glob("*.toml"))
        if (path.stem in suites if room == "suites" else path.stem not in left_out)
    ]
    words = [*figures, json.dumps([rows, same, tests])]
    return {
        "profiles": _hash([*tables, folder() / "hosts.toml"], words),
        "model": model_fingerprint(),
    }


def _figures() -> list[str]:
    return (folder() / "figures.csv").read_text(encoding="utf-8").splitlines()


def _profiles() -> list[str]:
    return [path.stem for path in data.path("drives").glob("*.toml")]


@functools.cache
def model_fingerprint() -> str:
    """Of the model's code; "" where the code is not here, as in an installed package."""
    crates = data.path("drives").resolve().parent / "crates"
    code = [path for name in MODEL_CRATES for path in sorted((crates / name / "src").rglob("*.rs"))]
    return _hash(code)


def _hash(paths: Iterable[Path], words: Iterable[str] = ()) -> str:
    """Of the files' text without comments and blank lines, after some words."""
    found = hashlib.sha256("".join(words).encode())
    some = False
    for path in paths:
        some = True
        for line in path.read_text(encoding="utf-8").splitlines():
            text = line.strip()
            if text and not re.match(r"//|#(?!\[)", text):
                found.update(text.encode() + b"\n")
    return found.hexdigest()[:16] if some else ""


def same_model(then: str, now: str) -> bool:
    """Whether two fingerprints are of code that gives the same figures: the same, or an earlier one
    of which `scripts/fidelity.py --unchanged` has shown it row by row."""
    found = kept()
    shown = found.get("fingerprint", {}).get("model") == now
    return then == now or (shown and then in found.get("same_models", ()))


@functools.cache
def stale() -> str:
    """What has changed since the results were computed, in words; empty if nothing has."""
    return _stale(kept())


@functools.cache
def stale_modern() -> str:
    """The same of today's drives."""
    return _stale(kept_modern())


def _stale(found: Mapping[str, Any]) -> str:
    then = found.get("fingerprint")
    if then is None:
        return "they were never computed"
    now = fingerprint(found.get("drives", ()))
    changed = [name for name, one in now.items() if one and one != then.get(name)]
    return "" if not changed else f"{' and '.join(changed)} changed since they were computed"


def spreads_of(drive: str, profile: Mapping[str, Any] | None = None) -> Spreads:
    """How far the parameters leave a drive's figures open; empty where nothing is known.

    Parameters
    ----------
    drive : name of its profile.
    profile : the profile; one that `drivebay calibrate` wrote has spreads of its own.
    """
    own = (profile or {}).get("intervals")
    found: Spreads = own or kept().get("figures", {}).get(drive, {})
    return found


def interval_of(spreads: Spreads, test: str, figure: Figure) -> tuple[float, float] | None:
    """Both ends of a figure's 90 % interval; None where nothing is known of the drive, or the
    figure is a count or no rate, time, power or temperature.

    Parameters
    ----------
    test : id of the test.
    """
    if not figure.value or figure.value <= 0 or figure.unit not in UNITS:
        return None
    relative = relative_sd(spreads, test, figure.key, figure.unit)
    return None if relative is None else interval(figure.value, relative)


def relative_sd(spreads: Spreads, test: str, figure: str, unit: str) -> float | None:
    """Standard deviation of a figure over itself, as far as the drive's parameters leave it open.

    Of a figure that was never run for a published row it is the median of those of the same unit in
    the same test, else of the drive; a rate is a rate, in IOPS or MB/s.

    Parameters
    ----------
    test, figure : id of the test, key of the figure.
    """
    of_test = spreads.get(test, {})
    if figure in of_test:
        return float(of_test[figure][0])
    for some in ([of_test], spreads.values()):
        alike = [
            one[0]
            for figures in some
            for one in figures.values()
            if one[1] == unit or {one[1], unit} <= RATES
        ]
        if alike:
            return float(statistics.median(alike))
    return None


def interval(value: float, relative: float) -> tuple[float, float]:
    """Both ends of a 90 % interval around a figure that is above 0, at most `OPEN` times away.

    >>> tuple(round(end) for end in interval(1000.0, 0.05))
    (921, 1086)
    >>> interval(1000.0, 1.0)
    (500.0, 2000.0)
    """
    factor = min(OPEN, math.exp(Z_90 * relative))
    return value / factor, value * factor


def interval_words(
    value: float | None, ends: tuple[float, float] | None, number: Callable[[float], str]
) -> str:
    """An interval for people, in their numbers: "7.3 to 8.6"; empty without one, or if both ends
    are written alike.

    >>> interval_words(8.0, (7.3, 8.6), str), interval_words(8.0, (4.0, 16.0), str)
    ('7.3 to 8.6', 'not known better than half to twice')
    """
    if ends is None:
        return ""
    if value and ends[1] >= NEARLY_OPEN * value:
        return "not known better than half to twice"
    low, high = map(number, ends)
    return f"{low} to {high}" if low != high else ""
