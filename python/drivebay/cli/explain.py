"""`drivebay explain`: shows where the time of a test went, as text or JSON."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivebay.cli import complete, options
from drivebay.cli.options import argument, option
from drivebay.cli.output import print_json, table
from drivebay.common.documents import printable
from drivebay.common.errors import UserError

if TYPE_CHECKING:
    from drivebay.analysis.explain import Explained
    from drivebay.results import Result


def explain(
    folder: Path = argument(),
    test: str = argument(autocompletion=complete.tests_of_result),
    against: Path | None = option(),
    as_json: options.Json = False,
) -> None:
    """Explain the latency of a virtual drive's test, stage by stage.

    A real drive has no visible stages. The report shows the same data as charts under each test; a
    report of two drives shows the gap between them.

    Examples:
      drivebay explain drivebay-results/NAME random-read
      drivebay explain DIR random-read --against OTHER_DIR
      drivebay report DIR OTHER_DIR --out both.html     as charts
      drivebay explain DIR thermal-write --json

    Parameters
    ----------
    folder : DIR
        Result folder of a review.
    test : TEST
        A test of the result, for example random-read.
    against : DIR
        Another result to compare with.
    """
    from drivebay import results
    from drivebay.analysis import explain as explaining
    from drivebay.cli import folders

    loaded = [results.load(path) for path in (folder, against) if path is not None]
    explained = [_explained(result, test) for result in loaded]
    names = [folder.name] if against is None else folders.names(loaded)
    drives = [_as_dict(entry, name) for entry, name in zip(explained, names, strict=True)]
    document: dict[str, Any] = {"test": test, "drives": drives}
    sentences = explained[0].sentences
    if against is not None:
        sentences = explaining.compared(*explained, a_name=names[0], b_name=names[1])
        gaps = [asdict(gap) | {"us": gap.us} for gap in explaining.gaps(*explained)]
        document |= {"gaps": gaps, "sentences": list(sentences)}
    if as_json:
        print_json(document)
        return
    if against is None:
        _table(explained[0])
    else:
        _side_by_side(explained, names)
    print("", *map(_wrapped, sentences), sep="\n")


LOADS_ON_A_LINE = 4
# Width of the text in characters, also in a pipe.
WIDTH = 80


def _explained(result: Result, test: str) -> Explained:
    """Returns the test's stages; raises UserError if it has none."""
    from drivebay.analysis import explain as explaining
    from drivebay.analysis.measure import measure

    folder, known = result.folder, [step.id for step in result.steps]
    if test not in known:
        close = difflib.get_close_matches(test, known, n=1) or known
        raise UserError(
            f"{folder} has no test '{test}'; it has {', '.join(known)}",
            f"drivebay explain {folder} {close[0]}",
        )
    step = result.step(test)
    if not step.done:
        raise UserError(
            f"test {test} of {folder} has no figures: it is {step.state}",
            f"go on with: drivebay review --resume {folder}",
        )
    explained = explaining.explain(measure(step.test, step.phases()))
    if not explained.loads:
        raise UserError(
            f"{folder}: a real drive's latency cannot be split into stages",
            "review a virtual drive, for example: drivebay review sm951-ahci-512",
        )
    return explained


def _table(explained: Explained) -> None:
    """Prints one row per stage and two columns per load, microseconds per I/O and share, in as many
    tables as needed."""
    from drivebay.analysis.stages import meaning, ordered

    names = ordered({stage.stage for load in explained.loads for stage in load.stages})
    for first in range(0, len(explained.loads), LOADS_ON_A_LINE):
        loads = explained.loads[first : first + LOADS_ON_A_LINE]
        headers = ["µs per I/O", *(part for load in loads for part in (load.label, ""))]
        rows = [["all", *(part for load in loads for part in (_us(load.latency_us), ""))]]
        for name in names:
            shares = [next((s for s in load.stages if s.stage == name), None) for load in loads]
            cells = [
                (_us(s.mean_us), f"{s.share_percent:.0f} %") if s else ("", "") for s in shares
            ]
            rows.append([name, *(part for cell in cells for part in cell)])
        table(headers, rows, right=tuple(range(1, len(headers))))
        print()
    print(_wrapped("; ".join(f"{name}: {meaning(name)}" for name in names)))
    _busy(explained)


def _us(microseconds: float) -> str:
    """Formats three digits, or all digits before the point.

    >>> _us(10880.4), _us(2.2354)
    ('10,880', '2.24')
    """
    return f"{microseconds:,.0f}" if microseconds >= 100 else f"{microseconds:.3g}"


def _wrapped(text: str) -> str:
    return textwrap.fill(printable(text), WIDTH)


def _busy(explained: Explained) -> None:
    """Prints the share of time in which each part of the drive was busy, per load."""
    parts = list(dict.fromkeys(part for load in explained.loads for part in load.busy_percent))
    if not parts:
        return
    print()
    rows = [
        (load.label, *(f"{load.busy_percent.get(part, 0.0):.0f} %" for part in parts))
        for load in explained.loads
    ]
    table(("busy", *parts), rows, right=tuple(range(1, len(parts) + 1)))


def _side_by_side(explained: Sequence[Explained], names: Sequence[str]) -> None:
    """Prints one row per load and stage: both drives, and the stage's part of the gap."""
    from drivebay.analysis import explain as explaining
    from drivebay.analysis.stages import ordered

    a, b = explained
    others = {load.label: load for load in b.loads}
    rows: list[tuple[str, ...]] = []
    shared = [load for load in a.loads if load.label in others]
    for load, gap in zip(shared, explaining.gaps(a, b), strict=True):
        other = others[load.label]
        rows.append((load.label, "all", f"{gap.a_us:,.4g}", f"{gap.b_us:,.4g}", _gap(gap.us)))
        for stage in ordered({entry.stage for which in (load, other) for entry in which.stages}):
            own, theirs = load.mean_us(stage), other.mean_us(stage)
            rows.append(("", stage, f"{own:,.4g}", f"{theirs:,.4g}", _gap(theirs - own)))
    table(("load", "stage", f"{names[0]}, µs", f"{names[1]}, µs", "gap, µs"), rows, right=(2, 3, 4))


def _gap(us: float) -> str:
    """Formats a difference in hundredths of a microsecond; smaller ones are 0.

    >>> _gap(-3.2), _gap(1e-6)
    ('-3.20', '0')
    """
    return f"{us:+,.2f}" if abs(us) >= 0.005 else "0"


def _as_dict(explained: Explained, name: str) -> dict[str, Any]:
    loads = []
    for load in explained.loads:
        entry = {key: getattr(load, key) for key in ("label", "queue_depth", "ios", "latency_us")}
        entry["stages"] = [asdict(stage) for stage in load.stages]
        entry["busy_percent"] = dict(load.busy_percent)
        entry["over_time"] = None
        if (over_time := load.over_time) is not None:
            means = {stage: values.tolist() for stage, values in over_time.mean_us.items()}
            entry["over_time"] = {"second": over_time.second.tolist(), "mean_us": means}
        loads.append(entry)
    return {"name": name, "loads": loads, "sentences": list(explained.sentences)}
