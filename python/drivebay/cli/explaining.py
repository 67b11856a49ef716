"""The command `explain`: where the time of a test went, as text, JSON or a page."""

from __future__ import annotations

import difflib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drivebay import results
from drivebay.analysis import explain as explaining
from drivebay.analysis.explain import Explained
from drivebay.analysis.measure import measure
from drivebay.analysis.stages import meaning, ordered
from drivebay.cli import show
from drivebay.common.errors import UserError


def explain(
    folder: Path, test: str, *, against: Path | None, as_json: bool, out: Path | None
) -> None:
    """Prints the stages of a test of one drive, or of two and the gap between them; with `out`
    writes them as a page, and prints its path.

    Raises
    ------
    UserError
        If there is no such result or test, it has not been run, or the drive cannot be seen into.
    """
    first = _explained(folder, test)
    second = None if against is None else _explained(against, test)
    names = _names(folder, against)
    if out is not None:
        if as_json:
            raise UserError("--out and --json were both given", "leave one of them out")
        from drivebay import report  # Plotly takes a while to load

        dirs = [folder] if against is None else [folder, against]
        print(report.write_explained(dirs, test, out))
        return
    if as_json:
        print(json.dumps(_json(first, second, names), indent=1))
        return
    lines = list(first.sentences)
    if second is None:
        _table(first)
    else:
        _side_by_side(first, second, names)
        lines = list(explaining.compared(first, second, a_name=names[0], b_name=names[1]))
    print()
    for line in lines:
        print(line)


def _explained(folder: Path, test: str) -> Explained:
    result = results.load(folder)
    known = [step.id for step in result.steps]
    if test not in known:
        close = difflib.get_close_matches(test, known, n=1)
        raise UserError(
            f"{folder} has no test '{test}'; it has {', '.join(known)}",
            f"drivebay explain {folder} {close[0] if close else known[0]}",
        )
    step = result.step(test)
    if not step.done:
        raise UserError(
            f"test {test} of {folder} has no figures: it is {step.state}",
            f"go on with: drivebay review --resume {folder}",
        )
    found = explaining.explain(measure(step.test, step.phases()))
    if not found.loads:
        raise UserError(
            f"{folder}: nobody can see into a real drive, so there is nothing to explain",
            "review a virtual drive, for example: drivebay review sm951-ahci-512",
        )
    return found


def _names(folder: Path, against: Path | None) -> tuple[str, str]:
    """What tells the two apart: their titles, else their folders."""
    if against is None:
        return (folder.name, "")
    pair = [results.read_manifest(one).target for one in (folder, against)]
    titles = [str(target.get("title") or target["name"]) for target in pair]
    if titles[0] == titles[1]:
        return (folder.resolve().name, against.resolve().name)
    return (titles[0], titles[1])


def _table(found: Explained) -> None:
    """One row per load, one column per stage: microseconds per I/O and share."""
    names = ordered({one.stage for load in found.loads for one in load.stages})
    rows = []
    for load in found.loads:
        shares = {one.stage: one for one in load.stages}
        cells = [
            f"{shares[n].mean_us:,.4g}  {shares[n].share_percent:3.0f} %" if n in shares else ""
            for n in names
        ]
        rows.append((load.label, f"{load.latency_us:,.4g}", *cells))
    headers = ("load", "µs per I/O", *names)
    show.table(headers, rows, right=tuple(range(1, len(headers))))
    print()
    print("; ".join(f"{name}: {meaning(name)}" for name in names))


def _side_by_side(a: Explained, b: Explained, names: tuple[str, str]) -> None:
    """One row per load and stage: both drives, and the stage's part of the gap."""
    others = {load.label: load for load in b.loads}
    rows: list[tuple[str, ...]] = []
    for load, gap in zip(
        [one for one in a.loads if one.label in others], explaining.gaps(a, b), strict=True
    ):
        other = others[load.label]
        whole = (load.label, "all", f"{gap.a_us:,.4g}", f"{gap.b_us:,.4g}", _gap(gap.us))
        rows.append(whole)
        stages = ordered({one.stage for both in (load, other) for one in both.stages})
        rows += [
            (
                "",
                stage,
                f"{load.mean_us(stage):,.4g}",
                f"{other.mean_us(stage):,.4g}",
                _gap(other.mean_us(stage) - load.mean_us(stage)),
            )
            for stage in stages
        ]
    show.table(
        ("load", "stage", f"{names[0]}, µs", f"{names[1]}, µs", "gap, µs"), rows, right=(2, 3, 4)
    )


def _gap(us: float) -> str:
    """A difference to a hundredth of a microsecond; nothing is nothing, not 5.6e-06.

    >>> _gap(-3.2), _gap(1e-6)
    ('-3.20', '0')
    """
    return f"{us:+,.2f}" if abs(us) >= 0.005 else "0"


def _json(first: Explained, second: Explained | None, names: tuple[str, str]) -> dict[str, Any]:
    def one(found: Explained, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "loads": [
                {
                    "label": load.label,
                    "queue_depth": load.queue_depth,
                    "ios": load.ios,
                    "latency_us": load.latency_us,
                    "stages": [asdict(stage) for stage in load.stages],
                    "over_time": None
                    if load.over_time is None
                    else {
                        "second": load.over_time.second.tolist(),
                        "mean_us": {
                            stage: [None if v != v else v for v in values.tolist()]
                            for stage, values in load.over_time.mean_us.items()
                        },
                    },
                }
                for load in found.loads
            ],
            "sentences": list(found.sentences),
        }

    table: dict[str, Any] = {"test": first.test_id, "drives": [one(first, names[0])]}
    if second is not None:
        table["drives"].append(one(second, names[1]))
        table["gaps"] = [asdict(gap) | {"us": gap.us} for gap in explaining.gaps(first, second)]
        table["sentences"] = list(
            explaining.compared(first, second, a_name=names[0], b_name=names[1])
        )
    return table
