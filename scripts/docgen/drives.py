"""The catalog of drives: an overview by class, and a page for each drive.

A drive's page has its facts with their sources, how close its figures come to what was published,
and what it is good for and not good for. Facts are from `drives/*.toml`, the rest is computed from
`published/computed/`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markdown.extensions.toc import slugify

from docgen.fidelity import TRIALS_PAGE, trials
from docgen.markdown import code, page, plain, table
from drivebay.analysis import fidelity
from drivebay.definitions import profiles as catalog
from drivebay.definitions.profiles import Profile
from drivebay.lab.fit import kinds
from drivebay.lab.fit.kinds import Kind, RowOf
from drivebay.lab.validate import table as rows_table

TOP = Path(__file__).resolve().parent.parent.parent

INDEX = "drives/index.md"
CLASSES = ("SATA", "PCIe, AHCI", "NVMe", "data center")
"""The classes in the order of the overview."""
MAP_UNIT_KIB = 4
"""What an entry of the map covers where the profile says nothing of it."""
NO_CONTENTS = "---\nhide:\n  - toc\n---\n\n"
"""Leaves the room of the table of contents to the page."""
NONE = "none"

LONGEST_CONDITION = 60
"""Characters; a longer condition of a row is left to the page of all rows."""

Fact = tuple[str, str, str]
"""What it is, its value and its source, as Markdown."""


def pages() -> dict[str, str]:
    """The pages by their path in docs/."""
    recorded = fidelity.recorded()
    found = {profile.name: profile for profile in map(catalog.load, catalog.names())}
    by_drive: dict[str, list[RowOf]] = {name: [] for name in found}
    for row in recorded["rows"]:
        by_drive.setdefault(row["drive"], []).append(row)
    scores = recorded["drives"] | recorded["unscored"]["drives"]
    made = {
        path_of(name): drive_page(profile, by_drive[name], scores.get(name))
        for name, profile in found.items()
    }
    return {INDEX: overview(list(found.values()), by_drive, scores)} | made


def path_of(name: str) -> str:
    """Where the page of a drive lies in docs/."""
    return f"drives/{name}.md"


def navigation() -> list[dict[str, list[str]]]:
    """The pages of the drives by class, for the site's navigation."""
    profiles = [catalog.load(name) for name in catalog.names()]
    return [
        {_heading(one): [path_of(p.name) for p in profiles if p.drive_class == one]}
        for one in CLASSES
    ]


def _heading(drive_class: str) -> str:
    return drive_class[0].upper() + drive_class[1:]


def overview(
    profiles: Sequence[Profile],
    by_drive: Mapping[str, Sequence[RowOf]],
    scores: Mapping[str, Mapping[str, Any]],
) -> str:
    """The page of all drives: a table for each class."""
    introduction = f"""
This page helps you to choose a virtual drive. It lists them by class. The page of a drive shows its
hardware with sources, its score, and the figures that it is good for. A *stand-in* is a drive of
which too little is known; its page states what is missing, and every page that shows it says so.

- **Predicted** are published figures that the model was not calibrated on: their number, their
  median error without their row in the fit, and the share within bounds ([how](../fidelity.md)).
- **Good for** lists the kinds of figures with at least {kinds.LEAST_PREDICTED} predicted rows, and
  with at least {100 * kinds.GOOD_FROM:.0f} % of all rows and of the predicted rows within bounds.
- **Not good for** lists the kinds with less than {100 * kinds.BAD_BELOW:.0f} % of all rows, or of
  at least {kinds.LEAST_PREDICTED} predicted rows, within bounds.
- A predicted row is **within bounds** if its figure is within them without that row in the fit.
  Other rows count by their figure in the fit.

This page and those of the drives are generated from `drives/*.toml` and `published/computed/`."""
    head = ("Drive", "Interface", "Flash", "Predicted", "Good for", "Not good for")
    body = ""
    for one in CLASSES:
        rows = []
        for profile in (p for p in profiles if p.drive_class == one):
            found = kinds.kinds(by_drive[profile.name])
            rows.append(
                (
                    f"[{plain(profile.title)}]({profile.name}.md)<br>{code(profile.name)}",
                    profile.interface,
                    plain(profile.raw["drive"]["flash"]["value"]),
                    score(scores.get(profile.name)) if found else "no row compared",
                    ", ".join(kind.name for kind in found if kind.good),
                    ", ".join(kind.name for kind in found if kind.bad),
                )
            )
        body += f"## {_heading(one)}\n\n{compact(table(head, rows), 'overview')}"
    return NO_CONTENTS + page("Drives of the catalog", introduction, body)


def compact(text: str, style: str = "facts") -> str:
    """A table with less room in its cells; `style` is a class of docs/assets/site.css."""
    return f'<div class="compact {style}" markdown>\n\n{text}</div>\n\n'


def score(found: Mapping[str, Any] | None) -> str:
    """The predicted rows of a drive in one cell.

    >>> score({"n_predicted": 9, "median_abs_loo_error_pct": 1.52, "within_share": 0.667})
    '9: 1.5 %, 67 %'
    """
    if not found or not found["n_predicted"]:
        return NONE
    median = found["median_abs_loo_error_pct"]
    error = "" if median is None else f"{median:.1f} %, "
    return f"{found['n_predicted']}: {error}{100 * found['within_share']:.0f} %"


def drive_page(profile: Profile, rows: Sequence[RowOf], found: Mapping[str, Any] | None) -> str:
    """The page of one drive.

    Parameters
    ----------
    rows : the drive's rows of the recorded run; there may be none.
    found : its entry in the recorded run's scores, if it has one.
    """
    name = profile.name
    base = _base(name)
    derived = f", based on [{base}]({base}.md)" if base else ""
    sourced, guessed = sources(profile.raw)
    introduction = (
        f"This page shows how well {code(name)} is known and how far to trust it (class: "
        f"{plain(profile.drive_class)}). Its profile, `drives/{name}.toml`{derived}, has "
        f"{sourced + guessed} values: {sourced} with a source and {guessed} guesses "
        f"({100 * guessed / (sourced + guessed):.0f} %)."
    )
    if profile.stand_in:
        introduction += f" **It is a stand-in**, because {plain(profile.stand_in)}."
    body = compact(table(("Fact", "Value", "Source"), facts(profile)))
    body += f"## Score\n\n{_score(rows, found)}"
    if links := calibration(profile, [row["id"] for row in rows]):
        body += f"Its calibrations: {', '.join(links)}.\n"
    return NO_CONTENTS + page(profile.title, introduction, body)


def sources(raw: Mapping[str, Any]) -> tuple[int, int]:
    """How many values of a profile have a source, and how many are guesses. The host and the
    variants do not count.

    >>> told = {"value": 8, "source": "data sheet"}
    >>> guess = {"value": 4, "source": "guess: usual"}
    >>> sources({"drive": {"name": "x"}, "nand": {"channels": told, "planes": guess}})
    (1, 1)
    """
    leaves = [
        str(leaf["source"])
        for section, values in raw.items()
        if section not in ("host", "variants", "intervals")
        for leaf in _leaves(values)
    ]
    guessed = sum(is_guess(source) for source in leaves)
    return len(leaves) - guessed, guessed


def is_guess(source: str) -> bool:
    """Whether a source says that the value, or a part of it, is a guess.

    >>> is_guess("guess: usual"), is_guess("maker; guess: how long"), is_guess("maker's figure")
    (True, True, False)
    """
    return source.startswith("guess") or "; guess" in source


def _leaves(node: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, Mapping):
        if "source" in node and "value" in node:
            yield node
        else:
            for below in node.values():
                yield from _leaves(below)
    elif isinstance(node, list):
        for below in node:
            yield from _leaves(below)


def _base(name: str) -> str:
    """The drive from which a profile differs; nothing if it is whole."""
    with (TOP / "drives" / f"{name}.toml").open("rb") as file:
        return str(tomllib.load(file).get("base", ""))


def facts(profile: Profile) -> list[Fact]:
    """The table of a drive's hardware."""
    raw = profile.raw
    known, nand, host = raw["drive"], raw["nand"], raw["host"]
    capacity, flash = profile.capacity_bytes, profile.flash_bytes
    spare = _source(nand["blocks_per_plane"])
    found = [
        ("Capacity", f"{capacity / 1e9:,.0f} GB", _source(known["capacity_sectors"])),
        ("Interface", profile.interface, _sources(raw, INTERFACE)),
        ("Controller", plain(known["controller"]["value"]), _source(known["controller"])),
        ("Flash", plain(known["flash"]["value"]), _source(known["flash"])),
        (
            "Channels × dies × planes",
            f"{' × '.join(str(_value(raw, path)) for path in DIES)}, as modelled",
            _sources(raw, DIES),
        ),
        ("Map", *_map(raw)),
        ("SLC cache", *_slc_cache(raw)),
        ("Power-loss protection", *_protection(raw)),
        (
            "Spare flash",
            f"{100 * (flash / capacity - 1):.1f} % of the capacity",
            f"computed from the profile; blocks per plane: {spare}",
        ),
    ]
    if "released" in known:
        released = known["released"]
        found.append(("Released", plain(released["value"]), _source(released)))
    found.append(("Tested in the host", plain(host["title"]), f"`hosts/{host['name']}.toml`"))
    return found


INTERFACE = {
    "host_interface.protocol": "protocol",
    "link.generation": "generation",
    "link.lanes": "lanes",
}
DIES = {"nand.channels": "channels", "nand.dies_per_channel": "dies", "nand.planes": "planes"}
HOST_BUFFER = {"map_cache.host_buffer_mib": "host memory", "map_cache.sram_kib": "own memory"}
SLC = {
    "slc_cache.static_mb": "static",
    "slc_cache.dynamic_mb": "dynamic",
    "slc_cache.when_full": "when full",
}
WHEN_FULL = {"direct": "writes bypass it", "fold": "writes wait for folding"}
"""What happens when the cache is full, as the profile says it and as the page does."""


def _map(raw: Mapping[str, Any]) -> tuple[str, str]:
    """Where the map is, and what an entry of it covers."""
    if _value(raw, "nand.in_place"):
        return "none: data is written in place", _source(raw["nand"]["in_place"])
    unit = _value(raw, "controller.mapping_unit_kib")
    size = f"one entry for {unit or MAP_UNIT_KIB} KiB"
    of_unit = f"; unit: {_source(raw['controller']['mapping_unit_kib'])}" if unit else ""
    cache = raw.get("map_cache")
    if cache is None:
        return f"whole in the drive's DRAM, {size}", f"no `[map_cache]` in the profile{of_unit}"
    own, lent = cache["sram_kib"]["value"], _value(raw, "map_cache.host_buffer_mib")
    buffer = f"{lent:,} MiB of host memory (HMB)" if lent else "no host memory"
    where = f"no DRAM; {buffer}, {own:,} KiB in the controller, {size}"
    return where, f"{_sources(raw, HOST_BUFFER)}{of_unit}"


def _slc_cache(raw: Mapping[str, Any]) -> tuple[str, str]:
    if "slc_cache" not in raw:
        return NONE, "no `[slc_cache]` in the profile"
    static, dynamic, when_full = (_value(raw, path) for path in SLC)
    sizes = f"{static / 1000:g} GB static, {dynamic / 1000:g} GB dynamic"
    return f"{sizes}; when full, {WHEN_FULL[when_full]}", _sources(raw, SLC)


def _protection(raw: Mapping[str, Any]) -> tuple[str, str]:
    """Whether a power cut loses nothing that was acknowledged."""
    if _value(raw, "nand.in_place"):
        return "yes: writes end on the media", _source(raw["nand"]["in_place"])
    if "power_loss_protection" not in raw["write_buffer"]:
        return "no", "no `power_loss_protection` in the profile"
    leaf = raw["write_buffer"]["power_loss_protection"]
    return "yes" if leaf["value"] else "no", _source(leaf)


def _leaf(raw: Mapping[str, Any], dotted: str) -> Mapping[str, Any]:
    """A value of the profile with its source; empty if it has none."""
    node: Any = raw
    for key in dotted.split("."):
        node = node.get(key, {})
    return dict(node)


def _value(raw: Mapping[str, Any], dotted: str) -> Any:
    return _leaf(raw, dotted).get("value")


def _source(leaf: Mapping[str, Any]) -> str:
    return plain(leaf["source"])


def _sources(raw: Mapping[str, Any], paths: Mapping[str, str]) -> str:
    """The sources of several values, each with the value's word; one that they share only once."""
    by_source: dict[str, list[str]] = {}
    for path, word in paths.items():
        if leaf := _leaf(raw, path):
            by_source.setdefault(_source(leaf), []).append(word)
    if len(by_source) == 1:
        return next(iter(by_source))
    return "; ".join(f"{' and '.join(words)}: {source}" for source, words in by_source.items())


def _score(rows: Sequence[RowOf], found: Mapping[str, Any] | None) -> str:
    """What was compared, and for what the drive is good."""
    if not rows:
        return "The recorded run compares no published row of this drive: it has no score.\n\n"
    some = kinds.kinds(rows)
    within, total = sum(kind.within for kind in some), len(rows)
    lines = [
        ("Rows compared", f"{total}, of which {within} within bounds"),
        ("Predicted", _predicted(found)),
        ("Leverage", _leverage(rows)),
        ("Good for", _listed([kind for kind in some if kind.good])),
        ("Not good for", _listed([kind for kind in some if kind.bad])),
        (
            "Neither, or too few predicted",
            _listed([kind for kind in some if not kind.good and not kind.bad]),
        ),
        ("No published row", plain(", ".join(kinds.untested(some))) or NONE),
        ("Furthest off", "<br>".join(map(_off, kinds.furthest(rows))) or NONE),
    ]
    return (
        f"{compact(table(('Measure', 'Result'), lines))}"
        "Brackets show how many rows of a kind are within bounds, of all rows and of the "
        "predicted rows. [The catalog's page](index.md) defines the terms, and [the page of rows]"
        "(../reference/fidelity-rows.md) lists all rows.\n\n"
    )


def _predicted(found: Mapping[str, Any] | None) -> str:
    if not found or not found["n_predicted"]:
        return NONE
    median = found["median_abs_loo_error_pct"]
    error = (
        "no printed number among them"
        if median is None
        else f"median error {median:.1f} % (of {found['n_numbers']} with a printed number)"
    )
    return f"{found['n_predicted']}, {100 * found['within_share']:.0f} % within bounds, {error}"


def _leverage(rows: Sequence[RowOf]) -> str:
    known = sum(row["leverage"] is not None for row in rows)
    if not known:
        return "not computed: rows that the profile was not calibrated on count as predicted"
    return "computed" if known == len(rows) else f"computed for {known} of {len(rows)} rows"


def _listed(some: Sequence[Kind]) -> str:
    return "; ".join(plain(kind.words) for kind in some) or NONE


def _off(row: RowOf) -> str:
    """A row that is off in one line."""
    reproduced = rows_table.number(row["reproduced"], row["unit"])
    short = 0 < len(row["condition"]) <= LONGEST_CONDITION
    condition = f" ({row['condition']})" if short else ""
    return plain(
        f"{row['id']} {row['test']}, {row['metric']}{condition}: "
        f"published {rows_table.said(dict(row))}, reproduced {reproduced} "
        f"({rows_table.percent(row['error_pct'])})"
    )


def calibration(profile: Profile, rows: Sequence[str]) -> list[str]:
    """Links to the entries of the calibrations' journal that are about a drive: that name it, or
    its model in their heading; if none does, those whose tables begin a line with a row of it."""
    model = re.sub(r" [\d.]+ [GT]B.*", "", profile.raw["drive"]["title"])
    words = "|".join(re.findall(r"\w*\d\w*", model)) or "(?!)"
    table_rows = re.compile(rf"^\| (?:{'|'.join(rows) or '(?!)'})\b", re.MULTILINE)
    named, by_row = [], []
    for one in trials():
        title, text = one["title"], one["text"]
        link = f"[{plain(title)}](../{TRIALS_PAGE}#{slugify(title, '-')})"
        if re.search(rf"\b(?:{words})s?\b", title) or profile.name in text:
            named.append(link)
        elif table_rows.search(text):
            by_row.append(link)
    return named or by_row
