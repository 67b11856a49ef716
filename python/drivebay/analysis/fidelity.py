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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivebay.analysis.figures import Figure
from drivebay.common import data

FILE = "fidelity"
MODERN = "fidelity-modern"
RECORDED = "validation-run"
Z_90 = 1.645
"""Half of a 90 % interval, in standard deviations."""
OPEN = math.log(2.0) / Z_90
"""Where the parameters leave more than twice open, as where some of their values throttle a drive
within a test, a derivative says no more than that: their part of an interval ends here."""
FEWEST_ROWS = 20
"""Figures of a kind and of drives of a time with fewer rows have the error of the kind, and a kind
with fewer that of all that are no percentiles of a tail."""
UNITS = frozenset({"IOPS", "MB/s", "µs", "ms", "s", "h", "W"})
"""Units of figures that have an interval."""
RATES = frozenset({"IOPS", "MB/s"})
TAIL = re.compile(r"p9\d|max|longest")
TIMES = frozenset({"us", "µs", "ms"})
Spreads = Mapping[str, Mapping[str, Sequence[Any]]]
"""By test and key of a figure: standard deviation over the figure, unit."""


@dataclass(frozen=True)
class ModelError:
    """What the model itself is off by, as standard deviations of a figure over itself: `beside`
    what the parameters leave open, and `alone`; of so many rows."""

    beside: float
    alone: float
    rows: int


@dataclass(frozen=True)
class Known:
    """What is known of a drive's figures: how far its parameters leave them open, and of which
    time it is, whose error of the model is to be added; none for one that was calibrated here."""

    spreads: Spreads
    time: str | None


@dataclass(frozen=True)
class KeptAside:
    """A published row that the model was not calibrated on: the kind of its figure, its drive and
    the time of that, how far what was published lies off, in logarithms, and the standard
    deviation that the parameters leave."""

    kind: str
    drive: str
    time: str
    off: float
    sd: float


THEN, TODAY = "then", "today"
"""Of which time drives are: of 2012 to 2015, or later."""
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
    names = {line.split(",")[1] for line in _figures()}
    names |= {path.stem for path in data.path("drives").glob("*.toml")}
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


def known_of(drive: str, profile: Mapping[str, Any] | None = None) -> Known | None:
    """What is known of a drive's figures; None of one that no published row is about and that
    `drivebay calibrate` has not seen. `drive`: name of its profile. `profile`: the profile; one
    that `drivebay calibrate` wrote has spreads of its own."""
    if own := (profile or {}).get("intervals"):
        return Known(own, None)
    found: Spreads = kept().get("figures", {}).get(drive, {})
    time = _times().get(drive)
    return Known(found, time or THEN) if found or time else None


def interval_of(known: Known | None, test: str, figure: Figure) -> tuple[float, float] | None:
    """Both ends of a figure's 90 % interval; None where nothing is known of the drive, or the
    figure is a count or no rate, time, power or temperature. `test`: id of the test."""
    if known is None or not figure.value or figure.value <= 0 or figure.unit not in UNITS:
        return None
    sd = total_sd(known, test, figure.key, figure.unit)
    return None if sd is None else interval(figure.value, sd)


def total_sd(known: Known, test: str, figure: str, unit: str) -> float | None:
    """Standard deviation of a figure over itself: by what the parameters leave open, and by the
    error of the model for figures of its kind."""
    relative = relative_sd(known.spreads, test, figure, unit)
    if known.time is None:
        return relative
    error = _error_of(model_errors(), kind_of(figure, unit), known.time)
    if relative is None:
        return None if error is None else error.alone
    return math.hypot(min(relative, OPEN), 0.0 if error is None else error.beside)


def kind_of(figure: str, unit: str) -> str:
    """The kind of a figure, by its key and unit, in which the model's errors are alike.

    >>> kind_of("iops_qd1", "IOPS"), kind_of("latency_p99.9", "µs"), kind_of("p50_read", "ms")
    ('rate', 'tail', 'latency')
    """
    if unit.partition(" ")[0] in RATES | {"MiB/s", "GB/s"}:
        return "rate"
    if unit in TIMES:
        return "tail" if TAIL.search(figure) else "latency"
    return "other"


@functools.cache
def model_errors() -> Mapping[str, ModelError]:
    """The model's own error by kind of figure and time of the drives ("rate, today"), by kind, and
    "" of all but tails: such that with it nine in ten of the kept-aside rows of the recorded run
    lie in their intervals. These are the rows that the model was not calibrated on, of a number
    that no other publication contradicts.

    The quantile is that of split conformal prediction (Vovk et al. 2005): of n rows the one of rank
    0.9 (n + 1), rounded up."""
    return _errors(_kept_aside())


def _error_of(errors: Mapping[str, ModelError], kind: str, time: str) -> ModelError | None:
    """That of the smallest group that has enough rows."""
    return errors.get(f"{kind}, {time}") or errors.get(kind) or errors.get("")


def _errors(rows: Sequence[KeptAside]) -> dict[str, ModelError]:
    groups: dict[str, list[KeptAside]] = {"": [one for one in rows if one.kind != "tail"]}
    for one in rows:
        for group in (one.kind, f"{one.kind}, {one.time}"):
            groups.setdefault(group, []).append(one)
    return {
        group: ModelError(
            _rank_90([math.sqrt(max(0.0, (x.off / Z_90) ** 2 - x.sd**2)) for x in some]),
            _rank_90([abs(x.off) / Z_90 for x in some]),
            len(some),
        )
        for group, some in groups.items()
        if len(some) >= (FEWEST_ROWS if group else 1)
    }


def _rank_90(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values), math.ceil(0.9 * (len(values) + 1))) - 1]


def covered(time: str = "", *, widened: bool = True) -> tuple[int, int]:
    """How many of the kept-aside rows lie in their 90 % intervals, and of how many: each drive's
    with the errors that the rows of the other drives give. `time`: of the drives; all if empty.
    `widened`: by the model's own error."""
    rows, held = _kept_aside(), 0
    asked = [one for one in rows if time in ("", one.time)]
    for drive in {one.drive for one in asked}:
        errors = _errors([one for one in rows if one.drive != drive]) if widened else {}
        for one in (one for one in asked if one.drive == drive):
            error = _error_of(errors, one.kind, one.time)
            whole = math.hypot(one.sd, error.beside if error else 0.0)
            held += abs(one.off) <= Z_90 * whole * (1 + 1e-9)
    return held, len(asked)


@functools.cache
def _kept_aside() -> tuple[KeptAside, ...]:
    """The rows that may tell of the model's error."""
    found = []
    for row in recorded().get("rows", ()):
        numbers = (row["published"], row["reproduced"])
        known = all(isinstance(one, int | float) and one > 0 for one in numbers)
        if not known or row["relation"] not in ("eq", "approx") or not row.get("kept_aside"):
            continue
        low, high = row["interval"] or (row["reproduced"],) * 2
        sd = math.log(high / low) / 2 / Z_90 if low > 0 else OPEN
        middle = math.sqrt(low * high) if low > 0 else row["reproduced"]
        off = math.log(row["published"] / middle)
        drive = str(row["drive"])
        found.append(KeptAside(row["kind"], drive, _times()[drive], off, min(sd, OPEN)))
    return tuple(found)


@functools.cache
def _times() -> Mapping[str, str]:
    """Of which time the drives are that rows of the recorded run are about."""
    rows = recorded().get("rows", ())
    return {str(row["drive"]): THEN if row["scored"] else TODAY for row in rows}


def relative_sd(spreads: Spreads, test: str, figure: str, unit: str) -> float | None:
    """Standard deviation of a figure over itself, as far as the drive's parameters leave it open.

    Of a figure that was never run for a published row it is the median of those of the same unit in
    the same test, else of the drive; a rate is a rate, in IOPS or MB/s. `test`, `figure`: id of the
    test, key of the figure."""
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


def interval(value: float, sd: float) -> tuple[float, float]:
    """Both ends of a 90 % interval around a figure that is above 0.

    >>> tuple(round(end) for end in interval(1000.0, 0.05))
    (921, 1086)
    """
    factor = math.exp(Z_90 * sd)
    return value / factor, value * factor


def interval_words(ends: tuple[float, float] | None, number: Callable[[float], str]) -> str:
    """An interval for people, in their numbers: "7.3 to 8.6"; empty without one, or if both ends
    are written alike.

    >>> interval_words((7.3, 8.6), str)
    '7.3 to 8.6'
    """
    if ends is None:
        return ""
    low, high = map(number, ends)
    return f"{low} to {high}" if low != high else ""
