"""Recomputes leverage, leave-one-out errors and sensitivities: `make fidelity`.

    python scripts/fidelity.py [--modern [--again]] [--refits 20] [--drive NAME]
                               [--runs | --unchanged | --pages]

Writes fidelity.json.xz and validation-run.json.xz in published/computed/ and the generated parts of
docs/fidelity.md; the site's pages of rows and sensitivities are made from them. Every evaluation is
stored in target/fidelity/ as soon as it is done: an interrupted run continues when it is started
again with the same model, and stored evaluations of a drive are reused as long as its profile, its
tests and its rows are the same.

`--drive` limits the run to the rows about a drive, to try it out: it then writes nothing. `--runs`
only runs the rows again, some minutes: leverage and shifts without the row are kept.

`--modern` is for today's drives instead, which published/validation.toml lists as unscored:
leverage and errors without the row, in fidelity-modern.json.xz. With it, `--drive` computes the
derivatives of that drive alone and keeps those of the others. `--again`, after a fit has changed
some values: runs the rows, some minutes, and computes the rest from the stored derivatives, which
belong to the previous values. Rows of drives without derivatives count without leverage.

`--unchanged` is for a change of the model's code that changes no figure: it runs the rows and, if
each reproduces the stored figure exactly, keeps everything else under the new fingerprint,
including the evaluations; shipped results of the previous model then do not count as old. `--pages`
only judges the stored figures again and writes docs/fidelity.md. A test checks that the page is
that of the stored results.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Container
from dataclasses import replace
from pathlib import Path
from typing import Any

from docgen.fidelity import between, intervals, written

from drivebay.analysis import fidelity
from drivebay.common.errors import DrivebayError
from drivebay.lab.fit import kept
from drivebay.lab.fit.linear import posterior
from drivebay.lab.fit.refit import refits
from drivebay.lab.fit.sensitivity import Bench, derivatives, whole_runs
from drivebay.lab.validate import score, table, verdicts
from drivebay.lab.validate.plan import Row, load_plan
from drivebay.lab.validate.values import NotReached
from drivebay.lab.validate.verdicts import Validation

TOP = Path(__file__).resolve().parent.parent
PAGE = TOP / "docs" / "fidelity.md"
INTERVALS = TOP / "docs" / "concepts" / "intervals.md"


def write_page() -> None:
    """Writes the pages from the stored results."""
    PAGE.write_text(written(PAGE.read_text(), fidelity.recorded(), fidelity.kept()))
    INTERVALS.write_text(between(INTERVALS.read_text(), "intervals", intervals()))


def evaluations(model: str, *, modern: bool) -> Path:
    """Folder of a model's evaluations; each evaluation identifies its profiles and tests. Those
    of today's drives have their own folder: a proof for the other drives proves nothing for
    them.
    """
    return TOP / "target" / "fidelity" / model / ("modern" if modern else "scored")


def say(message: str, _began: float = time.monotonic()) -> None:
    """Prints progress, with the minutes so far."""
    print(f"{(time.monotonic() - _began) / 60:6.1f} min  {message}", file=sys.stderr, flush=True)


def prove_unchanged(validation: dict[str, Any], *, modern: bool) -> None:
    """Stores the results for the present code if each row reproduces the same figure as before.

    Raises
    ------
    DrivebayError : a row reproduces another figure.
    """
    then = fidelity.kept_modern() if modern else fidelity.kept()
    rows = [row for row in fidelity.recorded()["rows"] if row["scored"] != modern]
    kept_rows = [row for row in rows if row["drive"] in then.get("drives", (row["drive"],))]
    figures = [
        {row["id"]: (row["reproduced"], row["ok"]) for row in some}
        for some in (kept_rows, validation["rows"])
    ]
    moved = sorted(name for name in figures[0] | figures[1]
                   if figures[0].get(name) != figures[1].get(name))  # fmt: skip
    if moved:
        raise DrivebayError(
            f"{len(moved)} rows reproduce other figures than before: {', '.join(moved[:8])}",
            hint="run `make fidelity`: leverage and errors must be computed again",
        )
    now = fidelity.fingerprint(then.get("drives", ()))
    former = [*then.get("same_models", ()), then["fingerprint"]["model"]]
    models = [model for model in dict.fromkeys(former) if model != now["model"]]
    write({**then, "fingerprint": now, "same_models": models}, modern=modern)
    for model in models:
        before, after = (evaluations(name, modern=modern) for name in (model, now["model"]))
        if before.is_dir():
            shutil.copytree(before, after, dirs_exist_ok=True)


def write(document: dict[str, Any], *, modern: bool) -> None:
    """Stores the computed document."""
    kept.write(fidelity.MODERN if modern else fidelity.FILE, document)
    for cached in (fidelity.kept, fidelity.kept_modern, fidelity.stale,
                   fidelity.stale_modern):  # fmt: skip
        cached.cache_clear()


def record(validation: Validation | None = None) -> dict[str, Any]:
    """Stores a run of some rows and keeps the figures of the others. Judges all rows: the intervals
    of each depend on the errors of all.
    """
    figures = table.figures_of(fidelity.recorded())
    if validation is not None:
        figures |= {v.row.published.id: v.reproduced for v in validation.verdicts}
    plan = load_plan()
    rows = tuple(row for row in plan.rows if row.not_covered or row.published.id in figures)

    def figure_of(row: Row) -> float | str:
        mine = figures[row.published.id]
        if isinstance(mine, str) and row.bounds is not None and not row.catalog:
            raise NotReached(mine)
        return mine

    judged = verdicts.judged(replace(plan, rows=rows), figure_of)
    for _ in range(2):  # the first stores the errors that the second's intervals come from
        kept.write(fidelity.RECORDED, table.as_json(judged))
        for cached in (fidelity.offsets, fidelity._widths):
            cached.cache_clear()
    write_page()
    return fidelity.recorded()


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--refits", type=int, default=20)
    parser.add_argument("--drive", action="append", default=[])
    parser.add_argument("--modern", action="store_true")
    parser.add_argument("--again", action="store_true")
    mode = parser.add_mutually_exclusive_group()
    for name in ("--runs", "--unchanged", "--pages"):
        mode.add_argument(name, action="store_true")
    asked = parser.parse_args()
    if asked.again and not asked.modern:
        parser.error("--again needs --modern")
    if asked.pages:
        record()
        return
    os.nice(5)
    modern = asked.modern
    plan = load_plan().only_scored(not modern)

    def bench_of(drives: list[str], rows: Container[str] | None = None) -> Bench:
        """The bench of these drives, or of all, and of these rows, or of all."""
        folder = evaluations(fidelity.model_fingerprint(), modern=modern)
        some = plan.of_drives(drives)
        if rows is not None:
            known = (row for row in some.rows if row.not_covered or row.published.id in rows)
            some = replace(some, rows=tuple(known))
        return Bench(some, folder, say, rows_only=modern)

    then = fidelity.kept_modern()
    bench = bench_of(then["drives"] if modern and asked.unchanged else asked.drive)
    if asked.runs or asked.unchanged:
        validation = kept.validation_of(bench, whole_runs(bench))
        if asked.unchanged:
            prove_unchanged(table.as_json(validation), modern=modern)
        else:
            record(validation)
        return
    if not asked.again:
        taken = derivatives(bench)
    if modern and (asked.again or asked.drive):
        then = then if asked.again else kept.joined(then, kept.modern_derivatives(bench, taken))
        # A row that is newer than its drive's derivatives counts without leverage.
        bench = bench_of(then["drives"], then["derivatives"])
        taken = kept.kept_derivatives(bench, then, whole_runs(bench))
    problem, chosen = kept.problem_of(bench, taken)
    known = posterior(problem)
    real = [] if modern else refits(bench, taken, problem, chosen, known, count=asked.refits)
    document = kept.document_of(bench, taken, problem, chosen, known, real, modern=modern)
    if asked.drive and not modern:
        rows = score.scored(kept.validation_of(bench, taken.full))
        print(*real, sep="\n")
        for row in rows:
            print(row.row.published.id, document["rows"].get(row.row.published.id))
        return
    write(document, modern=modern)
    every = bench_of([])
    judged = record(kept.validation_of(every, whole_runs(every)))
    print(table.headline("all", judged["unscored"]["summary"] if modern else judged["summary"]))


if __name__ == "__main__":
    try:
        main()
    except DrivebayError as problem:
        print(f"error: {problem.message}\nhint: {problem.hint}", file=sys.stderr)
        raise SystemExit(3) from None
