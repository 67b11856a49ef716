"""Pages of the catalog of drives: an overview by class, and a page for each drive.

A drive's page has its facts with their sources, the errors of its published figures, and the kinds
of figures that it is good for and not good for. Facts come from `drives/*.toml`, the rest is
computed from `published/computed/`.
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
"""Size of a map entry if the profile does not specify it."""
NO_CONTENTS = "---\nhide:\n  - toc\n---\n\n"
"""Front matter that gives the table of contents' space to the page."""
NONE = "none"

LONGEST_CONDITION = 60
"""Characters; a longer condition of a row is shown only on the page of all rows."""

Fact = tuple[str, str, str]
"""Name, value and source of a fact, as Markdown."""


def pages() -> dict[str, str]:
    """The pages by their path in docs/."""
    recorded = fidelity.recorded()
    profiles = {profile.name: profile for profile in map(catalog.load, catalog.names())}
    by_drive: dict[str, list[RowOf]] = {name: [] for name in profiles}
    for row in recorded["rows"]:
        by_drive.setdefault(row["drive"], []).append(row)
    scores = recorded["drives"] | recorded["unscored"]["drives"]
    made = {
        path_of(name): drive_page(profile, by_drive[name], scores.get(name))
        for name, profile in profiles.items()
    }
    return {INDEX: overview(list(profiles.values()), by_drive, scores)} | made


def path_of(name: str) -> str:
    """Path of a drive's page in docs/."""
    return f"drives/{name}.md"


def navigation() -> list[dict[str, list[str]]]:
    """Pages of the drives by class, for the site's navigation."""
    profiles = [catalog.load(name) for name in catalog.names()]
    return [
        {_heading(drive_class): [path_of(p.name) for p in profiles if p.drive_class == drive_class]}
        for drive_class in CLASSES
    ]


def _heading(drive_class: str) -> str:
    return drive_class[0].upper() + drive_class[1:]


def overview(
    profiles: Sequence[Profile],
    by_drive: Mapping[str, Sequence[RowOf]],
    scores: Mapping[str, Mapping[str, Any]],
) -> str:
    """Page of all drives: a table for each class."""
    introduction = f"""
This page helps you to choose a virtual drive. It lists them by class. The page of a drive shows its
hardware with sources, its score, and the figures that it is good for. A *stand-in* is a drive of
which too little is known; its page states what is missing, and every page that shows it says so.

- **Predicted** are published numbers that the model was not fitted to: how many, their median
  error without their row in the fit, and the share within bounds ([how](../fidelity.md)).
- **Good for** lists the kinds of figures with at least {kinds.LEAST_PREDICTED} predicted rows, and
  with at least {100 * kinds.GOOD_FROM:.0f} % of all rows and of the predicted rows within bounds.
- **Not good for** lists the kinds with less than {100 * kinds.BAD_BELOW:.0f} % of all rows, or of
  at least {kinds.LEAST_PREDICTED} predicted rows, within bounds.
- A predicted row is **within bounds** if its figure is within them without that row in the fit.
  Other rows count by their figure in the fit.

This page and those of the drives are generated from `drives/*.toml` and `published/computed/`."""
    head = ("Drive", "Interface", "Flash", "Predicted", "Good for", "Not good for")
    body = ""
    for drive_class in CLASSES:
        rows = []
        for profile in (p for p in profiles if p.drive_class == drive_class):
            present = kinds.kinds(by_drive[profile.name])
            rows.append(
                (
                    f"[{plain(profile.title)}]({profile.name}.md)<br>{code(profile.name)}",
                    profile.interface,
                    plain(profile.raw["drive"]["flash"]["value"]),
                    score(scores.get(profile.name)) if present else "no row compared",
                    ", ".join(kind.name for kind in present if kind.good),
                    ", ".join(kind.name for kind in present if kind.bad),
                )
            )
        body += f"## {_heading(drive_class)}\n\n{compact(table(head, rows), 'overview')}"
    return NO_CONTENTS + page("Drives of the catalog", introduction, body)


def compact(text: str, style: str = "facts") -> str:
    """Wraps a table for narrow cells; `style` is a class of docs/assets/site.css."""
    return f'<div class="compact {style}" markdown>\n\n{text}</div>\n\n'


def score(scores: Mapping[str, Any] | None) -> str:
    """Formats the score of a drive's predicted rows in one cell.

    >>> score({"n_predicted": 9, "median_abs_loo_error_pct": 1.52, "within_share": 0.667})
    '9: 1.5 %, 67 %'
    """
    if not scores or not scores["n_predicted"]:
        return NONE
    median, within = scores["median_abs_loo_error_pct"], 100 * scores["within_share"]
    return f"{scores['n_predicted']}: {median:.1f} %, {within:.0f} %"


def drive_page(profile: Profile, rows: Sequence[RowOf], scores: Mapping[str, Any] | None) -> str:
    """Page of one drive.

    Parameters
    ----------
    rows : the drive's rows of the recorded run; may be empty.
    scores : its entry in the recorded run's scores, if any.
    """
    name = profile.name
    base, classes = _origin(name)
    derived = f", based on [{base}]({base}.md)" if base else ""
    if classes:
        derived = f" with the defaults of {', '.join(f'`classes/{one}.toml`' for one in classes)}"
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
    body += f"## Score\n\n{_score(rows, scores)}"
    if links := calibration(profile, [row["id"] for row in rows]):
        body += f"Its calibrations: {', '.join(links)}.\n"
    return NO_CONTENTS + page(profile.title, introduction, body)


def sources(raw: Mapping[str, Any]) -> tuple[int, int]:
    """Number of values of a profile with a source, and number of guesses, without host and
    variants.

    >>> sourced = {"value": 8, "source": "data sheet"}
    >>> guess = {"value": 4, "source": "guess: usual"}
    >>> sources({"drive": {"name": "x"}, "nand": {"channels": sourced, "planes": guess}})
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
    """True if a source states that the value, or a part of it, is a guess.

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


def _origin(name: str) -> tuple[str, list[str]]:
    """The base of a profile, if it has one, and the classes that it names."""
    with (TOP / "drives" / f"{name}.toml").open("rb") as file:
        own = tomllib.load(file)
    return own.get("base", ""), own.get("classes", [])


def facts(profile: Profile) -> list[Fact]:
    """The table of a drive's hardware."""
    raw = profile.raw
    known, nand, host = raw["drive"], raw["nand"], raw["host"]
    capacity, flash = profile.capacity_bytes, profile.flash_bytes
    spare = _source(nand["blocks_per_plane"])
    rows = [
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
        rows.append(("Released", plain(released["value"]), _source(released)))
    rows.append(("Tested in the host", plain(host["title"]), f"`hosts/{host['name']}.toml`"))
    return rows


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
"""Behaviour when the cache is full, by the profile's value."""


def _map(raw: Mapping[str, Any]) -> tuple[str, str]:
    """Place of the map, and size of its entries."""
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
    """True if a power cut loses no acknowledged data, with the source."""
    if _value(raw, "nand.in_place"):
        return "yes: writes end on the media", _source(raw["nand"]["in_place"])
    if "power_loss_protection" not in raw["write_buffer"]:
        return "no", "no `power_loss_protection` in the profile"
    leaf = raw["write_buffer"]["power_loss_protection"]
    return "yes" if leaf["value"] else "no", _source(leaf)


def _leaf(raw: Mapping[str, Any], dotted: str) -> Mapping[str, Any]:
    """A value of the profile with its source; empty if it is missing."""
    node: Any = raw
    for key in dotted.split("."):
        node = node.get(key, {})
    return dict(node)


def _value(raw: Mapping[str, Any], dotted: str) -> Any:
    return _leaf(raw, dotted).get("value")


def _source(leaf: Mapping[str, Any]) -> str:
    return plain(leaf["source"])


def _sources(raw: Mapping[str, Any], paths: Mapping[str, str]) -> str:
    """Sources of several values, each with the values' names; a common source appears only once."""
    by_source: dict[str, list[str]] = {}
    for path, word in paths.items():
        if leaf := _leaf(raw, path):
            by_source.setdefault(_source(leaf), []).append(word)
    if len(by_source) == 1:
        return next(iter(by_source))
    return "; ".join(f"{' and '.join(names)}: {source}" for source, names in by_source.items())


def _score(rows: Sequence[RowOf], scores: Mapping[str, Any] | None) -> str:
    """Rows compared, and kinds of figures that the drive is good for."""
    if not rows:
        return "The recorded run compares no published row of this drive: it has no score.\n\n"
    some = kinds.kinds(rows)
    within, total = sum(kind.within for kind in some), len(rows)
    names = {kind.name for kind in some}
    untested = [name for name in kinds.KINDS if name not in names]
    lines = [
        ("Rows compared", f"{total}, of which {within} within bounds"),
        ("Predicted", _predicted(scores)),
        ("Leverage", _leverage(rows)),
        ("Good for", _listed([kind for kind in some if kind.good])),
        ("Not good for", _listed([kind for kind in some if kind.bad])),
        (
            "Neither, or too few predicted",
            _listed([kind for kind in some if not kind.good and not kind.bad]),
        ),
        ("No published row", plain(", ".join(untested)) or NONE),
        ("Furthest off", "<br>".join(map(_off, kinds.furthest(rows))) or NONE),
    ]
    return (
        f"{compact(table(('Measure', 'Result'), lines))}"
        "Brackets show how many rows of a kind are within bounds, of all rows and of the "
        "predicted rows. [The catalog's page](index.md) defines the terms, and [the page of rows]"
        "(../reference/fidelity-rows.md) lists all rows.\n\n"
    )


def _predicted(scores: Mapping[str, Any] | None) -> str:
    if not scores or not scores["n_predicted"]:
        return NONE
    median = scores["median_abs_loo_error_pct"]
    within = f"{100 * scores['within_share']:.0f} % within bounds"
    return f"{scores['n_predicted']} numbers, {within}, median error {median:.1f} %"


def _leverage(rows: Sequence[RowOf]) -> str:
    known = sum(row["leverage"] is not None for row in rows)
    if not known:
        return "not computed: rows that the profile was not calibrated on count as predicted"
    return "computed" if known == len(rows) else f"computed for {known} of {len(rows)} rows"


def _listed(some: Sequence[Kind]) -> str:
    return "; ".join(plain(kind.words) for kind in some) or NONE


def _off(row: RowOf) -> str:
    """Describes a row out of bounds in one line."""
    reproduced = rows_table.number(row["reproduced"], row["unit"])
    short = 0 < len(row["condition"]) <= LONGEST_CONDITION
    condition = f" ({row['condition']})" if short else ""
    return plain(
        f"{row['id']} {row['test']}, {row['metric']}{condition}: "
        f"published {rows_table.printed(dict(row))}, reproduced {reproduced} "
        f"({rows_table.percent(row['error_pct'])})"
    )


def calibration(profile: Profile, rows: Sequence[str]) -> list[str]:
    """Links to the entries of the calibrations' journal about a drive: entries that name it, or
    its model in their heading; if there are none, entries whose tables have a line that
    begins with one of its rows.
    """
    model = re.sub(r" [\d.]+ [GT]B.*", "", profile.raw["drive"]["title"])
    model_pattern = "|".join(re.findall(r"\w*\d\w*", model)) or "(?!)"
    table_rows = re.compile(rf"^\| (?:{'|'.join(rows) or '(?!)'})\b", re.MULTILINE)
    named, by_row = [], []
    for trial in trials():
        title, text = trial["title"], trial["text"]
        link = f"[{plain(title)}](../{TRIALS_PAGE}#{slugify(title, '-')})"
        if re.search(rf"\b(?:{model_pattern})s?\b", title) or profile.name in text:
            named.append(link)
        elif table_rows.search(text):
            by_row.append(link)
    return named or by_row
