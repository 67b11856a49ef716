"""Computes leverage, leave-one-out errors, intervals and sensitivities anew: `make fidelity`.

    python scripts/fidelity.py [--refits 20] [--drive NAME]
                               [--runs | --unscored | --unchanged | --pages]

Writes published/fidelity.json, published/validation-run.json and the generated parts of
docs/fidelity.md and docs/sensitivity.md. Every evaluation is kept in target/fidelity/ as soon as it
is done: a killed run goes on when it is started again with the same model, and what is kept of a
drive is used again as long as its profile, its tests and its rows are the same. `--drive` limits
it to the rows about a drive, to try it out: it then writes nothing. `--runs` only runs the rows
anew, some minutes: leverage, errors without the row and intervals stay those kept. Drives that
published/validation.toml leaves unscored are in none of this: `--unscored` runs their rows anew.
`--unchanged` is for a change of the model's code that moves no figure: it runs the rows and, if
each reproduces what is kept to the last digit, keeps all the rest with the new fingerprint; shipped
results of the model before are then none of an older model.
`--pages` only writes the pages. A test asserts that the pages are those of the kept results.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from drivebay.analysis import fidelity
from drivebay.common.errors import DrivebayError
from drivebay.lab.fidelity import kept, pages
from drivebay.lab.fidelity.derivatives import Bench, derivatives, whole_runs
from drivebay.lab.fidelity.posterior import posterior
from drivebay.lab.fidelity.refit import refits
from drivebay.lab.validate import load_plan, score, table

TOP = Path(__file__).resolve().parent.parent
PAGE = TOP / "docs" / "fidelity.md"
SENSITIVITY = TOP / "docs" / "sensitivity.md"
RECORDED = TOP / "published" / "validation-run.json"
KEPT = TOP / "published" / fidelity.FILE


def written(page: str, name: str, recorded: str, found: str) -> str:
    """The page `name` ("fidelity" or "sensitivity") with its generated parts."""
    validation, document = json.loads(recorded), json.loads(found)
    parts = {
        "fidelity": [
            ("score", pages.score(validation, document)),
            ("unscored", pages.unscored(validation)),
            ("table", pages.rows(validation)),
        ],
        "sensitivity": [("table", pages.sensitivity(validation, document))],
    }
    return pages.replaced(page, parts[name])


def write_pages() -> None:
    """Writes both pages from what is kept."""
    for path in (PAGE, SENSITIVITY):
        path.write_text(
            written(path.read_text(), path.stem, RECORDED.read_text(), json.dumps(fidelity.kept()))
        )


def evaluations() -> Path:
    """The folder of this model's evaluations; each says which profiles and tests it is of."""
    return TOP / "target" / "fidelity" / fidelity.model_fingerprint()


def say(words: str, _began: float = time.monotonic()) -> None:
    """Progress, with the minutes so far."""
    print(f"{(time.monotonic() - _began) / 60:6.1f} min  {words}", file=sys.stderr, flush=True)


def prove_unchanged(validation: dict[str, Any]) -> None:
    """Keeps the results for the present code, as each row reproduces the same figure as before.

    Raises
    ------
    DrivebayError : a row reproduces another figure.
    """
    before = [row for row in json.loads(RECORDED.read_text())["rows"] if row["scored"]]
    figures = [
        {row["id"]: (row["reproduced"], row["ok"]) for row in rows}
        for rows in (before, validation["rows"])
    ]
    moved = sorted(name for name in figures[0] | figures[1]
                   if figures[0].get(name) != figures[1].get(name))  # fmt: skip
    if moved:
        raise DrivebayError(
            f"{len(moved)} rows reproduce other figures than before: {', '.join(moved[:8])}",
            hint="run `make fidelity`: leverage, errors and intervals must be computed again",
        )
    then, now = fidelity.kept(), fidelity.fingerprint()
    former = [*then.get("same_models", ()), then["fingerprint"]["model"]]
    models = [one for one in dict.fromkeys(former) if one != now["model"]]
    kept.write(KEPT, {**then, "fingerprint": now, "same_models": models})


def record(validation: dict[str, Any], *, scored: bool) -> None:
    """Keeps a run of the drives that are scored, or of those that are not, beside the others'."""
    kept.write(
        RECORDED, table.replaced(json.loads(RECORDED.read_text()), validation, scored=scored)
    )


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--refits", type=int, default=20)
    parser.add_argument("--drive", action="append", default=[])
    mode = parser.add_mutually_exclusive_group()
    for name in ("--runs", "--unscored", "--unchanged", "--pages"):
        mode.add_argument(name, action="store_true")
    asked = parser.parse_args()
    if asked.pages:
        write_pages()
        return
    os.nice(5)
    fingerprint = fidelity.fingerprint()
    plan = load_plan().only_scored(not asked.unscored).of_drives(asked.drive)
    bench = Bench(plan, evaluations(), say)
    if asked.runs or asked.unchanged or asked.unscored:
        validation = kept.validation_of(bench, whole_runs(bench))
        if asked.unchanged:
            prove_unchanged(table.as_json(validation))
            return
        record(table.as_json(validation), scored=not asked.unscored)
        write_pages()
        return
    found = derivatives(bench)
    problem, chosen = kept.problem_of(bench, found)
    known = posterior(problem)
    real = refits(bench, found, problem, chosen, known, count=asked.refits)
    document = kept.document_of(bench, found, problem, chosen, known, real, fingerprint)
    validation = kept.validation_of(bench, found.full)
    if asked.drive:
        rows = score.scored(validation)
        print(json.dumps(real, indent=1))
        for row in rows:
            print(row.row.published.id, document["rows"].get(row.row.published.id))
        return
    kept.write(KEPT, document)
    fidelity.kept.cache_clear()
    fidelity.stale.cache_clear()
    record(table.as_json(validation), scored=True)
    write_pages()
    print(table.headline("all", table.as_json(validation)["summary"]))


if __name__ == "__main__":
    try:
        main()
    except DrivebayError as problem:
        print(f"error: {problem.message}\nhint: {problem.hint}", file=sys.stderr)
        raise SystemExit(3) from None
