"""Shipped results: the default suite of every catalog drive, at full length.

catalog-results/DRIVE.json.xz is the digest of a review, without the digits that no chart shows, as
`make catalog-results` writes it, with a fingerprint of the drive's profile and of the model's code.
Results of another profile or model are shown and marked as old.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import lzma
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from drivebay.analysis import Measured, nearest
from drivebay.analysis.comparable import how
from drivebay.analysis.fidelity import model_fingerprint, same_model
from drivebay.analysis.published import drive_of_model
from drivebay.common import data
from drivebay.common.errors import UserError
from drivebay.definitions import profiles, suites
from drivebay.definitions.suites import Test
from drivebay.report.base.markup import Bar, Published
from drivebay.report.base.runs import Entry
from drivebay.report.peers.digest import FORMAT, STEADINESS, Json, digest, unchanged
from drivebay.report.peers.thin import rounded
from drivebay.results import files

FOLDER = "catalog-results"
ENDING = ".json.xz"
# Compression of text: four bits of the last byte predict the next one, its position does not.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0}]
AGAIN = "make catalog-results"
# `Profile.media` of drives without flash.
IN_PLACE = "written in place"
# File with figures and loads of the shortened runs of all drives, without series.
QUICK = "quick"
# Number of other drives in a report; the Bench has all.
NEAR = 7
# guess: drives further apart in time were not for sale together.
YEARS = 3.0
# Assumed month of a release if only its year is known.
MIDDLE = 6
# Suite of the shipped results.
SUITE = "anandtech-2015"


def load(folder: Path | None = None, *, beside: Sequence[Json] = ()) -> list[Json]:
    """Digests in a folder, by default the shipped ones, sorted by the name of the drive. `old`
    states what has changed since a digest was computed, "" if nothing has; the keys of
    `_peerage` are those that `peers` selects by. Digests in another format are left out.
    `beside`: targets of reviews; then only their peers are read, because reading all takes a
    second.
    """
    paths = sorted((folder or data.path(FOLDER)).glob(f"*{ENDING}"))
    names = {name: path for path in paths if (name := path.name.removesuffix(ENDING)) != QUICK}
    if beside:
        known = [{"profile": name, **_peerage(name)} for name in names]
        near = _nearest(known, beside[0])[: NEAR + len(beside)]
        names = {name: names[name] for name in sorted(drive["profile"] for drive in near)}
    documents = [unpacked(path) for path in names.values()]
    return [_known(drive) for drive in documents if drive["format"] == FORMAT]


def load_quick(folder: Path | None = None) -> list[Json]:
    """Digests of shortened runs with figures and `loads` only; [] if none are shipped."""
    path = (folder or data.path(FOLDER)) / f"{QUICK}{ENDING}"
    document = unpacked(path) if path.exists() else {}
    drives = document["drives"] if document.get("format") == FORMAT else ()
    return [_known(drive) for drive in drives]


def unpacked(path: Path) -> Json:
    document: Json = json.loads(lzma.decompress(path.read_bytes()))
    return document


def _known(drive: Json) -> Json:
    return {
        **drive,
        **_peerage(drive["profile"]),
        "old": _old(drive["profile"], drive["fingerprint"]),
    }


def write(entry: Entry, folder: Path, fingerprint: Mapping[str, str]) -> Path:
    """Writes the digest of a catalog drive's review into a folder; the same review gives the same
    bytes. `fingerprint`: that of the drive when the review began.
    """
    document = _shipped(entry, fingerprint)
    tests = {test_id: _rounded(test) for test_id, test in document["tests"].items()}
    return packed({**document, "tests": tests}, folder / f"{document['profile']}{ENDING}")


def write_quick(reviews: Sequence[tuple[Entry, Mapping[str, str]]], folder: Path) -> Path:
    """Writes figures and loads of the catalog's shortened reviews into one file, each with the
    fingerprint of its drive.
    """
    drives = []
    for entry, fingerprint in reviews:
        document = _shipped(entry, fingerprint)
        tests = {
            name: {key: test[key] for key in ("how", "title", "bars")}
            for name, test in document["tests"].items()
        }
        drives.append({**document, "tests": tests, "loads": nearest.loads(entry.review)})
    return packed({"format": FORMAT, "drives": drives}, folder / f"{QUICK}{ENDING}")


def _shipped(entry: Entry, fingerprint: Mapping[str, str]) -> Json:
    version = entry.review.result.tool.version
    return {"format": FORMAT, "fingerprint": dict(fingerprint), "version": version, **digest(entry)}


def packed(document: Json, path: Path) -> Path:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    files.replace(path, lzma.compress(text.encode(), filters=FILTERS))
    return path


def _rounded(test: Json) -> Json:
    panels = [rounded(panel) for panel in test["data"]["panels"]]
    return {**test, "data": {**test["data"], "panels": panels}}


def fingerprint(drive: str) -> dict[str, str]:
    """Fingerprint of a catalog drive's values with those of its host, and of the model's code."""
    values = json.dumps(profiles.values(profiles.load(drive).raw), sort_keys=True)
    return {
        "profile": hashlib.sha256(values.encode()).hexdigest()[:16],
        "model": model_fingerprint(),
    }


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
    """Shipped drives that are not under review."""
    names = {unchanged(entry.review) for entry in entries}
    return tuple(drive for drive in shipped if drive["profile"] not in names)


def peers(shipped: Sequence[Json], entries: Sequence[Entry]) -> tuple[Json, ...]:
    """Drives that a buyer of the first drive under review would also consider, nearest first.

    They have the same market and either flash or no flash, and were released within `YEARS`; they
    are sorted by bus, cell type and release date. Of each model only the nearest capacity is used.
    If the release year is not known (a file on some disk), the drives of the same bus are used,
    newest first.
    """
    if not entries:
        return ()
    return tuple(_nearest(others(shipped, entries), entries[0].review.result.target)[:NEAR])


def _nearest(known: Sequence[Json], target: Json) -> list[Json]:
    own = peerage_of(target)
    size = float(target["capacity_bytes"])
    bus = own.get("bus") or ("SATA" if "SATA" in interface(target) else "PCIe")

    def by_size(drive: Json) -> float:
        # fio does not always report the size
        return abs(math.log(drive["bytes"] / size)) if size else 0.0

    def apart(drive: Json) -> tuple[float, ...]:
        years = abs(drive["released"] - own["released"]) if own else -drive["released"]
        cells = bool(own) and drive["cells"] != own["cells"]
        return drive["bus"] != bus, cells, years, by_size(drive)

    near = [
        drive
        for drive in known
        if "released" in drive
        and (not own or abs(drive["released"] - own["released"]) <= YEARS)
        and drive["market"] == own.get("market", "client")
        and drive["flash"] == own.get("flash", True)
        and drive["model"] != own.get("model")
    ]
    models: dict[str, Json] = {}
    for drive in sorted(near, key=by_size):
        models.setdefault(drive["model"], drive)
    return sorted(models.values(), key=apart)


def interface(target: Json) -> str:
    """Interface of a drive; for a file, that of the drive below it."""
    return str(target.get("interface") or (target.get("storage") or {}).get("interface") or "")


def dated(entry: Entry) -> bool:
    """True if release year, market and flash of the drive are known."""
    return bool(peerage_of(entry.review.result.target))


def peerage_of(target: Json) -> Json:
    """Peerage of a virtual drive by its profile, of a real one by its model in the catalog."""
    profile = target.get("profile")
    known = _peerage(
        str(target["name"]) if profile else drive_of_model(str(target.get("model"))) or ""
    )
    with contextlib.suppress(UserError):  # a profile of another version
        known = known or (_peers_by(profiles.from_resolved(profile)) if profile else {})
    return known


def _peerage(drive: str) -> Json:
    """Properties by which peers of a catalog drive are selected; empty for other drives."""
    try:
        return _peers_by(profiles.load(drive))
    except UserError:
        return {}


def _peers_by(profile: profiles.Profile) -> Json:
    facts = profile.raw["drive"]
    if "released" not in facts:
        return {}
    year, month = (*map(int, facts["released"]["value"].split("-")), MIDDLE)[:2]
    return {
        "market": "data center" if profile.drive_class == "data center" else "client",
        "bus": "SATA" if profile.drive_class == "SATA" else "PCIe",
        "flash": profile.media != IN_PLACE,
        "cells": profile.media.partition(",")[0],
        "released": year + month / 12,
        "bytes": profile.capacity_bytes,
        "form": facts.get("form_factor", {}).get("value", "").partition(",")[0],
        "model": re.sub(r" ?\d[\d.]* [GT]B", "", str(profile.title)),
        "stand_in": profile.stand_in or "",
    }


def bars(shipped: Sequence[Json], measured: Measured, key: str, *, real: bool) -> list[Bar]:
    """Bars of one figure for the shipped drives that ran this test. `real`: the drive under review
    is real, so the others are labelled as simulated.
    """
    if key in STEADINESS:
        return []
    bars = []
    for drive, test in running(shipped, measured.test):
        row = next((bar["row"] for bar in test["bars"] if bar["key"] == key), None)
        if row is None:
            continue
        value, _, ends, _, detail, *printed = row
        known = None
        if printed:
            level, text, relation, source, address = printed
            bound = relation if relation in ("gt", "lt") else ""
            known = Published(level, text, source, bound, address)
        name = f"{drive['drive']} (simulated)" if real else drive["drive"]
        why = detail if value is None else ""
        bar = Bar(name, value, "@other", detail=why, ends=ends and tuple(ends), published=known)
        bars.append(replace(bar, other=True, stand_in=bool(drive.get("stand_in"))))
    return bars


def running(shipped: Sequence[Json], test: Test) -> list[tuple[Json, Json]]:
    """Shipped drives that ran a test in the same way, each with its digest of the test. Shorter
    idle times of a real drive make no difference.
    """
    real = how(test.in_real_time())
    alike = [known for known in suite_tests() if known.id == test.id]
    forms = [form for known in alike for form in (known, known.shortened())]
    ways = {how(test), *(how(form) for form in forms if how(form.in_real_time()) == real)}
    return [
        (drive, drive["tests"][test.id])
        for drive in shipped
        if test.id in drive["tests"] and drive["tests"][test.id]["how"] in ways
    ]


@functools.cache
def suite_tests() -> tuple[Test, ...]:
    """Tests of the shipped results."""
    return suites.load(SUITE).tests
