"""Judgement of a benchmark's result: flaws that its own figures show, by the physics of drives.

`judge` reads fio's JSON, JSON+ or text, with logs in the same folder, or a result folder's raw
files. Every rule of `rules.RULES` is applied to each job; of several jobs the worst verdict counts.
docs/concepts/judge.md describes the rules, and how often they are right.

Leaves out: what only a second run or the drive itself shows. A file without flaws can be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from drivebay.common.documents import printable
from drivebay.common.errors import UserError
from drivebay.lab.imports import named, recognized, text_of
from drivebay.lab.judge.evidence import Case, cases
from drivebay.lab.judge.rules import ORDER, RULES, Finding, Rule, Verdict
from drivebay.targets.fio.figures import Unreadable

__all__ = ["RULES", "Case", "Judgement", "Rule", "Verdict", "judge"]


@dataclass(frozen=True)
class Judgement:
    """Finding of a rule for a file, and the job that it is about."""

    rule: Rule
    finding: Finding
    job: str

    @property
    def is_shown(self) -> bool:
        """True if the file shows the flaw."""
        return self.finding.verdict == "shown"


def judge(files: Sequence[Path]) -> Iterator[tuple[Path, list[Judgement]]]:
    """Yields each file with a judgement by every rule; a result folder yields its raw files.

    Raises
    ------
    UserError
        If a file is no output of fio, is damaged, or has an impossible figure.
    """
    for given in files:
        for path in _raw_files(given) if given.is_dir() else [given]:
            jobs = _cases(path)
            yield path, [_worst(rule, jobs) for rule in RULES]


def _raw_files(folder: Path) -> list[Path]:
    """Outputs of fio that a result folder keeps."""
    marks = [named(name).mark for name in ("fio", "fio-text")]
    found = [
        path
        for path in sorted(folder.glob("steps/*/raw/*"))
        if path.is_file() and any(mark.search(text_of(path, "")) for mark in marks)
    ]
    if not found:
        raise UserError(
            f"{printable(str(folder))} holds no output of fio",
            "give fio's JSON or text, or the result folder of a real drive",
        )
    return found


def _cases(path: Path) -> list[Case]:
    importer = recognized([path])
    if not importer.name.startswith("fio"):
        raise UserError(
            f"{printable(str(path))} cannot be judged: it is {importer.form} of {importer.program}",
            "judge reads fio's JSON or text",
        )
    try:
        found = cases(path, is_text=importer.name != "fio")
    except Unreadable as problem:
        message = f"{printable(str(path))} cannot be judged: {printable(str(problem))}"
        raise UserError(message, importer.again) from None
    if not found:
        raise UserError(f"{printable(str(path))}: none of its jobs moved any data", importer.again)
    return found


def _worst(rule: Rule, jobs: Sequence[Case]) -> Judgement:
    """The judgement of the job that the flaw shows best in."""
    judged = [Judgement(rule, rule.test(case), case.job.name) for case in jobs]
    return min(judged, key=lambda entry: ORDER.index(entry.finding.verdict))
