"""Reads a suite's TOML file into the model, and reports every mistake as one line with a hint.

The file may be terser than the model. `queue_depths` with one `workload` becomes a ladder's phases
"qd1", "qd2" and so on; `compressible_percents`, `block_sizes` and `span_sizes` (in bytes) and
`read_percents` become "c50", "4k", "1g" and "r80" in the same way. With several such lists the
phases are all combinations ("4k-r80-qd3"), and the first list in the file changes slowest. A single
`workload` with all fields, or one `replay`, becomes the single phase "run"; a trim-check gets its
two phases, "written" and "discarded". Leaves out: includes and variables; a suite is one file.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from drivebay.common import data, documents
from drivebay.common.errors import UserError, did_you_mean
from drivebay.definitions import mistakes
from drivebay.definitions.suites import fio_jobs
from drivebay.definitions.suites.model import Suite

PHASES_MAX = 1000
# Ending of fio's job files.
JOBS = ".fio"


def names() -> list[str]:
    """Names of the suites that come with drivebay, sorted.

    >>> "quick" in names()
    True
    """
    return sorted(path.stem for path in data.path("suites").glob("*.toml"))


def load(name_or_path: str | Path) -> Suite:
    """Loads a suite by its name, or from a user's file (a path that ends in .toml or has a slash),
    which may be a job file of fio (.fio).

    Raises
    ------
    UserError
        If there is no such suite, or the file is not a valid suite; names file, field and value.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith((".toml", JOBS)) or "/" in text:
        return _read(Path(name_or_path))
    if text not in names():
        suggestion = did_you_mean(text, names(), "--suite ")
        raise UserError(
            f"suite '{text}' is unknown; known are {', '.join(names())}",
            f"{suggestion}a suite of your own is given by its path: --suite ./my-suite.toml",
        )
    return _read(data.path("suites") / f"{text}.toml")


def _read(path: Path) -> Suite:
    how = "give a suite's name, a .toml file or a .fio file, for example: --suite quick"
    try:
        if path.is_dir():
            raise UserError(f"suite file {path} is a directory", how)
        text = documents.read(path)
        if path.suffix == JOBS:
            jobs = text.decode(errors="replace")
            table = fio_jobs.suite_of(jobs, where=str(path), name=path.stem)
        else:
            table = documents.toml(text)
    except FileNotFoundError:
        raise UserError(f"suite file {path} does not exist", how) from None
    except OSError as problem:
        raise UserError(f"suite file {path} cannot be read: {problem.strerror}", how) from None
    except ValueError as problem:
        raise UserError(
            f"suite file {path} is not valid TOML: {problem}",
            "compare it with the suites that come with drivebay, such as suites/quick.toml",
        ) from None
    return parse(table, where=str(path), hint=fio_jobs.HINT if path.suffix == JOBS else None)


def parse(table: dict[str, Any], *, where: str, hint: str | None = None) -> Suite:
    """Makes a suite from its TOML table; `where` names it in errors, `hint` says what to do.

    Raises
    ------
    UserError
        On the first mistake.
    """
    tests = table.get("tests")
    if isinstance(tests, list):
        table = {**table, "tests": [_expand(test, where) for test in tests]}
    try:
        # Goes through JSON, because only then strict validation accepts arrays for tuples.
        return Suite.model_validate_json(json.dumps(table, default=str), strict=True)
    except ValidationError as problem:
        first = mistakes.first(problem)
        raise mistakes.user_error(
            first,
            f"{where}: {_field_name(first['loc'], table)}",
            document="a suite",
            hint=hint
            or f"a complete example to compare with is {data.path('suites') / 'quick.toml'}",
            known=[str(e["loc"][-1]) for e in problem.errors() if e["type"] == "missing"],
        ) from None


class _Expanded(dict[str, Any]):
    """A test whose phases the loader made; errors in them are reported in the file's own terms."""

    # Fields of the workload that come from a list, each with the list's key.
    swept: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class _Sweep:
    """A list of values for a field of the workload; each value makes a phase."""

    key: str
    field: str
    label: Callable[[int], str]
    example: str


def _size(count: int) -> str:
    """Label of a size in bytes.

    >>> [_size(count) for count in (512, 4096, 131072, 67108864, 2**31)]
    ['512b', '4k', '128k', '64m', '2g']
    """
    for unit, letter in ((2**30, "g"), (2**20, "m"), (2**10, "k")):
        if count and count % unit == 0:
            return f"{count // unit}{letter}"
    return f"{count}b"


_SPOKEN = {"b": "B", "k": "KiB", "m": "MiB", "g": "GiB"}
# Labels of loads in the shipped suites, as patterns, and their text.
_LOADS = (
    ("most", "highest rate"),
    (r"share-(\d+)", r"\1 % of the highest rate"),
    (r"writer-(\d+)", r"writer at \1 % of its rate"),
    (r"reader-(\d+)", r"reader, writer at \1 % of its rate"),
    ("writer-all", "writer at its full rate"),
    ("reader-all", "reader, writer at its full rate"),
)


def spoken(label: str) -> str:
    """Readable form of a label that the loader made; other labels are returned unchanged.

    >>> spoken("4k-r80-qd3"), spoken("512b-r0"), spoken("r100"), spoken("c50"), spoken("degrade-1")
    ('4 KiB, 80 % reads, QD 3', '512 B, writes', 'reads', '50 % compressible', 'degrade-1')
    >>> spoken("most"), spoken("share-20")
    ('highest rate', '20 % of the highest rate')
    """
    for pattern, text in _LOADS:
        if re.fullmatch(pattern, label):
            return re.sub(pattern, text, label)
    terms = []
    for part in label.split("-"):
        if match := re.fullmatch(r"(\d+)([bkmg])", part):
            terms.append(f"{match[1]} {_SPOKEN[match[2]]}")
        elif match := re.fullmatch(r"r(\d+)", part):
            terms.append({"100": "reads", "0": "writes"}.get(match[1], f"{match[1]} % reads"))
        elif match := re.fullmatch(r"(qd|c)(\d+)", part):
            number = match[2]
            terms.append(f"QD {number}" if match[1] == "qd" else f"{number} % compressible")
        else:
            return label
    return ", ".join(terms)


SWEEPS = (
    _Sweep("compressible_percents", "content", "c{}".format, "[0, 50, 100]"),
    _Sweep("span_sizes", "span_bytes", _size, "[1073741824, 17179869184]"),
    _Sweep("block_sizes", "block_bytes", _size, "[512, 4096, 131072]"),
    _Sweep("read_percents", "read_percent", "r{}".format, "[100, 80, 60, 40, 20, 0]"),
    _Sweep("queue_depths", "queue_depth", "qd{}".format, "[1, 2, 4, 8, 16, 32]"),
)


def _expand(test: Any, where: str) -> Any:
    """Expands the terse form of a test."""
    if not isinstance(test, dict):
        return test
    if "replay" in test and not {"workload", "phases"} & set(test):
        kept = {key: value for key, value in test.items() if key != "replay"}
        return _Expanded(kept, phases=[{"label": "run", "replay": test["replay"]}])
    if test.get("kind") == "trim-check" and "phases" not in test:
        halves = [("written", False), ("discarded", True)]
        phases = [{"label": label, "trim": {"discard": discard}} for label, discard in halves]
        return _Expanded(test, phases=phases)
    name = test.get("id", "?")
    sweeps = [sweep for sweep in SWEEPS if sweep.key in test]
    if "workload" not in test:
        for sweep in sweeps:
            raise UserError(
                f"{where}: test '{name}': {sweep.key} without a workload",
                "add a [tests.workload] table, which all the phases share",
            )
        return test
    if "phases" in test:
        raise UserError(
            f"{where}: test '{name}' has both 'workload' and 'phases'; one of them is allowed",
            "keep 'workload' for a single load or a sweep, 'phases' for anything else",
        )
    left_out = {"workload", *(sweep.key for sweep in sweeps)}
    full = _Expanded({key: value for key, value in test.items() if key not in left_out})
    load = test["workload"]
    for sweep in sweeps:
        _must_fit(sweep, test[sweep.key], load, f"{where}: test '{name}'")
    order = sorted(sweeps, key=lambda sweep: list(test).index(sweep.key))
    combinations = [
        dict(zip(order, values, strict=True))
        for values in itertools.product(*(test[sweep.key] for sweep in order))
    ]
    if len(combinations) > PHASES_MAX:
        raise UserError(
            f"{where}: test '{name}': {len(combinations)} phases are too many; at most "
            f"{PHASES_MAX}",
            f"shorten {sweeps[0].key}",
        )
    full["phases"] = [
        {
            "label": "-".join(sweep.label(values[sweep]) for sweep in sweeps) or "run",
            "workload": {**load, **{sweep.field: values[sweep] for sweep in sweeps}},
        }
        for values in combinations
    ]
    full.swept = {sweep.field: sweep.key for sweep in sweeps}
    return full


def _must_fit(sweep: _Sweep, values: Any, load: Any, test: str) -> None:
    """Raises UserError unless the value is a list of integers for a field that the load does not
    set.
    """
    if not (isinstance(values, list) and values and all(type(value) is int for value in values)):
        raise UserError(
            f"{test}: {sweep.key}: {values!r} is not allowed; must be a list of whole numbers",
            f"write, for example: {sweep.key} = {sweep.example}",
        )
    if not isinstance(load, dict) or sweep.field in load:
        raise UserError(
            f"{test}: workload must be a table without {sweep.field}, which {sweep.key} sets",
            f"remove {sweep.field} from [tests.workload]",
        )


def _field_name(location: tuple[int | str, ...], table: dict[str, Any]) -> str:
    """Location of an error in the file's terms: `test 'random-read': workload.block_bytes`
    instead of `tests.2.phases.0.workload...`.
    """
    parts = list(location)
    prefix = ""
    if len(parts) >= 2 and parts[0] == "tests" and isinstance(parts[1], int):
        test = table["tests"][parts[1]]
        name = test.get("id", None) if isinstance(test, dict) else None
        prefix = f"test '{name}': " if isinstance(name, str) else f"test {parts[1] + 1}: "
        parts = parts[2:]
        if isinstance(test, _Expanded) and parts[:1] == ["phases"]:
            swept = test.swept.get(str(parts[-1]))
            parts = [swept] if swept else parts[2:]
    text = mistakes.dotted(parts)
    return prefix + text if text else prefix.removesuffix(": ") or "the file"
