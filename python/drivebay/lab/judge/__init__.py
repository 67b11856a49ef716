"""Judgement of a benchmark's result: flaws that its own figures show, by the physics of drives.

`judge` reads fio's JSON, JSON+ or text, with logs in the same folder. Every rule of `rules.RULES`
is applied to each job; of several jobs the worst verdict counts. docs/concepts/judge.md describes
the rules, and how often they are right.

Leaves out: what only a second run or the drive itself shows. A file without flaws can be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from drivebay.common.documents import printable
from drivebay.common.errors import UserError
from drivebay.lab.imports import fitting, recognized
from drivebay.lab.judge.evidence import Case, cases
from drivebay.lab.judge.rules import ORDER, RULES, Rule, Verdict
from drivebay.results.reading import Result
from drivebay.targets.fio.figures import Unreadable

# Rules about how a review was set up, and not about what its suite does.
SETUP = frozenset({"cache", "span", "bound"})
FLAWS: tuple[Verdict, ...] = ("shown", "likely")


@dataclass(frozen=True)
class Judgement:
    """Verdict of a rule for a file, the job that it is about, and the run that settles it."""

    flaw: str
    title: str
    job: str
    verdict: Verdict
    reason: str
    settle: str

    @property
    def sentence(self) -> str:
        """The verdict with its reason, on one line."""
        return f"{self.title}: {self.verdict} (job {self.job}: {self.reason})"


def judge(files: Sequence[Path]) -> Iterator[tuple[Path, list[Judgement]]]:
    """Yields each file with a judgement by every rule.

    Raises
    ------
    UserError
        If a file is no output of fio, is damaged, or has an impossible figure.
    """
    for path in files:
        yield path, _judged(path, RULES)


def flaws(files: Iterable[Path], rules: Sequence[Rule] = RULES) -> list[Judgement]:
    """Flaws that are shown or likely, each with the file that it shows best in; files that are not
    fio's are skipped."""
    worst: dict[str, Judgement] = {}
    for path in files:
        try:
            judged = _judged(path, rules)
        except UserError:
            continue
        for entry in judged:
            entry = replace(entry, job=f"{entry.job} of {printable(path.name)}")
            if entry.verdict in FLAWS:
                known = worst.setdefault(entry.flaw, entry)
                worst[entry.flaw] = min(known, entry, key=lambda one: ORDER.index(one.verdict))
    return list(worst.values())


def of_result(result: Result) -> list[Judgement]:
    """Flaws in the output of fio that a result of a real drive or an import keeps. Of a review only
    the rules about its setup are asked: its suite prepares the drive, sets rates and provokes
    falls."""
    raw = sorted(result.folder.glob("steps/*/raw/*"))
    kept = [path for path in raw if not path.name.startswith("prepare-")]
    of_setup = [rule for rule in RULES if rule.name in SETUP]
    return flaws(kept, RULES if "imported" in result.target else of_setup)


def _judged(path: Path, rules: Sequence[Rule]) -> list[Judgement]:
    hint = "judge reads fio's JSON or text"
    fits = (importer for importer in fitting(path, hint) if importer.name.startswith("fio"))
    importer = next(fits, None) or recognized([path])
    if not importer.name.startswith("fio"):
        other = f"{importer.form} of {importer.program}"
        raise UserError(f"{printable(str(path))} cannot be judged: it is {other}", hint)
    try:
        jobs = cases(path, importer)
        judged = [_worst(rule, jobs) for rule in rules if jobs]
    except Unreadable as problem:
        message = f"{printable(str(path))} cannot be judged: {printable(str(problem))}"
        raise UserError(message, importer.again) from None
    if not jobs:
        raise UserError(f"{printable(str(path))}: {importer.empty}", importer.again)
    return judged


def _worst(rule: Rule, jobs: Sequence[Case]) -> Judgement:
    """The judgement of the job that the flaw shows best in."""
    judged = [(rule.test(case), case.job.name) for case in jobs]
    found, job = min(judged, key=lambda entry: ORDER.index(entry[0].verdict))
    return Judgement(rule.name, rule.title, job, found.verdict, found.reason, rule.settle)
