"""The shipped results: what every drive of the catalog does in the default suite, at full length.

catalog-results/DRIVE.json.xz is the digest of a review with all but the digits that no chart shows,
as `make catalog-results` writes it, with a fingerprint of the drive's profile and of the model's
code. A result of another profile or model is shown and marked as old.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivebay.analysis import Measured
from drivebay.analysis.comparable import how
from drivebay.analysis.fidelity import model_fingerprint, same_model
from drivebay.common import data
from drivebay.common.errors import UserError
from drivebay.definitions import profiles
from drivebay.definitions.suites import Test
from drivebay.report import markup
from drivebay.report.digest import FORMAT, STEADINESS, Json, digest, unchanged
from drivebay.report.markup import Bar, Html, Published, el
from drivebay.report.render_page import Page
from drivebay.report.runs import Entry
from drivebay.report.thin import rounded, thinned
from drivebay.results import files

FOLDER = "catalog-results"
ENDING = ".json.xz"
AGAIN = "make catalog-results"
PAGE_POINTS_MAX = 600
"""A series that a report offers to lay beside its own has at most so many points."""
NEAR = 11
"""So many of the other drives are shown at once; the rest are a click away."""
BENCH = "other drives: drivebay report DIR --out bench"
MIDDLE = 6
"""The month of a release of which the year alone is known."""
BESIDE = ("-seconds", "-rate", "-latency", "-time")
"""Charts that can be laid over each other in a report."""


def load(folder: Path | None = None) -> list[Json]:
    """The digests in a folder, the shipped ones without it, by name of the drive; `old` says in
    words what has changed since one was computed, empty if nothing has; `class` and `released` are
    what `others` orders them by. Those in the format of another version are left out."""
    found = []
    for path in sorted((folder or data.path(FOLDER)).glob(f"*{ENDING}")):
        one = json.loads(lzma.decompress(path.read_bytes()))
        if one["format"] == FORMAT:
            old = _old(one["profile"], one["fingerprint"])
            found.append({**one, **_peerage(one["profile"]), "old": old})
    return found


def write(entry: Entry, folder: Path, of: Mapping[str, str]) -> Path:
    """Writes the digest of a catalog drive's review into a folder; the same bytes for the same
    review.

    Parameters
    ----------
    of : `fingerprint` of the drive when the review began.
    """
    one = digest(entry)
    name = one["profile"]
    document = {
        "format": FORMAT,
        "fingerprint": dict(of),
        "version": entry.review.result.tool.version,
        **one,
        "tests": {test_id: _rounded(test) for test_id, test in one["tests"].items()},
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    path = folder / f"{name}{ENDING}"
    files.replace(path, lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    return path


def _rounded(test: Json) -> Json:
    panels = [rounded(panel) for panel in test["data"]["panels"]]
    return {**test, "data": {**test["data"], "panels": panels}}


def fingerprint(drive: str) -> dict[str, str]:
    """Of a catalog drive's values with those of its host, and of the model's code."""
    values = json.dumps(_values(profiles.load(drive).raw), sort_keys=True)
    return {
        "profile": hashlib.sha256(values.encode()).hexdigest()[:16],
        "model": model_fingerprint(),
    }


def _values(raw: Any) -> Any:
    """A profile without sources and notes, which change no figure."""
    if isinstance(raw, Mapping):
        return {key: _values(one) for key, one in raw.items() if key not in ("source", "note")}
    return [_values(one) for one in raw] if isinstance(raw, list) else raw


def _old(drive: str, then: Mapping[str, str]) -> str:
    try:
        now = fingerprint(drive)
    except UserError:
        return "the drive is no longer in the catalog"
    same = {
        "profile": then["profile"] == now["profile"],
        "model": not now["model"] or same_model(then["model"], now["model"]),
    }
    changed = [name for name, is_same in same.items() if not is_same]
    return f"{' and '.join(changed)} changed since" if changed else ""


# --- beside the drive under review ----------------------------------------------------------------


def others(shipped: Sequence[Json], entries: Sequence[Entry]) -> tuple[Json, ...]:
    """The shipped drives that are not under review themselves, nearest to the first one that is:
    its class before others, then by the time between their releases. Beside a drive that is not of
    the catalog, such as a real one, the newest of its class come first."""
    names = {unchanged(entry.review) for entry in entries}
    target = entries[0].review.result.target if entries else {}
    own = _peerage(str(target.get("name")))
    kind = own.get("class") or str(target.get("interface", "")).partition(",")[0]
    released = own.get("released", math.inf)

    def apart(one: Json) -> tuple[bool, float]:
        then = one.get("released", -math.inf)
        return kind != one.get("class", ""), -then if math.isinf(released) else abs(then - released)

    return tuple(sorted((one for one in shipped if one["profile"] not in names), key=apart))


def _peerage(drive: str) -> Json:
    """Class of a catalog drive, and its release in years; empty of another drive."""
    try:
        profile = profiles.load(drive)
    except UserError:
        return {}
    year, month = (*map(int, profile.raw["drive"]["released"]["value"].split("-")), MIDDLE)[:2]
    return {"class": profile.drive_class, "released": year + month / 12}


def bars(shipped: Sequence[Json], measured: Measured, key: str, *, real: bool) -> list[Bar]:
    """One figure of the shipped drives that ran this very test.

    Parameters
    ----------
    real : the drive under review is a real one, so that the others must be called simulated.
    """
    if key in STEADINESS:
        return []
    found = []
    near = [one["profile"] for one in shipped[:NEAR]]
    for one, test in running(shipped, measured.test):
        row = next((bar["row"] for bar in test["bars"] if bar["key"] == key), None)
        if row is None:
            continue
        value, _, ends, _, detail, *printed = row
        known = None
        if printed:
            level, words, relation, source, address = printed
            bound = relation if relation in ("gt", "lt") else ""
            known = Published(level, words, source, bound, address)
        name = f"{one['drive']} (simulated)" if real else one["drive"]
        why = detail if value is None else ""
        bar = Bar(name, value, "@other", detail=why, ends=ends and tuple(ends), published=known)
        far = one["profile"] not in near
        found.append(replace(bar, other=True, far=far, old=one["old"]))
    return found


def running(shipped: Sequence[Json], test: Test) -> list[tuple[Json, Json]]:
    """The shipped drives that ran a test in this very way, each with its digest of the test."""
    way = how(test)
    return [
        (one, one["tests"][test.id])
        for one in shipped
        if test.id in one["tests"] and one["tests"][test.id]["how"] == way
    ]


def chooser(page: Page, test: Test) -> Html | None:
    """A list of the nearest shipped drives that ran a test, each of which can be laid beside the
    lone review of the page; None where there is none."""
    known = running(page.others[:NEAR], test)
    if len(page.entries) != 1 or not known:
        return None
    page.beside.append(test.id)
    name = f"beside-{test.id}"
    options = [el("option", "no other drive", value="")]
    options += [el("option", one["drive"], value=one["profile"]) for one, _ in known]
    if len(page.others) > NEAR:
        options.append(el("option", BENCH, disabled=True))
    return el(
        "div",
        el("label", f"Lay another drive beside {test.title}: ", for_=name),
        el("select", options, id=name, autocomplete="off"),
        el("div", class_="laid"),
        class_="beside",
        data_test=test.id,
        data_title=test.title,
    )


def packed(page: Page) -> Html | None:
    """The series that the page's lists offer, compressed: by test and drive, "" the drive under
    review."""
    if not page.beside:
        return None
    own = digest(page.entries[0])
    tests = {}
    for name in page.beside:
        measured = page.entries[0].review.tests[name]
        near = running(page.others[:NEAR], measured.test)
        known = [("", own["tests"][name])]
        known += [(one["profile"], test) for one, test in near]
        tests[name] = {drive: _lines(test) for drive, test in known}
    names = {"": own["drive"], **{one["profile"]: one["drive"] for one in page.others}}
    text = json.dumps({"names": names, "tests": tests}, separators=(",", ":"), allow_nan=False)
    return markup.packed(text, "others")


def _lines(test: Json) -> list[Json]:
    """The scatter and the lines of a test, thinned for a page."""
    shown = [one for one in test["data"]["panels"] if one["id"] in BESIDE]
    return [thinned(rounded(panel), PAGE_POINTS_MAX) for panel in shown]
