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
    "second": "whole second of the phase, from 0; of telemetry, from its start, negative before",
    "reads": "reads that were completed in this second",
    "writes": "writes that were completed in this second",
    "read_bytes": "bytes read in this second",
    "write_bytes": "bytes written in this second",
    "latency_ns_mean": "mean latency of the I/Os completed in this second, in ns",
    "latency_ns_max": "longest latency of the I/Os completed in this second, in ns",
    "temperature_c": "the drive's temperature by its sensor, in °C; empty if not reported",
    "power_w": "the drive's mean power in this second, in W; empty if not measured",
    "throttle_stage": "0: not throttled; else the active stage; empty if not reported",
    "direction": "`read` or `write`",
    "low_ns": "the bin's lowest latency in ns",
    "high_ns": "the bin's highest latency in ns",
    "count": "I/Os in the bin",
    "name": "the quantity that was read, with its unit last",
    "value": "the reading's value, in the unit that its name ends with",
    "stage": "stage of the drive that the time was spent in",
    "ns": "time of all I/Os of this second in that stage, in ns",
}

TABLES = {
    "series.parquet": (records.SERIES_SCHEMA, "each second of each phase"),
    "histogram.parquet": (
        records.HISTOGRAM_SCHEMA,
        "latencies of each phase, in bins; merge these, never percentiles",
    ),
    "stages.parquet": (records.STAGES_SCHEMA, "latency by stage; virtual drives only"),
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
A suite is a TOML file with these fields; [Suites](../concepts/suites.md) explains them in use and
[Add a suite](../guides/add-a-suite.md) begins one. The same as
[JSON Schema](suite.schema.json), for the expanded form.

{shorthand}"""
    return page("Suites", introduction, describe(Suite))


def _result() -> str:
    introduction = """
A result is a folder. It is written step by step, each step whole or not at all, and never changed
after; reports are made from it alone, at any later time, on any machine.

| file | what it holds |
| --- | --- |
| `manifest.json` | the suite, target and seed, the drivebay that ran it, the state of each test |
| `log.jsonl` | times of start, resume and end of each step: the only file with times of day |
| `steps/TEST/step.json` | counts, durations and metrics of each phase of a test |
| `steps/TEST/*.parquet` | the tables below |
| `steps/TEST/raw/` | of real drives: fio's job and output, SMART before and after, the purge |
| `report.html` | made from the other files; `drivebay report DIR` makes it again |

The manifest has the SHA-256 of every file of a finished step. A manifest of another schema is
refused, with a hint. Two reviews of a virtual drive with the same seed have the same bytes in
all but `log.jsonl`.

The manifest as [JSON Schema](manifest.schema.json)."""
    body = "## Tables\n\n"
    for name, (schema, description) in TABLES.items():
        rows = [(code(field.name), str(field.type), _column(field)) for field in schema]
        rows.insert(0, (code("phase"), "string", COLUMNS["phase"]))
        body += f"### {code(name)}\n\n{description[0].upper()}{description[1:]}.\n\n"
        body += table(("Column", "Type", "What it is"), rows)
    phase = inspect.cleandoc(records.PhaseResult.__doc__ or "").split("\n\n", 1)[1]
    body += f"## A phase's figures\n\nIn `step.json`, one for each phase.\n\n{plain(phase)}\n\n"
    body += "## The manifest\n\n" + describe(Manifest, level=3)
    return page("Results", introduction, body)


def _column(field: Any) -> str:
    # Description of a column; a missing one fails the build, instead of leaving an empty cell.
    return COLUMNS[field.name]
