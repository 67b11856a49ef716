"""Writes a fitted drive as a profile: a base of the catalog and what was fitted, or all of it.

A profile that began as a drive of the catalog names it as its base and has only the fitted values
(of a list of sections, such as the throttle's stages, the whole list, as the catalog wants it); one
that began as a file of the user's is written whole. No date: the same fit writes the same bytes.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drivebay.common.files import system_errors
from drivebay.definitions import leaves
from drivebay.definitions import profiles as catalog
from drivebay.definitions.profiles import Intervals, Profile
from drivebay.definitions.toml_text import toml_lines
from drivebay.results import files

NAME_MAX = 64


def text(
    profile: Profile,
    fitted: Sequence[str],
    *,
    name: str,
    head: str,
    intervals: Intervals | None = None,
) -> str:
    """The profile as TOML.

    Parameters
    ----------
    fitted : dotted names of the values that differ from the profile of this name in the catalog.
    name : the new drive's.
    head : what stands above it, without the comment's signs.
    intervals : how far the fit leaves figures open.
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
        test: {key: list(one) for key, one in sorted(figures.items())}
        for test, figures in sorted((intervals or {}).items())
    }
    return "\n".join([*lines, *toml_lines(raw)]) + "\n"


def save(path: Path, content: str) -> None:
    """Writes the file whole or not at all. Raises EnvironmentProblem if it cannot be written."""
    with system_errors(f"{path} cannot be written", f"ls -ld {path.parent}"):
        files.replace(path, content.encode())


def name_of(path: Path) -> str:
    """A drive's name from the file that it is written to.

    >>> name_of(Path("My twin (2).toml"))
    'my-twin-2'
    """
    name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")
    return name[:NAME_MAX].strip("-") or "fitted"


def _is_catalogs(profile: Profile, fitted: Sequence[str]) -> bool:
    """Whether all but the fitted values is as in the catalog."""
    own, theirs = profile.resolved(), catalog.load(profile.name).resolved()
    for dotted in fitted:
        for raw in (own, theirs):
            leaves.at(raw, dotted).clear()
    return own == theirs


def _only(raw: Mapping[str, Any], fitted: Sequence[str]) -> dict[str, Any]:
    """The fitted leaves with the sections around them, and whole lists."""
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
