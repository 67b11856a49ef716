"""Computes leverage, leave-one-out errors, intervals and sensitivities anew: `make fidelity`.

    python scripts/fidelity.py [--modern [--again]] [--refits 20] [--drive NAME]
                               [--runs | --unchanged | --pages]

Writes fidelity.json.xz and validation-run.json.xz in published/computed/ and the generated parts of
docs/fidelity.md; the site's pages of rows and sensitivities are made of them. Every evaluation is
kept in target/fidelity/ as soon as it is done: a killed run goes on when it is started again with
the same model, and what is kept of a drive is used again as long as its profile, its tests and its
rows are the same. `--drive` limits it to the rows about a drive, to try it out: it then writes
nothing. `--runs` only runs the rows anew, some minutes: leverage, errors without the row and
intervals stay those kept. `--modern` is of today's drives instead, which published/validation.toml
lists as unscored and no score has: leverage and errors without the row, in fidelity-modern.json.xz.
There `--drive` takes the derivatives of that drive alone, beside those that are kept of others.
`--again`, after a fit has moved some values: runs the rows, some minutes, and computes the rest
from the derivatives that are kept, those of the values before. Rows of drives without any count as
they are. `--unchanged` is for a change of the model's code that moves no figure: it runs the rows
and, if each reproduces what is kept to the last digit, keeps all the rest with the new fingerprint,
the evaluations too; shipped results of the model before are then none of an older model. `--pages`
only writes docs/fidelity.md. A test asserts that it is that of the kept results."""

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

from docgen.fidelity import written

from drivebay.analysis import fidelity
from drivebay.common.errors import DrivebayError
from drivebay.lab.fit import kept
from drivebay.lab.fit.linear import posterior
from drivebay.lab.fit.refit import refits
from drivebay.lab.fit.sensitivity import Bench, derivatives, whole_runs
from drivebay.lab.validate import score, table
from drivebay.lab.validate.plan import load_plan

TOP = Path(__file__).resolve().parent.parent
PAGE = TOP / "docs" / "fidelity.md"


def write_page() -> None:
    """Writes the page from what is kept."""
    PAGE.write_text(written(PAGE.read_text(), fidelity.recorded(), fidelity.kept()))


def evaluations(model: str, *, modern: bool) -> Path:
    """The folder of a model's evaluations; each says which profiles and tests it is of. Those of
    today's drives have their own: what was shown of the others shows nothing of them."""
    return TOP / "target" / "fidelity" / model / ("modern" if modern else "scored")


def say(words: str, _began: float = time.monotonic()) -> None:
    """Progress, with the minutes so far."""
    print(f"{(time.monotonic() - _began) / 60:6.1f} min  {words}", file=sys.stderr, flush=True)


def prove_unchanged(validation: dict[str, Any], *, modern: bool) -> None:
    """Keeps the results for the present code, as each row reproduces the same figure as before.

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
            hint="run `make fidelity`: leverage, errors and intervals must be computed again",
        )
    now = fidelity.fingerprint(then.get("drives", ()))
    former = [*then.get("same_models", ()), then["fingerprint"]["model"]]
    models = [one for one in dict.fromkeys(former) if one != now["model"]]
    write({**then, "fingerprint": now, "same_models": models}, modern=modern)
    for model in models:
        before, after = (evaluations(one, modern=modern) for one in (model, now["model"]))
        if before.is_dir():
            shutil.copytree(before, after, dirs_exist_ok=True)


def write(document: dict[str, Any], *, modern: bool) -> None:
    """Keeps what was computed."""
    kept.write(fidelity.MODERN if modern else fidelity.FILE, document)
    for one in (fidelity.kept, fidelity.kept_modern, fidelity.derived_modern, fidelity.stale,
                fidelity.stale_modern):  # fmt: skip
        one.cache_clear()


def record(validation: dict[str, Any], *, modern: bool) -> None:
    """Keeps a run of the drives that are scored, or of today's, beside the others'."""
    run = table.replaced(fidelity.recorded(), validation, scored=not modern)
    kept.write(fidelity.RECORDED, run)
    write_page()


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
        parser.error("--again is of --modern")
    if asked.pages:
        write_page()
        return
    os.nice(5)
    modern = asked.modern
    plan = load_plan().only_scored(not modern)

    def bench_of(drives: list[str], rows: Container[str] | None = None) -> Bench:
        """Of these drives, or all, and of these rows, or all of them."""
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
            record(table.as_json(validation), modern=modern)
        return
    if not asked.again:
        found = derivatives(bench)
    if modern and (asked.again or asked.drive):
        then = then if asked.again else kept.joined(then, kept.modern_derivatives(bench, found))
        # A row that is newer than its drive's derivatives counts as it is.
        bench = bench_of(then["drives"], then["derivatives"])
        found = kept.kept_derivatives(bench, then, whole_runs(bench))
    problem, chosen = kept.problem_of(bench, found)
    known = posterior(problem)
    real = [] if modern else refits(bench, found, problem, chosen, known, count=asked.refits)
    document = kept.document_of(bench, found, problem, chosen, known, real, modern=modern)
    if asked.drive and not modern:
        rows = score.scored(kept.validation_of(bench, found.full))
        print(*real, sep="\n")
        for row in rows:
            print(row.row.published.id, document["rows"].get(row.row.published.id))
        return
    write(document, modern=modern)
    every = bench_of([])
    judged = table.as_json(kept.validation_of(every, whole_runs(every)))
    record(judged, modern=modern)
    print(table.headline("all", judged["unscored"]["summary"] if modern else judged["summary"]))


if __name__ == "__main__":
    try:
        main()
    except DrivebayError as problem:
        print(f"error: {problem.message}\nhint: {problem.hint}", file=sys.stderr)
        raise SystemExit(3) from None
