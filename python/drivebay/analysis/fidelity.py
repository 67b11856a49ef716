"""Stored results of `make fidelity`: leverage and errors of published rows, the intervals of
figures that follow from these errors, and whether profiles or the model have changed since.

Sources: fidelity.json.xz in published/computed/, and fidelity-modern.json.xz for today's drives,
which scripts/fidelity.py writes and docs/fidelity.md explains; validation-run.json.xz is the
recorded run of `drivebay validate`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import math
import re
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drivebay.analysis import likeness, published
from drivebay.analysis.figures import Figure
from drivebay.analysis.replicates import t_quantile
from drivebay.common import data
from drivebay.definitions import profiles
from drivebay.definitions.suites import Test

FILE = "fidelity"
MODERN = "fidelity-modern"
RECORDED = "validation-run"
# Half of a 90 % interval, in standard deviations.
Z_90 = 1.645
# A kind of figures with fewer predicted rows has no interval.
FEWEST_ROWS = 10
# Smallest number of groups that tells how much groups differ.
FEWEST_GROUPS = 3
# Units of figures that have an interval.
UNITS = frozenset({"IOPS", "MB/s", "MiB/s", "µs", "ms", "s", "h", "W"})
# Printed in place of the interval of a kind that has too few rows.
NO_ROW = "no row like it"
RATES = frozenset({"IOPS", "MB/s"})
# Relative standard deviation and unit, by test and key of a figure.
Spreads = Mapping[str, Mapping[str, Sequence[Any]]]
Ends = tuple[float, float]
# A row of the recorded run; `off` is the logarithm of the published value over the predicted one,
# for rows that intervals come from.
Row = Mapping[str, Any]
# Classes of rows, which `lab.validate.score` defines.
CLASSES = PREDICTED, CONTRADICTED, FITTED = "predicted", "contradicted", "fitted"


@dataclass(frozen=True)
class Known:
    """Knowledge about a drive's figures: the size of its mapping unit, and the spreads of a
    drive that was calibrated here; None for a drive of the catalog.
    """

    unit_bytes: int
    spreads: Spreads | None


MODEL_CRATES = ("units", "drive", "run")
AGAIN = "make fidelity"


def folder() -> Path:
    """Folder of the published figures."""
    return data.path("published")


def file_of(name: str) -> Path:
    """Path of a computed document: JSON, compressed by xz."""
    return folder() / "computed" / f"{name}.json.xz"


def compressed(document: Mapping[str, Any]) -> bytes:
    """Encodes a document for storage; equal documents give equal bytes."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


@functools.cache
def kept() -> Mapping[str, Any]:
    """The stored results; empty if there are none."""
    return _read(FILE)


@functools.cache
def kept_modern() -> Mapping[str, Any]:
    """The stored results for today's drives, which `drives` lists."""
    return _read(MODERN)


@functools.cache
def recorded() -> dict[str, Any]:
    """The recorded run of `drivebay validate`, as its `--json` prints it."""
    return _read(RECORDED)


def profile_of(run_drive: str) -> str:
    """Catalog name of a run's drive.

    >>> profile_of("970-evo-plus-1tb+scaled-16@laptop")
    '970-evo-plus-1tb'
    """
    return run_drive.partition("@")[0].partition("+")[0]


def _read(name: str) -> dict[str, Any]:
    try:
        document = json.loads(lzma.decompress(file_of(name).read_bytes()))
    except FileNotFoundError:
        return {}
    assert isinstance(document, dict), name
    return document


def fingerprint(modern: Collection[str] = ()) -> dict[str, str]:
    """Fingerprints of the profiles' values with their runs, and of the model's code; "" if the
    code is missing, as in an installed package. Drives that are not scored are excluded, with their
    rows; `modern` includes some of them, with their rows only.
    """
    plan = published.table("validation")
    names = {line.split(",")[1] for line in _figures()}
    names |= {*profiles.names()}
    left_out = names - set(modern) if modern else set(plan["unscored"])
    figures = [line for line in _figures() if line.split(",")[1] not in left_out]
    ids = {line.split(",")[0] for line in figures}
    rows = [row for row in plan["row"] if row["id"] in ids]
    same = [group for group in plan["same"] if set(group) <= ids]
    runs = [text for row in rows for text in [*row.get("runs", ()), *map(str, row.values())]]
    used = {text.split("/")[1] for text in runs if "/" in text}
    tests = {name: test for name, test in plan["tests"].items() if name in used}
    suites = {test["suite"] for test in tests.values()}
    tables = [
        path
        for room in ("hosts", "suites")
        for path in sorted(data.path(room).glob("*.toml"))
        if room == "hosts" or path.stem in suites
    ]
    drives = {
        name: profiles.values(profiles.CATALOG.load(name))
        for name in {*profiles.names()} - left_out
    }
    texts = [*figures, json.dumps([rows, same, tests]), json.dumps(drives, sort_keys=True)]
    return {
        "profiles": _hash([*tables, folder() / "hosts.toml"], texts),
        "model": model_fingerprint(),
    }


def _figures() -> list[str]:
    return (folder() / "figures.csv").read_text(encoding="utf-8").splitlines()


@functools.cache
def model_fingerprint() -> str:
    """Fingerprint of the model's code; "" if the code is missing, as in an installed package."""
    crates = data.path("drives").resolve().parent / "crates"
    code = [path for name in MODEL_CRATES for path in sorted((crates / name / "src").rglob("*.rs"))]
    return _hash(code)


def _hash(paths: Iterable[Path], texts: Iterable[str] = ()) -> str:
    """Hash of the files' text without comments and blank lines, preceded by `texts`."""
    digest = hashlib.sha256("".join(texts).encode())
    some = False
    for path in paths:
        some = True
        for line in path.read_text(encoding="utf-8").splitlines():
            text = line.strip()
            if text and not re.match(r"//|#(?!\[)", text):
                digest.update(text.encode() + b"\n")
    return digest.hexdigest()[:16] if some else ""


def same_model(then: str, now: str) -> bool:
    """True if two fingerprints belong to code that gives the same figures: they are equal, or
    `scripts/fidelity.py --unchanged` has verified it row by row for the earlier one.
    """
    results = kept()
    shown = results.get("fingerprint", {}).get("model") == now
    return then == now or (shown and then in results.get("same_models", ()))


@functools.cache
def stale() -> str:
    """Describes the changes since the results were computed; empty if there are none."""
    return _stale(kept())


@functools.cache
def stale_modern() -> str:
    """Describes the changes since the results for today's drives were computed."""
    return _stale(kept_modern())


def _stale(results: Mapping[str, Any]) -> str:
    then = results.get("fingerprint")
    if then is None:
        return "they were never computed"
    now = fingerprint(results.get("drives", ()))
    changed = [name for name, digest in now.items() if digest and digest != then.get(name)]
    return "" if not changed else f"{' and '.join(changed)} changed since they were computed"


def known_of(drive: str, profile: Mapping[str, Any]) -> Known | None:
    """Returns the knowledge about a drive's figures; None for a drive without published rows
    that `drivebay calibrate` has not seen. `drive`: name of its profile. `profile`: the
    profile; one that `drivebay calibrate` wrote has spreads of its own.
    """
    spreads = profile.get("intervals")
    return Known(unit_bytes(profile), spreads) if spreads or drive in _drives() else None


def unit_bytes(profile: Mapping[str, Any]) -> int:
    """Mapping unit of a profile's drive."""
    unit = profile.get("controller", {}).get("mapping_unit_kib", {})
    return 1024 * int(unit.get("value", 4))


@functools.cache
def _drives() -> frozenset[str]:
    """Drives of the recorded run."""
    return frozenset(row["drive"] for row in recorded().get("rows", ()))


def with_interval(known: Known | None, test: Test, figure: Figure) -> Figure:
    """Adds the 90 % interval to a figure, or `NO_ROW`; nothing if nothing is known of the
    drive, or the figure is not a rate, time or power.
    """
    if known is None or not figure.value or figure.value <= 0 or figure.unit not in UNITS:
        return figure
    kind = likeness.kind_of(test, figure.key, figure.unit, known.unit_bytes)
    ends = ends_of(known, kind, test.id, figure.key, figure.value, figure.unit)
    return replace(figure, interval=ends, unlike="" if ends or known.spreads else NO_ROW)


def ends_of(
    known: Known, kind: str, test: str, figure: str, value: float, unit: str
) -> Ends | None:
    """Both ends of the 90 % interval of a positive figure: of a calibrated drive by its own
    spreads, else by the kind of the figure. `test`, `figure`: id of the test, key of the figure.
    """
    if known.spreads is None:
        return around(value, kind)
    sd = relative_sd(known.spreads, test, figure, unit)
    return None if sd is None else interval(value, sd)


def around(value: float, kind: str, *, without: str = "") -> Ends | None:
    """Both ends of the 90 % interval of a positive figure of this kind; None if the kind has
    too few rows. `without`: a source whose rows do not count.
    """
    width = _widths(without).get(kind)
    return None if width is None else (value * math.exp(width[0]), value * math.exp(width[1]))


@functools.cache
def _widths(without: str) -> Mapping[str, Ends]:
    """Ends of the intervals by kind, as logarithms of factors."""
    by_kind: dict[str, list[Row]] = {}
    for row in offsets():
        by_kind.setdefault(row["kind"], []).append(row)
    widths = {}
    for kind, rows in by_kind.items():
        width = width_of([row for row in rows if row["source"] != without])
        if width is not None and len(rows) >= FEWEST_ROWS:
            widths[kind] = width
    return widths


def width_of(rows: Sequence[Row]) -> Ends | None:
    """Ends of the interval that contains the offset of a row of a new group with 90 %; None if
    there are too few groups. A group is a drive in a source.

    Prediction interval of a random-effects meta-analysis (Higgins, Thompson and Spiegelhalter,
    J. R. Stat. Soc. A 172, 2009) in which every group counts the same, whatever its number of
    rows: Student's t, the variance of a row drawn from a group drawn at random, and that of the
    mean of the groups.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        groups.setdefault((row["source"], row["drive"]), []).append(row["off"])
    count = len(groups)
    if count < FEWEST_GROUPS:
        return None
    middle = statistics.fmean(map(statistics.fmean, groups.values()))
    square = sum(statistics.fmean((off - middle) ** 2 for off in g) for g in groups.values())
    half = t_quantile(0.9, count - 1) * math.sqrt(square / (count - 1) * (1 + 1 / count))
    return middle - half, middle + half


def covered(kind: str) -> tuple[int, int]:
    """Number of predicted rows of a kind that lie in the 90 % intervals computed without any
    row of their source, and number of rows that such an interval exists for.
    """
    rows = [row for row in offsets() if row["kind"] == kind]
    held = []
    for source in {row["source"] for row in rows}:
        width = width_of([row for row in rows if row["source"] != source])
        own = [row["off"] for row in rows if row["source"] == source]
        held += [width[0] <= off <= width[1] for off in own] if width else []
    return sum(held), len(held)


@functools.cache
def offsets() -> tuple[Row, ...]:
    """Rows of the recorded run that intervals come from: predicted ones with a printed number."""
    return tuple(row for row in recorded().get("rows", ()) if row.get("off") is not None)


def relative_sd(spreads: Spreads, test: str, figure: str, unit: str) -> float | None:
    """Relative standard deviation of a calibrated drive's figure from its parameters.

    For a figure without one it is the median over figures with the same unit in the same test, or
    else of the whole drive; IOPS and MB/s count as the same unit. `test`, `figure`: id of the test,
    key of the figure.
    """
    of_test = spreads.get(test, {})
    if figure in of_test:
        return float(of_test[figure][0])
    for some in ([of_test], spreads.values()):
        alike = [
            spread[0]
            for figures in some
            for spread in figures.values()
            if spread[1] == unit or {spread[1], unit} <= RATES
        ]
        if alike:
            return float(statistics.median(alike))
    return None


def interval(value: float, sd: float) -> Ends:
    """Both ends of a 90 % interval around a positive figure.

    >>> tuple(round(end) for end in interval(1000.0, 0.05))
    (921, 1086)
    """
    factor = math.exp(Z_90 * sd)
    return value / factor, value * factor


def interval_words(ends: Ends | None, number: Callable[[float], str]) -> str:
    """Formats an interval: "7.3 to 8.6"; empty if there is none or both ends look the same.

    >>> interval_words((7.3, 8.6), str)
    '7.3 to 8.6'
    """
    if ends is None:
        return ""
    low, high = map(number, ends)
    return f"{low} to {high}" if low != high else ""
