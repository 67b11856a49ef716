"""Reference pages of the forms of suites and results, and their JSON Schemas."""

from __future__ import annotations

import inspect
from typing import Any

from docgen.markdown import code, page, plain, table
from docgen.models import describe, schema_text
from drivebay.definitions.suites import Suite
from drivebay.results import records
from drivebay.results.manifest import Manifest

# Descriptions of columns; their units follow from their names.
COLUMNS = {
    "phase": "label of the phase, as in the manifest",
    "second": "whole second of the phase, from 0; in telemetry from its start, negative before it",
    "reads": "reads completed in this second",
    "writes": "writes completed in this second",
    "read_bytes": "bytes read in this second",
    "write_bytes": "bytes written in this second",
    "latency_ns_mean": "mean latency of the I/Os completed in this second, in ns",
    "latency_ns_max": "longest latency of the I/Os completed in this second, in ns",
    "temperature_c": "temperature by the drive's sensor, in °C; empty if unknown",
    "power_w": "mean power of the drive in this second, in W; empty if not measured",
    "throttle_stage": "0: not throttled; else the active stage; empty if unknown",
    "direction": "`read` or `write`",
    "low_ns": "the bin's lowest latency in ns",
    "high_ns": "the bin's highest latency in ns",
    "count": "I/Os in the bin",
    "name": "name of the reading, ending with its unit",
    "value": "value of the reading, in the unit at the end of its name",
    "stage": "stage of the drive in which the time was spent",
    "ns": "time that all I/Os of this second spent in that stage, in ns",
}

TABLES = {
    "series.parquet": (records.SERIES_SCHEMA, "each second of each phase"),
    "histogram.parquet": (
        records.HISTOGRAM_SCHEMA,
        "latencies of each phase, in bins; merge bins, never percentiles",
    ),
    "stages.parquet": (records.STAGES_SCHEMA, "time by stage; virtual drives only"),
    "telemetry.parquet": (records.TELEMETRY_SCHEMA, "sensors of drive and host; real drives only"),
}


def pages() -> dict[str, str]:
    """Pages and schemas by their paths in docs/."""
    return {
        "reference/suite.md": _suite(),
        "reference/result.md": _result(),
        "reference/suite.schema.json": schema_text(Suite),
        "reference/manifest.schema.json": schema_text(Manifest),
    }


def _suite() -> str:
    from drivebay.definitions.suites import loader

    shorthand = inspect.cleandoc(loader.__doc__ or "").split("\n\n", 1)[1]
    introduction = f"""
This page is for authors of suites. A suite is a TOML file with the fields below;
[Suites](../concepts/suites.md) explains their use, and [Add a suite](../guides/add-a-suite.md) has
a first example. The [JSON Schema](suite.schema.json) describes the form without abbreviations. A
file may abbreviate:

{shorthand}"""
    return page("Suites", introduction, describe(Suite))


def _result() -> str:
    introduction = """
This page is for programs that read results. A result is a folder. drivebay writes it step by step,
each step completely or not at all, and never changes a finished step. A report needs only this
folder, so it can be made at any later time and on any machine.

| file | content |
| --- | --- |
| `manifest.json` | suite, target, options, version of drivebay, and the state of every step |
| `log.jsonl` | times of day of the start, of resumptions and of each step; no other file has any |
| `steps/TEST/step.json` | counts, durations and metrics of each phase of a test |
| `steps/TEST/*.parquet` | the tables below |
| `steps/TEST/raw/` | real drives only: fio's job and output, SMART before and after, the purge |
| `report.html` | the report; `drivebay report DIR` makes it again |

The manifest has the SHA-256 of every file of a finished step. drivebay refuses a manifest of
another schema, with a hint. Two reviews of a virtual drive with the same seed differ only in
`log.jsonl`.

The manifest also has a [JSON Schema](manifest.schema.json)."""
    body = "## Tables\n\n"
    for name, (schema, description) in TABLES.items():
        rows = [(code(field.name), str(field.type), _column(field)) for field in schema]
        rows.insert(0, (code("phase"), "string", COLUMNS["phase"]))
        body += f"### {code(name)}\n\n{description[0].upper()}{description[1:]}.\n\n"
        body += table(("Column", "Type", "Meaning"), rows)
    phase = inspect.cleandoc(records.PhaseResult.__doc__ or "").split("\n\n", 1)[1]
    body += (
        f"## Figures of a phase\n\n`step.json` has one entry for each phase.\n\n{plain(phase)}\n\n"
    )
    body += "## The manifest\n\n" + describe(Manifest, level=3)
    return page("Results", introduction, body)


def _column(field: Any) -> str:
    # Description of a column; a missing one fails the build, instead of leaving an empty cell.
    return COLUMNS[field.name]
