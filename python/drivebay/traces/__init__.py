"""Block traces: read in the formats people have, recorded, synthesized, described, drawn, written.

Parsing, order and statistics are the core's; this room writes Parquet and pictures, and puts every
file into its place whole or not at all. It must not know drives, suites or results. What the
figures mean: docs/concepts/traces.md.
"""

from drivebay._core import TraceSummary
from drivebay._core import synth_names as names
from drivebay._core import trace_formats as formats
from drivebay.traces.convert import KINDS, convert, source
from drivebay.traces.picture import picture
from drivebay.traces.read import OPS, Described, batches, file_source, info
from drivebay.traces.recording import Recorded, record

__all__ = [
    "KINDS",
    "OPS",
    "Described",
    "Recorded",
    "TraceSummary",
    "batches",
    "convert",
    "file_source",
    "formats",
    "info",
    "names",
    "picture",
    "record",
    "source",
]
