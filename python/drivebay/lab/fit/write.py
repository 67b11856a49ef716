"""Writes a fitted drive as a profile: a catalog base with the fitted values, or a complete profile.

A profile that began as a drive of the catalog names it as its base and has only the fitted values
(of a list of sections, such as the throttle's stages, the whole list, as the catalog requires); one
that began as a user's file is written completely. Without a date: the same fit writes the same
bytes.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drivebay.common.errors import UserError
from drivebay.common.files import refuse_foreign, system_errors
from drivebay.definitions import leaves
from drivebay.definitions import profiles as catalog
from drivebay.definitions.profiles import Intervals, Profile
from drivebay.definitions.toml_text import toml_lines
from drivebay.results import files

NAME_MAX = 64
PAGE_MARK = "Values outside of this table are those of the base."
"""Sentence that every page of a fit has."""
PROFILE_MARK = "Calibrated by drivebay to"
"""Begin of the comment above every fitted profile."""


def text(
    profile: Profile,
    fitted: Sequence[str],
    *,
    name: str,
    head: str,
    intervals: Intervals | None = None,
) -> str:
    """Formats the profile as TOML.

    Parameters
    ----------
    fitted : dotted names of the values that differ from the profile of this name in the catalog.
    name : the new drive's name.
    head : comment at the top, without the comment's signs.
    intervals : uncertainty of the figures after the fit.
    """
    raw = copy.deepcopy(dict(profile.raw))
    title = f"{raw['drive']['title']}, fitted"
    lines = [f"# {line}".rstrip() for line in head.splitlines()] + [""]
    if profile.name in catalog.names() and _is_catalogs(profile, fitted):
        lines.append(f"base = {json.dumps(profile.name)}")
        raw = _only(raw, fitted)
        raw = {"drive": {"name": name, "title": title, **raw.pop("drive", {})}, **raw}
    else:
        raw["drive"] |= {"name": name, "title": title}
    raw["intervals"] = {
        test: {key: list(interval) for key, interval in sorted(figures.items())}
        for test, figures in sorted((intervals or {}).items())
    }
    return "\n".join([*lines, *toml_lines(raw)]) + "\n"


def save(path: Path, content: str) -> None:
    """Writes the file whole or not at all. Raises EnvironmentProblem if it cannot be written."""
    with system_errors(f"{path} cannot be written", f"ls -ld {path.parent}"):
        files.replace(path, content.encode())


def page_beside(profile: Path, *, resume: bool) -> Path:
    """Path of the page beside a profile. Raises UserError if a file is there already, unless a fit
    wrote it that is resumed.
    """
    page = profile.with_suffix(".md")
    if os.path.lexists(page) and not resume:
        raise UserError(f"{page} exists; the page would replace it", "name another --out")
    refuse_foreign(page, PAGE_MARK.encode(), "the page of a fit", within=2**16)
    return page


def name_of(path: Path) -> str:
    """Makes a drive's name from the name of its file.

    >>> name_of(Path("My twin (2).toml"))
    'my-twin-2'
    """
    name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")
    return name[:NAME_MAX].strip("-") or "fitted"


def _is_catalogs(profile: Profile, fitted: Sequence[str]) -> bool:
    """True if everything but the fitted values equals the catalog's profile."""
    own, theirs = profile.resolved(), catalog.load(profile.name).resolved()
    for dotted in fitted:
        for raw in (own, theirs):
            leaves.at(raw, dotted).clear()
    return own == theirs


def _only(raw: Mapping[str, Any], fitted: Sequence[str]) -> dict[str, Any]:
    """The fitted leaves within their sections, and whole lists."""
    kept: dict[str, Any] = {}
    for dotted in fitted:
        node: Any = raw
        place = kept
        for key in (path := dotted.split(".")):
            node = node[key]
            if isinstance(node, list) or key == path[-1]:
                place[key] = node
                break
            place = place.setdefault(key, {})
    return kept
