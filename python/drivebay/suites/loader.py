"""Reads a suite's TOML file into the model, and turns every mistake into one line with a hint.

The file may be terser than the model: `queue_depths` with one `workload` becomes a ladder's phases
"qd1", "qd2" and so on; one `workload` with its `queue_depth`, or one `replay`, becomes the single
phase "run"; a trim-check gets its two phases, "written" and "discarded".
Leaves out: includes and variables; a suite is one file.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from drivebay import data
from drivebay.errors import UserError
from drivebay.suites.model import Suite

FILE_BYTES_MAX = 1_000_000


def names() -> list[str]:
    """The suites that come with drivebay, sorted.

    >>> "quick" in names()
    True
    """
    return sorted(path.stem for path in data.path("suites").glob("*.toml"))


def load(name_or_path: str | Path) -> Suite:
    """A suite by its name, or from a user's file (a path that ends in .toml or has a slash).

    Raises
    ------
    UserError
        If there is no such suite, or the file is no valid suite; names file, field and value.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".toml") or "/" in text:
        return _read(Path(name_or_path))
    if text not in names():
        close = difflib.get_close_matches(text, names(), n=1)
        suggestion = f"did you mean --suite {close[0]}? " if close else ""
        raise UserError(
            f"suite '{text}' is unknown; known are {', '.join(names())}",
            f"{suggestion}a suite of your own is given by its path: --suite ./my-suite.toml",
        )
    return _read(data.path("suites") / f"{text}.toml")


def _read(path: Path) -> Suite:
    how = "give a suite's name or a .toml file, for example: --suite quick"
    try:
        if path.is_dir():
            raise UserError(f"suite file {path} is a directory", how)
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise UserError(f"suite file {path} does not exist", how) from None
    except OSError as problem:
        raise UserError(f"suite file {path} cannot be read: {problem.strerror}", how) from None
    if len(raw) > FILE_BYTES_MAX:
        raise UserError(f"suite file {path} is over {FILE_BYTES_MAX} bytes: no suite", how)
    try:
        table = tomllib.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise UserError(
            f"suite file {path} is not valid TOML: {_one_line(problem)}",
            "compare it with the suites that come with drivebay, such as suites/quick.toml",
        ) from None
    return parse(table, where=str(path))


def parse(table: dict[str, Any], *, where: str) -> Suite:
    """A suite from its TOML table; `where` names it in errors.

    Raises
    ------
    UserError
        On the first thing that is wrong.
    """
    tests = table.get("tests")
    if isinstance(tests, list):
        table = {**table, "tests": [_expand(test, where) for test in tests]}
    try:
        # Through JSON, because strict validation of it takes arrays for tuples and nothing else.
        return Suite.model_validate_json(json.dumps(table, default=str), strict=True)
    except ValidationError as problem:
        raise _explain(problem, table, where) from None


class _Expanded(dict[str, Any]):
    """A test whose phases the loader wrote; errors in them are told in the file's own terms."""


def _expand(test: Any, where: str) -> Any:
    """The terse form of one test, spelled out."""
    if isinstance(test, dict) and "replay" in test and not {"workload", "phases"} & set(test):
        kept = {key: value for key, value in test.items() if key != "replay"}
        return _Expanded(kept, phases=[{"label": "run", "replay": test["replay"]}])
    if isinstance(test, dict) and test.get("kind") == "trim-check" and "phases" not in test:
        halves = [("written", False), ("discarded", True)]
        phases = [{"label": label, "trim": {"discard": discard}} for label, discard in halves]
        return _Expanded(test, phases=phases)
    if not isinstance(test, dict) or "workload" not in test:
        if isinstance(test, dict) and "queue_depths" in test:
            raise UserError(
                f"{where}: test '{test.get('id', '?')}': queue_depths without a workload",
                "add a [tests.workload] table, which all the depths share",
            )
        return test
    name = test.get("id", "?")
    if "phases" in test:
        raise UserError(
            f"{where}: test '{name}' has both 'workload' and 'phases'; one of them is allowed",
            "keep 'workload' for a single load or a ladder, 'phases' for anything else",
        )
    kept = {key: value for key, value in test.items() if key not in ("workload", "queue_depths")}
    full = _Expanded(kept)
    load = test["workload"]
    if "queue_depths" not in test:
        full["phases"] = [{"label": "run", "workload": load}]
        return full
    depths = test["queue_depths"]
    if not (isinstance(depths, list) and depths and all(type(depth) is int for depth in depths)):
        raise UserError(
            f"{where}: test '{name}': queue_depths: {depths!r} is not allowed; must be a list of "
            "whole numbers",
            "write, for example: queue_depths = [1, 2, 4, 8, 16, 32]",
        )
    if not isinstance(load, dict) or "queue_depth" in load:
        raise UserError(
            f"{where}: test '{name}': workload must be a table without queue_depth, as "
            "queue_depths gives them",
            "remove queue_depth from [tests.workload]",
        )
    full["phases"] = [
        {"label": f"qd{depth}", "workload": {**load, "queue_depth": depth}} for depth in depths
    ]
    return full


def _explain(problem: ValidationError, table: dict[str, Any], where: str) -> UserError:
    """The first mistake in words; a key that does not exist goes before one that is missing, as it
    is most often that one misspelt."""
    found = problem.errors(include_url=False)
    first = min(found, key=lambda error: error["type"] != "extra_forbidden")
    field = _field_name(first["loc"], table)
    kind, context = first["type"], first.get("ctx", {})
    example = data.path("suites") / "quick.toml"
    hint = f"a complete example to compare with is {example}"
    if kind == "extra_forbidden":
        missing = [str(error["loc"][-1]) for error in found if error["type"] == "missing"]
        close = difflib.get_close_matches(str(first["loc"][-1]), missing, n=1)
        if close:
            hint = f"did you mean {close[0]}? {hint}"
        return UserError(f"{where}: {field} is not a key of a suite", hint)
    if kind == "missing":
        return UserError(f"{where}: {field} is missing", f"add it; {hint}")
    if kind == "value_error":
        return UserError(f"{where}: {field}: {context['error']}", hint)
    rule = f"must be {context['expected']}" if kind == "literal_error" else _rule(first["msg"])
    message = f"{where}: {field}: {_short(first['input'])} is not allowed; {rule}"
    return UserError(message, f"change {field.rsplit(': ', 1)[-1]}; {hint}")


_WORDS = (
    ("Input should be", "must be"),
    ("a valid ", "a "),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("greater than", "more than"),
    ("an instance of", "a"),
    ("a integer", "a whole number"),
    ("a array", "a list"),
    ("an object", "a table"),
)


def _rule(message: str) -> str:
    """What is allowed, in the words of this program."""
    for theirs, ours in _WORDS:
        message = message.replace(theirs, ours)
    return message[:1].lower() + message[1:]


def _field_name(location: tuple[int | str, ...], table: dict[str, Any]) -> str:
    """`test 'random-read': workload.block_bytes` rather than `tests.2.phases.0.workload...`."""
    parts = list(location)
    prefix = ""
    if len(parts) >= 2 and parts[0] == "tests" and isinstance(parts[1], int):
        test = table["tests"][parts[1]]
        name = test.get("id", None) if isinstance(test, dict) else None
        prefix = f"test '{name}': " if isinstance(name, str) else f"test {parts[1] + 1}: "
        parts = parts[2:]
        if isinstance(test, _Expanded) and parts[:1] == ["phases"]:
            ladder = parts[-1] == "queue_depth" and len(test["phases"]) > 1
            parts = ["queue_depths"] if ladder else parts[2:]
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return prefix + text if text else prefix.removesuffix(": ") or "the file"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _one_line(problem: Exception) -> str:
    return " ".join(str(problem).split())
