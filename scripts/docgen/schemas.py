"""Reference pages of a suite's and of a result's form, and their JSON Schemas."""

from __future__ import annotations

import inspect
from typing import Any

from docgen.markdown import code, page, plain, table
from docgen.models import describe, schema_text
from drivebay.definitions.suites import Suite
from drivebay.results import records
from drivebay.results.manifest import Manifest

# The columns' units follow from their names; this says what the names leave open.
COLUMNS = {
    "phase": "label of the phase, as in the manifest",
    "second": "whole second of the phase, from 0; of telemetry, from its start, negative before",
    "reads": "reads that were completed in this second",
    "writes": "writes that were completed in this second",
    "read_bytes": "bytes read in this second",
    "write_bytes": "bytes written in this second",
    "latency_ns_mean": "mean latency of what was completed in this second, in ns",
    "latency_ns_max": "longest latency of what was completed in this second, in ns",
    "temperature_c": "the drive's temperature by its sensor, in °C; empty if nothing says it",
    "power_w": "the drive's mean power in this second, in W; empty if nothing measures it",
    "throttle_stage": "0: not throttled; else the stage in force; empty if nothing says it",
    "direction": "`read` or `write`",
    "low_ns": "the bin's lowest latency in ns",
    "high_ns": "the bin's highest latency in ns",
    "count": "I/Os in the bin",
    "name": "the reading: what was read, with its unit last",
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
    "stages.parquet": (records.STAGES_SCHEMA, "where the time went; virtual drives only"),
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
[JSON Schema](suite.schema.json), of the form after what the file may abbreviate:

{shorthand}"""
    return page("Suites", introduction, describe(Suite))


def _result() -> str:
    introduction = """
A result is a folder. It is written step by step, each step whole or not at all, and never changed
after; reports are made from it alone, at any later time, on any machine.

| file | what it holds |
| --- | --- |
| `manifest.json` | what was asked for, of what, by which drivebay, how far it has come |
| `log.jsonl` | when it was begun, resumed, and each step ended: the only file with times of day |
| `steps/TEST/step.json` | counts, durations and metrics of each phase of a test |
| `steps/TEST/*.parquet` | the tables below |
| `steps/TEST/raw/` | of real drives: fio's job and output, SMART before and after, the purge |
| `report.html` | made from the rest, and made again by `drivebay report DIR` |

The manifest has the SHA-256 of every file of a finished step. A manifest of another schema is
refused, with what to do. Two reviews of a virtual drive with the same seed have the same bytes in
all but `log.jsonl`.

The manifest as [JSON Schema](manifest.schema.json)."""
    body = "## Tables\n\n"
    for name, (schema, words) in TABLES.items():
        rows = [(code(field.name), str(field.type), _column(field)) for field in schema]
        rows.insert(0, (code("phase"), "string", COLUMNS["phase"]))
        body += f"### {code(name)}\n\n{words[0].upper()}{words[1:]}.\n\n"
        body += table(("Column", "Type", "What it is"), rows)
    phase = inspect.cleandoc(records.PhaseResult.__doc__ or "").split("\n\n", 1)[1]
    body += f"## A phase's figures\n\nIn `step.json`, one for each phase.\n\n{plain(phase)}\n\n"
    body += "## The manifest\n\n" + describe(Manifest, level=3)
    return page("Results", introduction, body)


def _column(field: Any) -> str:
    # A column that nobody has described here fails the build, rather than an empty cell.
    return COLUMNS[field.name]
