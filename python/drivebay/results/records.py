"""Measurements of one phase, as a target returns them and a result folder stores them.

Every table of a result has its schema here, once; in the Parquet files a column `phase` with the
phase's label comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from drivebay.definitions.suites import Workload
from drivebay.results.inside import Inside
from drivebay.results.schemas import schema_of

TOTALS = ("reads", "writes", "read_bytes", "write_bytes")
SENSORS = ("temperature_c", "power_w", "throttle_stage")
SERIES_SCHEMA = pa.schema(
    [
        ("second", pa.int32()),
        *((name, pa.int64()) for name in TOTALS),
        ("latency_ns_mean", pa.float64()),
        ("latency_ns_max", pa.int64()),
        *zip(SENSORS, (pa.float64(), pa.float64(), pa.int32()), strict=True),
    ]
)
HISTOGRAM_SCHEMA = schema_of("direction low_ns:int64 high_ns:int64 count:int64")
TELEMETRY_SCHEMA = schema_of("second:float64 name value:float64")
STAGES_SCHEMA = schema_of("second:int32 stage ns:int64")
# Schemas by file name in a result without ".parquet", which is also the name of `PhaseResult`'s
# attribute.
SCHEMAS = {
    "series": SERIES_SCHEMA,
    "histogram": HISTOGRAM_SCHEMA,
    "stages": STAGES_SCHEMA,
    "telemetry": TELEMETRY_SCHEMA,
}


def labelled(schema: pa.Schema) -> pa.Schema:
    """Schema of a table as it is stored in its file."""
    return pa.schema([pa.field("phase", pa.string()), *schema])


def one_second_series(**columns: Any) -> pa.Table:
    """Makes a phase's series from its columns, one value per second. Latency is unknown in
    seconds without completions; sensors that are not given are unknown throughout.
    """
    rows = len(columns["reads"])
    idle = columns["reads"] + columns["writes"] == 0
    columns["latency_ns_mean"] = pa.array(columns["latency_ns_mean"], pa.float64(), mask=idle)
    unknown = idle | (columns["latency_ns_max"] == 0)
    columns["latency_ns_max"] = pa.array(columns["latency_ns_max"], pa.int64(), mask=unknown)
    absent = dict.fromkeys(SENSORS, [None] * rows)
    return pa.table({"second": range(rows), **absent, **columns}, schema=SERIES_SCHEMA)


def core_histogram(**directions: Any) -> pa.Table:
    """Makes the table of the core's histograms (`_core.Histogram`), by direction."""
    tables = []
    for direction, bins in directions.items():
        columns = {name: getattr(bins, name).astype("int64") for name in HISTOGRAM_SCHEMA.names[1:]}
        columns["direction"] = [direction] * len(bins.count)
        tables.append(pa.table(columns, schema=HISTOGRAM_SCHEMA))
    return pa.concat_tables(tables)


def flushed(count: int, latency_ns_sum: float) -> dict[str, float]:
    """Metrics of a phase's flushes; `count` must be at least 1."""
    return {"flushes": float(count), "flush_latency_us_mean": latency_ns_sum / count / 1e3}


def from_rows(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Makes a table from rows in the order of the schema's columns."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def histogram(rows: Iterable[tuple[str, int, int, int]]) -> pa.Table:
    """Makes the table from rows of (direction, low_ns, high_ns, count)."""
    return from_rows(rows, HISTOGRAM_SCHEMA)


@dataclass(frozen=True)
class PhaseResult:
    """Measurements of one phase.

    `series`, `histogram` and `stages` follow the schemas above; `stages` is None if the target
    cannot see inside (real drives). `metrics` holds values that only this target knows, for example
    `{"waf": 7.4}`; `artefacts` maps file names to bytes that are stored with the result.
    `telemetry` has the readings of sensors of the drive and the host, at seconds from the phase's
    start (negative before it), None if there are none. `inside` has the internal events of a
    virtual drive that was asked to record them. `conditions`, of a test's first phase, are the
    conditions under which the whole test ran; JSON values.
    """

    label: str
    workload: Workload
    duration_s: float
    reads: int
    writes: int
    read_bytes: int
    write_bytes: int
    series: pa.Table
    histogram: pa.Table
    stages: pa.Table | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    artefacts: dict[str, bytes] = field(default_factory=dict)
    telemetry: pa.Table | None = None
    inside: Inside | None = None
    conditions: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def counted(
        cls, label: str, workload: Workload, duration_s: float, *, series: pa.Table, **more: Any
    ) -> PhaseResult:
        """Makes a phase whose totals are the sums of its series; `more` are the other
        attributes.
        """
        more |= {name: int(pc.sum(series[name]).as_py() or 0) for name in TOTALS}
        return cls(label, workload, duration_s, series=series, **more)

    def table(self, name: str) -> pa.Table | None:
        """The stored table of this name, from here or from `inside`; None if there is none."""
        return getattr(self if name in SCHEMAS else self.inside, name, None)
