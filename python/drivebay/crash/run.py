"""Checks every state that a power cut could leave: in parallel, and resumed if interrupted.

A run's folder has `run.json`, the run's settings and its number of states, and `verdicts.jsonl`, a
line for each state in the order of the checks. The same recording, rules and seed have the same
states.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import queue
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from drivebay import _core
from drivebay.common import documents, threads
from drivebay.common.errors import UserError
from drivebay.common.files import system_errors
from drivebay.crash.check import Checker, Verdict
from drivebay.crash.minimise import minimise
from drivebay.definitions.profiles import Profile

ASKED, VERDICTS = "run.json", "verdicts.jsonl"
# States of neighbouring cuts that one worker takes: they differ by few pages.
CHUNK = 16
# Kinds of failure that a run minimises: the first ones.
KINDS_MAX = 8
# Checks for all minimisations together.
TESTS_MAX = 1000
Table = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Settings of a run.

    Parameters
    ----------
    recording : its file.
    check : words of a command, in which {} is the file with a state.
    drive : the drive whose rules hold; None is the drive that was recorded.
    changes : fields of the rules that are different.
    after : cuts begin at the first mark of this text.
    states : most states that are checked.
    seed : seed of the random draws.
    timeout_s : a check that takes longer hangs.
    """

    recording: Path
    check: tuple[str, ...]
    drive: Profile | None = None
    changes: Table = field(default_factory=dict)
    after: str | None = None
    states: int = 10_000
    seed: int = 1
    timeout_s: float = 60.0

    def open(self) -> _core.CrashStates:
        """Returns the recording's states."""
        core = None if self.drive is None else self.drive.core
        return _core.CrashStates(self.recording, core, dict(self.changes), self.after)


@dataclass(frozen=True)
class Failure:
    """States that fail alike, the `smallest` such state that was found, and its verdict."""

    states: Sequence[str]
    smallest: str
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Findings of a run: `verdicts` by state; `failures` by kind, at most `KINDS_MAX`; `coverage`
    and `info` as returned by the core; `notes` for the user. `is_void`: True if a pass proves
    nothing, because the check passes on an empty drive or the recording is cut short.
    """

    verdicts: Mapping[str, Verdict]
    failures: Sequence[Failure]
    coverage: Table
    info: Table
    notes: Sequence[str]
    is_void: bool

    @property
    def failed(self) -> list[str]:
        """Returns the states whose check did not pass, in the order of their cuts."""
        return [name for name, verdict in self.verdicts.items() if verdict.failed]


def run(
    asked: Asked,
    folder: Path,
    jobs: int | None,
    tell: Callable[[int, int, int], None],
    scratch: Path | None = None,
    deadline: float | None = None,
) -> Outcome:
    """Checks the states of a recording that have no verdict in the folder yet. Raises UserError if
    the file is not a recording, the folder belongs to another run, or the check fails although
    nothing is lost; EnvironmentProblem if a file cannot be written, or the check cannot be
    started.

    Parameters
    ----------
    asked : the run's settings.
    folder : the run's folder; created, or left by an earlier call of the same run.
    jobs : checks at a time; None is one for each processor.
    tell : called with states checked, all, and failures.
    scratch : where the files of states are; None is TMPDIR's.
    deadline : value of time.monotonic() after which no state is checked; a fifth of the time until
        then is kept for minimising. The states are then in random order, so that all cuts have a
        share.
    """
    states = asked.open()
    info: dict[str, Any] = states.info()
    last = states.last()
    if last is None:
        raise UserError(f"{asked.recording} has no command", "record a workload that writes")
    names, coverage = states.enumerate(asked.states, asked.seed)
    found: dict[str, Verdict] = {}
    with system_errors(f"{scratch}", "--scratch FOLDER"):
        made = tempfile.TemporaryDirectory(prefix="drivebay-crash-", dir=scratch)
    with (
        made as name,
        _journal(asked, folder, info, coverage, found) as journal,
        closing(Checker(states, asked.check, asked.timeout_s, Path(name))) as one,
    ):
        empty, whole = one.empty(states.mark_of(last)), one(last)
        if whole.failed:
            raise UserError(
                f"the check fails although nothing is lost: {_line(whole)}",
                f"mend the check first: drivebay crash replay {folder} {last}",
            )
        order = list(range(0, len(names), CHUNK))
        end = math.inf
        if deadline is not None:
            random.Random(asked.seed).shuffle(order)
            end = deadline - (deadline - time.monotonic()) / 5
        chunks = [names[at : at + CHUNK] for at in order]
        _check_all(states, asked, chunks, found, journal, jobs, Path(name), tell, end)
        ordered = {name: found[name] for name in names if name in found}
        notes = list(_notes(info, empty))
        if len(ordered) < len(names):
            notes.append(f"the time ended after {len(ordered):,} of {len(names):,} states")
        if info["marks"] and not _is_at_risk_at_a_mark(states, coverage["cuts"]):
            notes.append(
                "at every mark the drive had flushed all that it was given since the first: if a "
                "file system is in between, it never wrote back by itself, and losses of that "
                "were not seen (record --writeback 200)"
            )
        failures = list(_failures(states, ordered, one, notes, deadline or math.inf))
    return Outcome(
        verdicts=ordered,
        failures=failures,
        coverage=coverage,
        info=info,
        notes=notes,
        is_void=info["is_truncated"] or not empty.failed,
    )


def _failures(
    states: _core.CrashStates,
    verdicts: Mapping[str, Verdict],
    check: Checker,
    notes: list[str],
    deadline: float,
) -> Iterator[Failure]:
    """Groups failing states by kind and minimises each kind; adds a note for a kind that fails only
    sometimes.
    """
    kinds: dict[str, list[str]] = {}
    for name, verdict in verdicts.items():
        if verdict.failed:
            kinds.setdefault(verdict.alike, []).append(name)
    shown = list(kinds.items())[:KINDS_MAX]
    seen: set[str] = set()
    for kind, names in shown:
        if not check(names[0]).failed:
            notes.append(f"warning: the check failed on {names[0]}, and passes now: it is no judge")
            continue

        def fails(state: str, kind: str = kind) -> bool:
            return time.monotonic() < deadline and check(state).alike == kind

        fewest = minimise(states, names[0], fails, TESTS_MAX // len(shown))
        if fewest not in seen:
            seen.add(fewest)
            yield Failure(names, fewest, check(fewest))


def _notes(info: Table, empty: Verdict) -> Iterator[str]:
    """Yields the reasons for which the outcome proves less than it seems to."""
    if not empty.failed:
        yield "error: the check passes on an empty drive: it may not look at what was written"
    if not info["flushes"]:
        yield "warning: the workload has no flush and no FUA: the drive has promised it nothing"
    elif info["rules"]["ignores_flush"]:
        yield "the drive ignores flushes: a program that is right will fail"
    if info["flushes"] and not info["fua"]:
        yield (
            "no command had FUA: nbdfuse and loop devices turn it into a flush of everything, and "
            "losses that FUA alone permits were not seen"
        )
    if info["rules"]["protected"]:
        yield "the drive has power-loss protection: only what had not completed can be lost"
    if not info["marks"]:
        yield "no marks: the check cannot know what was promised when the power was cut"
    if info["is_truncated"]:
        yield "error: the recording is cut short: what is whole was checked"


def _is_at_risk_at_a_mark(states: _core.CrashStates, cuts: int) -> bool:
    """True if the drive had volatile data at a mark, except what it has from the first cut on."""
    marks = [states.mark_of(f"{cut}:prefix:0") for cut in range(cuts)]
    first = set(states.lost_units("0:prefix:0")) if cuts else set()
    return any(
        before != after and set(states.lost_units(f"{cut}:prefix:0")) - first
        for cut, (before, after) in enumerate(itertools.pairwise(marks))
    )


def _line(verdict: Verdict) -> str:
    """Returns a verdict as one line."""
    last = verdict.said.splitlines()[-1] if verdict.said else "no output"
    how = "hangs" if verdict.exit_code is None else f"exit code {verdict.exit_code}"
    return f"{how}, {last:.200}"


def _check_all(
    states: _core.CrashStates,
    asked: Asked,
    chunked: Sequence[Sequence[str]],
    found: dict[str, Verdict],
    journal: TextIO,
    jobs: int | None,
    place: Path,
    tell: Callable[[int, int, int], None],
    end: float,
) -> None:
    """Checks the states without a verdict, and adds the verdicts to `found` and to the journal."""
    chunks: queue.SimpleQueue[Sequence[str]] = queue.SimpleQueue()
    for chunk in chunked:
        chunks.put([name for name in chunk if name not in found])
    total = sum(map(len, chunked))
    lock, stopped = threading.Lock(), threading.Event()
    failures = sum(verdict.failed for verdict in found.values())

    def work() -> None:
        nonlocal failures
        with (
            suppress(queue.Empty),
            closing(Checker(states, asked.check, asked.timeout_s, place)) as check,
        ):
            while not stopped.is_set():
                for name in chunks.get_nowait():
                    verdict = check(name)
                    with lock:
                        found[name] = verdict
                        failures += verdict.failed
                        journal.write(json.dumps({"state": name, **vars(verdict)}) + "\n")
                        tell(len(found), total, failures)
                    if stopped.is_set() or time.monotonic() > end:
                        return

    threads.together([work] * (jobs or os.cpu_count() or 1), stop=stopped.set)


@contextmanager
def _journal(
    asked: Asked, folder: Path, info: Table, coverage: Table, found: dict[str, Verdict]
) -> Iterator[TextIO]:
    """Opens the file of verdicts at its end; verdicts already in it are put into `found`."""
    with asked.recording.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    document = {
        **vars(asked),
        "recording": str(asked.recording.absolute()),
        "digest": digest,
        "check": list(asked.check),
        "rules": info["rules"],
        "changes": dict(asked.changes),
        "drive": None if asked.drive is None else asked.drive.name,
    }
    own, verdicts = folder / ASKED, folder / VERDICTS
    with system_errors(f"{folder}", f"ls -ld {folder}; df"):
        folder.mkdir(parents=True, exist_ok=True)
        if own.exists():
            before = read(folder)
            different = [key for key, value in document.items() if before.get(key) != value]
            if set(different) - {"recording"}:
                raise UserError(
                    f"{folder} is of another run: {', '.join(different)}", "--out ANOTHER-FOLDER"
                )
        elif any(folder.iterdir()):
            raise UserError(f"{folder} is not empty", "--out ANOTHER-FOLDER")
        else:
            text = json.dumps({**document, "coverage": coverage}, indent=1)
            own.write_text(text + "\n", encoding="utf-8")
        found.update(verdicts_of(folder))
        with verdicts.open("a", encoding="utf-8", buffering=1) as journal:
            if journal.tell() and not verdicts.read_bytes().endswith(b"\n"):
                journal.write("\n")
            yield journal


def read(folder: Path) -> dict[str, Any]:
    """Reads the settings of the run in a folder. Raises UserError if the folder has no run."""
    try:
        document = documents.from_json(documents.read(folder / ASKED))
        assert isinstance(document, dict)
    except (OSError, ValueError, AssertionError):
        raise UserError(
            f"{folder} is no run", "drivebay crash run RECORDING -- CHECK makes one"
        ) from None
    return document


def verdicts_of(folder: Path) -> dict[str, Verdict]:
    """Reads the verdicts of the run in a folder, by state; a line that was being written is left
    out.
    """
    found = {}
    with suppress(FileNotFoundError), (folder / VERDICTS).open("rb") as file:
        for line in file:  # line by line: a complete run has many megabytes of verdicts
            try:
                own = documents.from_json(line)
                name = str(own.pop("state"))
                found[name] = Verdict(**own)
            except (ValueError, TypeError, KeyError, AttributeError):
                continue
    return found
