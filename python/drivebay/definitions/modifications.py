"""Changes of a what-if, as a user types them: "heatsink", "unused=25%", "link=pcie2x4".

Kinds of changes: a variant of the profile; another host, another drive's firmware or an ailment,
which replace whole sections; one of the short names below, which stand for values of the profile;
or a value by its own name, `thermal.ambient_c=30`, where the section may be omitted if only one
section has such a name. The core checks the changed drive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drivebay import _core
from drivebay.common import documents
from drivebay.common.errors import UserError, did_you_mean, named
from drivebay.definitions import ailments, hosts, leaves, policies
from drivebay.definitions.profiles import Profile, flash_bytes, from_resolved, load

WHAT_IF = "what-if, given by the user"
SECTOR_BYTES = 512
SECTOR_ALIGN = 8  # a drive's capacity must be a multiple of 4 KiB
UNUSED_MAX = 0.9
OVER_PROVISIONING_MAX = 9.0
# Highest wear that the health log can report: 255 %.
AGED_MAX = 2.55
# guess: for a drive without rated cycles in its profile, as TLC flash in data sheets.
RATED_CYCLES = 3000
# guess: a tenth or less of the write rates of the catalog's drives.
REBUILD_MB_PER_S = 100
# The catalog's drive with zones.
ZONED = "zn540-1tb"
EXAMPLES = "--set heatsink, --set unused=25%, --set link=pcie2x4"

# Sections that belong to the firmware: its policies, the time its cores take, and the memory that
# it divides. Flash, link, energy and heat belong to the drive, `host` to the computer.
FIRMWARE = (
    *("controller", "gc", "map_cache", "map_journal", "read_ahead", "slc_cache", "wear_leveling"),
    "write_buffer",
)
# Amounts in these sections that describe the drive's own flash; another firmware leaves them
# unchanged.
OWN_AMOUNTS = (
    *("gc.threshold_mb", "gc.target_mb", "gc.idle.free_mb"),
    *("slc_cache.static_mb", "slc_cache.dynamic_mb", "slc_cache.keep_mb"),
)

Raw = dict[str, Any]
# Name of a change and a hint, for the case that the core refuses the changed drive.
Applied = tuple[str, str]
# Ranks of the changes that are applied last: single values, then shares of the capacity.
VALUES, SHARES = 2, 3


def changed(profile: Profile, changes: Sequence[str]) -> Profile:
    """Applies all changes to a profile at once; the core checks the result. A value by its own name
    overrides what a host, a variant or a short name sets, and shares of the capacity refer to
    the flash after all other changes, in whatever order they are written. Raises UserError if a
    change is unknown for this drive, or the changed drive is not possible.

    >>> from drivebay.definitions.profiles import load
    >>> drive = changed(load("sm951-ahci-512"), ["heatsink", "link=pcie2x4", "ambient_c=30"])
    >>> drive.interface, drive.raw["thermal"]["ambient_c"]["value"]
    ('AHCI, PCIe 2.0 x4', 30)
    """
    raw = profile.resolved()
    changes = sorted(changes, key=_rank)
    applied = [_apply(profile, raw, word) for word in changes]
    try:
        return from_resolved(raw) if changes else profile
    except UserError as problem:
        if len(changes) > 1:  # finds the first change that is not possible after the earlier ones
            for word in changes:
                profile = changed(profile, [word])
        name, hint = applied[-1]
        meant = re.match(r"did you mean [^?]*\? ", problem.hint)
        message = problem.message.removeprefix("profile: ")
        raise UserError(f"--set {name}: {message}", (meant[0] if meant else "") + hint) from None


def _rank(word: str) -> int:
    """Order of application: host and firmware, variants and short names, values, shares of the
    capacity.
    """
    name, equals, _ = (part.strip() for part in word.partition("="))
    if name in ("unused", "over_provisioning"):
        return SHARES
    if equals and name in ("host", "firmware"):
        return 0
    return VALUES if equals and (name not in SHORT or "." in name) else 1


def _apply(profile: Profile, raw: Raw, word: str) -> Applied:
    name, equals, value = (part.strip() for part in word.partition("="))
    if equals and name == "host":
        with named(f"--host {value}"):
            raw["host"] = hosts.load(value)
        return f"host={value}", "see: drivebay hosts"
    if equals and name == "firmware":
        return _firmware(raw, value)
    if equals and name == "ailment" and value.partition(":")[0] != "aged":
        with named(f"--ailment {value}"):
            ailments.load(value).lay_over(raw)
        return f"ailment={value}", "see: drivebay drives --ailments"
    if equals and name == "ailment":
        name, value = "aged", value.partition(":")[2]
    if equals and name not in SHORT:
        return _value(profile.name, raw, name, value)
    if not equals and name not in FLAGS:
        _variant(profile, raw, name)
        change = name
    else:
        change, values = SHORT[name](raw, value)
        for path, setting in values.items():
            _put(raw, path, {"value": setting, "source": f"{WHAT_IF}: {change}"})
    example = f"--set {_EXAMPLE_OF[name]}" if name in _EXAMPLE_OF else EXAMPLES
    return change, f"possible are, for example: {example}"


def _firmware(raw: Raw, value: str) -> Applied:
    """Replaces the firmware by that of another drive: from the catalog or a profile."""
    with named(f"--set firmware={value}"):
        other = load(value).resolved()
    change = f"firmware = {other['drive']['name']}"
    own = {path: leaf for path in OWN_AMOUNTS if (leaf := leaves.at(raw, path)) is not None}
    for section in FIRMWARE:
        before = raw.pop(section, None)
        if section in other:
            raw[section] = other[section]
        if raw.get(section) != before:
            _give_source(raw.get(section), f"{WHAT_IF}: {change}")
    for path, leaf in own.items():
        if leaves.at(raw, path) is not None:
            _put(raw, path, leaf)
    return change, "a firmware of a drive of the same kind of flash: drivebay drives"


def _give_source(node: Any, source: str) -> None:
    """Sets the source of every leaf below a node."""
    if isinstance(node, dict) and "value" in node:
        node["source"] = source
    elif isinstance(node, dict | list):
        for inner in node.values() if isinstance(node, dict) else node:
            _give_source(inner, source)


def _put(raw: Raw, dotted: str, leaf: Mapping[str, Any]) -> None:
    """Stores a leaf at a path like `thermal.throttle.0.on_c`."""
    *path, last = dotted.split(".")
    node: Any = raw
    try:
        for key in path:
            node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
        # The new leaf has no range: a what-if may leave the range that was plausible for the
        # original.
        node[last] = dict(leaf)
    except (IndexError, ValueError, TypeError, AttributeError):
        raise UserError(
            f"'{dotted}' is not a value of this profile", "names are section.key, as in the profile"
        ) from None


_EXAMPLES = (
    "over_provisioning=28% unused=25% link=pcie2x4 host=linux-io-uring firmware=xp941-512 "
    "ailment=slow-die aged=80% fdp=8 fdp.reclaim_groups=2 zns=14 parity=16 foreground_victims=2 "
    "service_cv=0.3"
)
# Example for each short name that needs a value.
_EXAMPLE_OF = {example.partition("=")[0]: example for example in _EXAMPLES.split()}


def _variant(profile: Profile, raw: Raw, name: str) -> None:
    if name in profile.variants:
        for path, leaf in raw["variants"][name].items():
            if path != "title":
                _put(raw, path, leaf)
        return
    known = dict(leaves.every(raw))
    if name in _EXAMPLE_OF or name in known:
        example = _EXAMPLE_OF.get(name) or f"{name}={json.dumps(known[name]['value'])}"
        raise UserError(f"--set {name}: a value is missing", f"--set {example}")
    hint = did_you_mean(name, [*profile.variants, *SHORT])
    raise UserError(
        f"--set {name}: {profile.name} has no such variant; it has "
        f"{', '.join(profile.variants) or 'none'}",
        f"{hint}possible are, for example: {EXAMPLES}",
    )


def _unused(raw: Raw, value: str) -> tuple[str, dict[str, Any]]:
    """Leaves a share of the user capacity unused by the host, as the reviews did."""
    share = _share("unused", value, UNUSED_MAX, "of the capacity that is left unused")
    sectors = int(raw["drive"]["capacity_sectors"]["value"])
    return f"unused = {100 * share:g} %", _capacity(raw, round(sectors * (1 - share)))


def _over_provisioning(raw: Raw, value: str) -> tuple[str, dict[str, Any]]:
    """Physical capacity less user capacity, over user capacity (SNIA)."""
    of_what = "of physical less user over user capacity"
    share = _share("over_provisioning", value, OVER_PROVISIONING_MAX, of_what)
    sectors = int(flash_bytes(raw) / (1 + share)) // SECTOR_BYTES
    values = _capacity(raw, sectors)
    gb = values["drive.capacity_sectors"] * SECTOR_BYTES / 1e9
    return f"over_provisioning = {100 * share:g} % ({gb:.1f} GB)", values


def _refused(name: str, value: str, must_be: str, example: str) -> UserError:
    """The error for a value of a short name that is not allowed."""
    return UserError(f"--set {name}={value}: must be {must_be}", f"--set {example}")


def _share(name: str, value: str, most: float, of_what: str) -> float:
    """Parses a share, "7%" or "0.07".

    >>> _share("unused", "7.5%", 0.9, ""), _share("unused", "0.075", 0.9, "")
    (0.075, 0.075)
    """
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,9})?)\s*(%?)", value.strip())
    share = -1.0 if match is None else float(match[1]) / (100 if match[2] else 1)
    if not 0 <= share <= most:
        raise UserError(
            f"--set {name}={value}: must be from 0% to {100 * most:g}%, the share {of_what}",
            f"--set {name}=25%, or as a number {name}=0.25",
        )
    return round(share, 12)


def _capacity(raw: Raw, sectors: int) -> dict[str, Any]:
    """Changes the user capacity. Garbage collection starts at the same amount of free flash as
    before, so the amount written until then grows by the space that was taken from the user.
    """
    kept = sectors // SECTOR_ALIGN * SECTOR_ALIGN
    taken_mb = (int(raw["drive"]["capacity_sectors"]["value"]) - kept) * SECTOR_BYTES / 1e6
    if "gc" not in raw:  # media written in place
        return {"drive.capacity_sectors": kept}
    threshold_mb = float(raw["gc"]["threshold_mb"]["value"]) + taken_mb
    return {"drive.capacity_sectors": kept, "gc.threshold_mb": threshold_mb}


def _link(_raw: Raw, value: str) -> tuple[str, dict[str, Any]]:
    """Sets the PCIe generation and the number of lanes."""
    match = re.fullmatch(r"pcie\s*([1-5])(?:\.0)?\s*x(\d+)", value.lower())
    if match is None:
        form = "pcieGxL, a generation from 1 to 5 and a number of lanes"
        raise _refused("link", value, form, "link=pcie2x4")
    generation, lanes = int(match[1]), int(match[2])
    values = {"link.generation": generation, "link.lanes": lanes}
    return f"link = PCIe {generation}.0 x{lanes}", values


def _flag(name: str, path: str) -> Callable[[Raw, str], tuple[str, dict[str, Any]]]:
    """A short name for a boolean property of the drive; without a value it means true."""

    def flag(_raw: Raw, value: str) -> tuple[str, dict[str, Any]]:
        if value not in ("", "true", "false"):
            raise _refused(name, value, "true or false", name)
        is_set = value != "false"
        return f"{name} = {str(is_set).lower()}", {path: is_set}

    return flag


# Short names that need no value: a drive that ignores flushes (flushes and forced writes are
# acknowledged, but nothing is made durable), and a drive whose Sanitize can overwrite.
FLAGS = {
    "ignore_flush": _flag("ignore_flush", "write_buffer.ignore_flush"),
    "sanitize_overwrite": _flag("sanitize_overwrite", "controller.sanitize_overwrite"),
}


def _aged(raw: Raw, value: str) -> tuple[str, dict[str, Any]]:
    """Sets the wear that the drive begins with, as a share of the rated cycles of its flash."""
    share = _share("aged", value, AGED_MAX, "of the rated cycles that are used")
    values: dict[str, Any] = {"health.worn_percent": round(100 * share, 9)}
    if "rated_cycles" not in raw.get("health", {}):
        values["health.rated_cycles"] = RATED_CYCLES
    return f"aged = {100 * share:g} %", values


def _policy(raw: Raw, value: str) -> tuple[str, dict[str, Any]]:
    """Sets a policy plug-in by its name, or "none"."""
    if value in ("", "none"):
        raw.get("gc", {}).pop("plugin", None)
        return "policy = none", {}
    return f"policy = {value}", {"gc.plugin": policies.find(value).reference}


def _fdp(raw: Raw, value: str) -> tuple[str, dict[str, Any]]:
    """Sets placement handles and their isolation, or "none". Removes features that would mix
    their data: an SLC cache, frontiers by lifespan.
    """
    if value == "none":
        raw.pop("fdp", None)
        return "fdp = none", {}
    handles, _, isolation = value.partition(":")
    isolation = isolation or "initial"
    if not (handles.isdecimal() and isolation in ("initial", "persistent")):
        form = "a number of handles, with :initial or :persistent after it, or none"
        raise _refused("fdp", value, form, "fdp=8, or --set fdp=8:persistent")
    raw.get("gc", {}).pop("host_frontiers", None)
    gone = ", without its SLC cache" if raw.pop("slc_cache", None) else ""
    change = f"fdp = {handles} handles, {isolation}ly isolated{gone}"
    return change, {"fdp.handles": int(handles[:9]), "fdp.isolation": isolation}


def _reclaim_groups(raw: Raw, value: str) -> tuple[str, dict[str, Any]]:
    """Sets the reclaim groups of a drive with placement handles."""
    if not value.isdecimal() or "fdp" not in raw:
        form = "a number of groups, of a drive that has placement handles"
        example = "fdp=8 --set fdp.reclaim_groups=2, in this order"
        raise _refused("fdp.reclaim_groups", value, form, example)
    return f"fdp.reclaim_groups = {value}", {"fdp.reclaim_groups": int(value[:9])}


def _parity(raw: Raw, value: str) -> tuple[str, dict[str, Any]]:
    """Sets the dies of a stripe with parity and the MB/s at which a failed die is rebuilt, or
    "none".
    """
    raw["nand"].pop("parity", None)
    if value == "none":
        return "parity = none", {}
    dies, _, rate = value.partition(":")
    rate = rate or f"{REBUILD_MB_PER_S}"
    if not (dies.isdecimal() and re.fullmatch(r"\d{1,6}(\.\d{1,9})?", rate)):
        form = "a number of dies, with the MB/s of a rebuild after it, or none"
        raise _refused("parity", value, form, "parity=16, or --set parity=16:100")
    values = {"nand.parity.dies": int(dies[:9]), "nand.parity.rebuild_mb_per_s": float(rate)}
    return f"parity = one of {dies} dies, rebuilt at {float(rate):g} MB/s", values


def _whole(name: str, what: str, example: int) -> Callable[[Raw, str], tuple[str, dict[str, Any]]]:
    """Setter of a whole number in `[gc]` by its own name; the profile may lack the key."""

    def whole(_raw: Raw, value: str) -> tuple[str, dict[str, Any]]:
        if not value.isdecimal():
            raise _refused(name, value, f"a number of {what}", f"{name}={example}")
        return f"{name} = {value}", {f"gc.{name}": int(value[:9])}

    return whole


def _service_cv(_raw: Raw, value: str) -> tuple[str, dict[str, Any]]:
    """Sets the coefficient of variation of the flash core's time for a command."""
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise _refused("service_cv", value, "a number from 0 to 1", "service_cv=0.3")
    return f"service_cv = {value}", {"controller.service_cv": share}


def _zns(raw: Raw, value: str) -> tuple[str, dict[str, Any]]:
    """Sets the number of active zones and the superblocks of each zone, or "none". The capacity
    is rounded to whole zones and leaves spare flash for the active ones; commands cost the
    same as on the catalog's drive with zones. A cached map, an SLC cache and frontiers by
    lifespan are removed.
    """
    if value == "none":
        raw.pop("zns", None)
        return "zns = none", {}
    parts = value.split(":")
    active, superblocks, area, *more = [*parts, *("", "1", "")[len(parts) :]]
    size, _, step = area.partition("/")
    numbers = (active, superblocks, *((size, step) if area else ()))
    if more or not (all(n.isdecimal() for n in numbers) and int(superblocks[:9])):
        raise UserError(
            f"--set zns={value}: must be a number of active zones, with the superblocks of a zone "
            "after it, and the KiB of a random write area and its granularity, or none",
            "--set zns=14, or --set zns=14:4, or --set zns=14:1:1024/16",
        )
    raw.get("gc", {}).pop("host_frontiers", None)
    gone = [name for name in ("slc_cache", "map_cache") if raw.pop(name, None)]
    # Garbage collection has next to nothing to do, so it needs no rounds.
    raw.get("gc", {}).pop("background_pages_per_s", None)
    raw["zns"] = dict(load(ZONED).resolved()["zns"])
    raw["zns"].pop("open", None)
    if area:
        keys = {"zones": active, "size_kib": size, "granularity_kib": step}
        raw["zns"]["zrwa"] = {
            key: {"value": int(given[:9]), "source": WHAT_IF} for key, given in keys.items()
        }
    values = {"zns.active": int(active[:9]), "zns.zone_superblocks": int(superblocks[:9])}
    nand, reserve = raw["nand"], 2
    if "gc" in raw:
        reserve = int(raw["gc"]["reserve_superblocks"]["value"]) + 2
    good = nand["blocks_per_plane"]["value"] - nand["bad_superblocks"]["value"]
    sectors = flash_bytes(raw) // good // SECTOR_BYTES
    spare = values["zns.active"] + reserve
    zone = values["zns.zone_superblocks"]
    capacity = int(raw["drive"]["capacity_sectors"]["value"])
    zones = min(capacity // (zone * sectors), (good - spare) // zone)
    values["drive.capacity_sectors"] = max(zones, 1) * zone * sectors
    change = f"zns = {max(zones, 1)} zones of {zone} superblocks, {active} active"
    change += f", random write areas of {size} KiB" if area else ""
    return change + "".join(f", without its {name}" for name in gone), values


# Short names that stand for values of the profile. Each function returns the change in words, and
# the values.
SHORT: dict[str, Callable[[Raw, str], tuple[str, dict[str, Any]]]] = {
    "over_provisioning": _over_provisioning,
    "unused": _unused,
    "link": _link,
    **FLAGS,
    "aged": _aged,
    "policy": _policy,
    "fdp": _fdp,
    "fdp.reclaim_groups": _reclaim_groups,
    "zns": _zns,
    "parity": _parity,
    "foreground_victims": _whole("foreground_victims", "victims", 2),
    "service_cv": _service_cv,
    **{key: _whole(key, "superblocks", 8) for _, _, key in _core.victim_policies() if key},
}


def _value(drive: str, raw: Raw, name: str, given: str) -> Applied:
    known = {path: leaf["value"] for path, leaf in leaves.every(raw)}
    paths = [name] if name in known else [path for path in known if path.endswith(f".{name}")]
    if len(paths) > 1:
        raise UserError(
            f"--set {name}: more than one section has that name: {', '.join(paths)}",
            f"--set {paths[0]}={given}",
        )
    if not paths:
        endings = {path.rpartition(".")[2]: path for path in known}
        section = name.partition(".")[0]
        if section in _EXAMPLE_OF and section not in raw:
            hint = f"before it, make that section: --set {_EXAMPLE_OF[section]}"
        else:
            near = did_you_mean(name, [*known, *endings, *SHORT])
            hint = f"{near}possible are, for example: {EXAMPLES}, or any section.key=value"
            hint += " of its profile"
        raise UserError(f"--set {name}: {drive} has no such value", hint)
    path = paths[0]
    _put(raw, path, {"value": _parsed(path, given, known[path]), "source": WHAT_IF})
    now = json.dumps(known[path])
    return f"{path}={given}", f"it is {now}: --set {path}={now}"


def _parsed(path: str, given: str, before: Any) -> Any:
    """Parses a value, which must have the type of the previous value."""
    try:
        value = documents.from_json(given)
    except ValueError:
        value = given
    if isinstance(before, float) and type(value) is int:
        return float(value)
    same = type(value) is type(before) or (type(before) is int and type(value) is float)
    if not same:
        kind = {bool: "true or false", int: "a number", float: "a number", list: "a list, [1, 2]"}
        raise UserError(
            f"--set {path}={given}: must be {kind.get(type(before), 'text')}",
            f"it is {json.dumps(before)}: --set {path}={json.dumps(before)}",
        )
    return value
