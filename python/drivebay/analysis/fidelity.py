"""Stored results of `make fidelity`: leverage and errors of published rows, the uncertainty of
figures from the parameters, and whether profiles or the model have changed since.

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
"""Upper limit of the uncertainty from parameters, a factor of two. Beyond it, as where some
parameter values make a drive throttle within a test, a derivative gives no more information.
"""
FEWEST_ROWS = 20
"""A group of figures of one kind and period with fewer rows uses the error of the kind; a kind
with fewer rows uses that of all kinds except tail percentiles.
"""
UNITS = frozenset({"IOPS", "MB/s", "µs", "ms", "s", "h", "W"})
"""Units of figures that have an interval."""
RATES = frozenset({"IOPS", "MB/s"})
TAIL = re.compile(r"p9\d|max|longest")
TIMES = frozenset({"us", "µs", "ms"})
Spreads = Mapping[str, Mapping[str, Sequence[Any]]]
"""Relative standard deviation and unit, by test and key of a figure."""


@dataclass(frozen=True)
class ModelError:
    """Error of the model itself, as relative standard deviations of a figure: `beside` is
    combined with the uncertainty from the parameters, `alone` applies without one; `rows` is
    the number of rows that it was computed from.
    """

    beside: float
    alone: float
    rows: int


@dataclass(frozen=True)
class Known:
    """Knowledge about a drive's figures: their uncertainty from its parameters, and the drive's
    period, which selects the model's error to be added; None for a drive that was calibrated
    here.
    """

    spreads: Spreads
    time: str | None


@dataclass(frozen=True)
class KeptAside:
    """A published row that the model was not calibrated on: the kind of its figure, its drive
    and that drive's period, the logarithmic deviation of the published value, and the
    standard deviation from the parameters.
    """

    kind: str
    drive: str
    time: str
    off: float
    sd: float


THEN, TODAY = "then", "today"
"""Periods of drives: 2012 to 2015, or later."""
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
    """The stored results for today's drives, which `drives` lists; without intervals of figures
    that no row has.
    """
    return _read(MODERN)


def recorded() -> dict[str, Any]:
    """The recorded run of `drivebay validate`, as its `--json` prints it."""
    return _read(RECORDED)


def profile_of(run_drive: str) -> str:
    """Catalog name of a run's drive.

    >>> profile_of("970-evo-plus-1tb+scaled-16@laptop")
    '970-evo-plus-1tb'
    """
    return run_drive.partition("@")[0].partition("+")[0]


@functools.cache
def derived_modern(drive: str) -> frozenset[str]:
    """Parameters of one of today's drives for which its rows have derivatives, as
    "nand.read_us".
    """
    return frozenset(
        parameter["name"]
        for parameter in kept_modern().get("parameters", ())
        if drive in map(profile_of, parameter["drives"])
    )


def _read(name: str) -> dict[str, Any]:
    try:
        document = json.loads(lzma.decompress(file_of(name).read_bytes()))
    except FileNotFoundError:
        return {}
    assert isinstance(document, dict), name
    return document


def fingerprint(modern: Collection[str] = ()) -> dict[str, str]:
    """Fingerprints of the profiles with their runs, and of the model's code; "" if the code is
    missing, as in an installed package. Drives that are not scored are excluded, with their
    rows; `modern` includes some of them, with their rows only.
    """
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
    tests = {name: test for name, test in plan["tests"].items() if name in used}
    suites = {test["suite"] for test in tests.values()}
    tables = [
        path
        for room in ("drives", "hosts", "suites")
        for path in sorted(data.path(room).glob("*.toml"))
        if (path.stem in suites if room == "suites" else path.stem not in left_out)
    ]
    texts = [*figures, json.dumps([rows, same, tests])]
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


def known_of(drive: str, profile: Mapping[str, Any] | None = None) -> Known | None:
    """Returns the knowledge about a drive's figures; None for a drive without published rows
    that `drivebay calibrate` has not seen. `drive`: name of its profile. `profile`: the
    profile; one that `drivebay calibrate` wrote has spreads of its own.
    """
    if own := (profile or {}).get("intervals"):
        return Known(own, None)
    spreads: Spreads = kept().get("figures", {}).get(drive, {})
    time = _times().get(drive)
    return Known(spreads, time or THEN) if spreads or time else None


def interval_of(known: Known | None, test: str, figure: Figure) -> tuple[float, float] | None:
    """Both ends of a figure's 90 % interval; None if nothing is known of the drive, or the
    figure is a count or is not a rate, time, power or temperature. `test`: id of the test.
    """
    if known is None or not figure.value or figure.value <= 0 or figure.unit not in UNITS:
        return None
    sd = total_sd(known, test, figure.key, figure.unit)
    return None if sd is None else interval(figure.value, sd)


def total_sd(known: Known, test: str, figure: str, unit: str) -> float | None:
    """Relative standard deviation of a figure: uncertainty from the parameters, combined with
    the error of the model for figures of its kind.
    """
    relative = relative_sd(known.spreads, test, figure, unit)
    if known.time is None:
        return relative
    error = _error_of(model_errors(), kind_of(figure, unit), known.time)
    if relative is None:
        return None if error is None else error.alone
    return math.hypot(min(relative, OPEN), 0.0 if error is None else error.beside)


def kind_of(figure: str, unit: str) -> str:
    """Classifies a figure by its key and unit; within a kind the model's errors are similar.

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
    """The model's own error by kind of figure and period of the drives ("rate, today"), by kind,
    and "" for all but tails. It is the smallest error with which nine in ten of the kept-aside
    rows of the recorded run lie in their intervals. Kept-aside rows are numbers that the model
    was not calibrated on and no other publication contradicts.

    The quantile is that of split conformal prediction (Vovk et al. 2005): of n rows the one of rank
    0.9 (n + 1), rounded up.
    """
    return _errors(_kept_aside())


def _error_of(errors: Mapping[str, ModelError], kind: str, time: str) -> ModelError | None:
    """The error of the smallest group that has enough rows."""
    return errors.get(f"{kind}, {time}") or errors.get(kind) or errors.get("")


def _errors(rows: Sequence[KeptAside]) -> dict[str, ModelError]:
    groups: dict[str, list[KeptAside]] = {"": [row for row in rows if row.kind != "tail"]}
    for row in rows:
        for group in (row.kind, f"{row.kind}, {row.time}"):
            groups.setdefault(group, []).append(row)
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
    """Number of kept-aside rows that lie in their 90 % intervals, and number of all: each
    drive's rows are judged with the errors from the rows of the other drives. `time`: period
    of the drives; all if empty. `widened`: by the model's own error.
    """
    rows, held = _kept_aside(), 0
    asked = [row for row in rows if time in ("", row.time)]
    for drive in {row.drive for row in asked}:
        errors = _errors([row for row in rows if row.drive != drive]) if widened else {}
        for row in (candidate for candidate in asked if candidate.drive == drive):
            error = _error_of(errors, row.kind, row.time)
            whole = math.hypot(row.sd, error.beside if error else 0.0)
            held += abs(row.off) <= Z_90 * whole * (1 + 1e-9)
    return held, len(asked)


@functools.cache
def _kept_aside() -> tuple[KeptAside, ...]:
    """Rows from which the model's error is estimated."""
    kept_rows = []
    for row in recorded().get("rows", ()):
        numbers = (row["published"], row["reproduced"])
        known = all(isinstance(number, int | float) and number > 0 for number in numbers)
        if not known or row["relation"] not in ("eq", "approx") or not row.get("kept_aside"):
            continue
        low, high = row["interval"] or (row["reproduced"],) * 2
        sd = math.log(high / low) / 2 / Z_90 if low > 0 else OPEN
        middle = math.sqrt(low * high) if low > 0 else row["reproduced"]
        off = math.log(row["published"] / middle)
        drive = str(row["drive"])
        kept_rows.append(KeptAside(row["kind"], drive, _times()[drive], off, min(sd, OPEN)))
    return tuple(kept_rows)


@functools.cache
def _times() -> Mapping[str, str]:
    """Periods of the drives that occur in the recorded run."""
    rows = recorded().get("rows", ())
    return {str(row["drive"]): THEN if row["scored"] else TODAY for row in rows}


def relative_sd(spreads: Spreads, test: str, figure: str, unit: str) -> float | None:
    """Relative standard deviation of a figure from the drive's parameters.

    For a figure that was never run for a published row it is the median over figures with the same
    unit in the same test, or else of the whole drive; IOPS and MB/s count as the same unit. `test`,
    `figure`: id of the test, key of the figure.
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


def interval(value: float, sd: float) -> tuple[float, float]:
    """Both ends of a 90 % interval around a positive figure.

    >>> tuple(round(end) for end in interval(1000.0, 0.05))
    (921, 1086)
    """
    factor = math.exp(Z_90 * sd)
    return value / factor, value * factor


def interval_words(ends: tuple[float, float] | None, number: Callable[[float], str]) -> str:
    """Formats an interval: "7.3 to 8.6"; empty if there is none or both ends look the same.

    >>> interval_words((7.3, 8.6), str)
    '7.3 to 8.6'
    """
    if ends is None:
        return ""
    low, high = map(number, ends)
    return f"{low} to {high}" if low != high else ""
