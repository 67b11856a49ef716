"""Fits the catalog's SM951 family to published figures, and compares the result with the catalog.

The plan below lists the values of drives/sm951-ahci-512.toml, each with the published rows that
were in view when it was set; `drivebay calibrate` does the fit. Each stage begins from the middle
of its ranges, not from the catalog's values, so that the result does not depend on them; values of
other stages are the catalog's. A catalog value agrees if it lies within two standard errors of the
fitted one: rows that say "about" are worth 5 %, exact ones 2.5 % (half of their bounds).

    .venv/bin/python scripts/calibrate_catalog.py --list
    .venv/bin/python scripts/calibrate_catalog.py reads flash      some stages
    .venv/bin/python scripts/calibrate_catalog.py                  all of them

Leaves out: values that were set to the Storage Bench's synthesized traces (collection in idle time,
suspension) and the shape of steady state at 25 % spare, which take hours to search; and values that
come from data sheets, not tests.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivebay.common.errors import DrivebayError
from drivebay.definitions import profiles as catalog
from drivebay.lab import fit as calibrate
from drivebay.lab.fit import outcome as calibration
from drivebay.lab.fit import select_parameters

FAMILY = "sm951-ahci-512"
AGREES_SD = 2.0


@dataclass(frozen=True)
class Stage:
    """Parameters, as for `--fit`, and the published rows that they are fitted to."""

    name: str
    parameters: tuple[str, ...]
    rows: tuple[str, ...]
    why: str


PLAN = (
    Stage(
        "paths",
        ("controller.read_path_mb_per_s", "controller.write_path_mb_per_s"),
        ("S099", "S128"),
        "cold sequential transfers at queue depth 32: 2,250 MB/s read, 1,550 MB/s written",
    ),
    Stage(
        "host",
        ("host.ahci.serial_us", "controller.host_core_us"),
        ("S148", "S149"),
        "fresh 4 KiB reads: 181,000 IOPS over AHCI, 324,000 over NVMe",
    ),
    Stage(
        "reads",
        ("nand.read_us", "nand.channel_mb_per_s", "controller.read_command_us"),
        ("S085", "S099", "S087"),
        "108 MB/s mean of queue depths 1, 2, 4 on a full drive; over 150,000 IOPS at 32",
    ),
    Stage(
        "flash",
        ("nand.program_us=700..1000",),
        ("S002", "S010", "S118", "S123"),
        "sequential writes of the models that their dies limit: 600 to 650, 1,200 to 1,260 MB/s",
    ),
    Stage(
        "energy",
        ("energy.active_mw", "energy.program_4k_uj", "energy.link_4k_uj"),
        ("S023",),
        "6.5 W active; the maker's MB/s per watt are no figures of a test here",
    ),
    Stage(
        "heat",
        ("thermal.network.module_j_per_k", "thermal.throttle.1.write_mb_per_s"),
        ("S111", "S184", "S186"),
        "75 MB/s after just under two minutes and about 180 GB",
    ),
    Stage(
        "burst",
        ("controller.write_command_us", "gc.threshold_mb"),
        ("S058", "S059"),
        "about 100,000 IOPS for about 12 s",
    ),
    Stage(
        "steady",
        ("gc.copy_page_us",),
        ("S183",),
        "10,873 IOPS in steady state with a heatsink",
    ),
)


def run(stage: Stage, *, jobs: int | None, out: Path | None) -> dict[str, Any]:
    """Fits one stage; returns its parameters with the catalog's values, its rows, and the
    findings.
    """
    calibrated = calibrate.fit(
        list(stage.rows),
        base=FAMILY,
        parameters=stage.parameters,
        from_middle=True,
        jobs=jobs,
        out=out,
        resume=out is not None and out.with_name(f"{out.stem}.journal.jsonl").exists(),
    )
    document = calibration.as_json(calibrated)
    at = {
        parameter.name: parameter.start
        for parameter in select_parameters(catalog.load(FAMILY), stage.parameters)
    }
    for row, estimate in zip(document["parameters"], calibrated.parameters, strict=True):
        row["catalog"] = at[estimate.name]
        row["agrees"] = (
            estimate.sd is not None
            and abs(estimate.value - at[estimate.name]) <= AGREES_SD * estimate.sd
        )
    return {"stage": stage.name, "why": stage.why, **document}


def markdown(stages: Sequence[dict[str, Any]]) -> str:
    """Formats the table of docs/concepts/calibration.md."""
    lines = [
        "| stage | parameter | range | catalog | fitted | ± | left open | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for stage in stages:
        for row in stage["parameters"]:
            low, high = row["low"], row["high"]
            sd = "" if row["sd"] is None else f"{row['sd']:.2g}"
            left = "all" if row["open_share"] is None else f"{100 * row['open_share']:.0f} %"
            lines.append(
                f"| {stage['stage']} | `{row['name']}` | {low:g} to {high:g} | "
                f"{row['catalog']:.5g} | {row['value']:.5g} | {sd} | {left} | "
                f"{'' if row['agrees'] else '**elsewhere**'} |"
            )
    lines += [
        "",
        "| stage | row | figure | published | fitted | error |",
        "|---|---|---|---|---|---|",
    ]
    for stage in stages:
        for row in stage["figures"]:
            lines.append(
                f"| {stage['stage']} | {row['name']} | {row['label']} | {row['observed']:g} "
                f"{row['unit']} | {_number(row['after'])} | {_number(row['error_percent'])} % |"
            )
    lines += [""]
    for stage in stages:
        lines += [
            f"- {stage['stage']}: {sentence}" for sentence in stage["identifiability"]["sentences"]
        ]
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def main() -> None:
    """Runs the stages and prints their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [stage.name for stage in PLAN]
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(names)}")
    parser.add_argument("--list", action="store_true", help="only print the plan")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument(
        "--journals", type=Path, help="a folder for journals; a repeated run continues from there"
    )
    args = parser.parse_args()
    if unknown := sorted(set(args.stages) - set(names)):
        parser.error(f"no stage {unknown[0]}; there are {', '.join(names)}")
    wanted = [stage for stage in PLAN if not args.stages or stage.name in args.stages]
    if args.list:
        for stage in wanted:
            print(f"{stage.name}: {', '.join(stage.parameters)} from {', '.join(stage.rows)}")
            print(f"    {stage.why}")
        return
    results = []
    for stage in wanted:
        sys.stderr.write(f"{stage.name}: {stage.why}\n")
        out = None if args.journals is None else args.journals / f"{stage.name}.toml"
        results.append(run(stage, jobs=args.jobs, out=out))
        if args.json is not None:
            args.json.write_text(json.dumps(results, indent=1) + "\n")
    print(markdown(results), end="")


if __name__ == "__main__":
    try:
        main()
    except DrivebayError as problem:
        sys.exit(f"error: {problem.message}\nhint: {problem.hint}")
