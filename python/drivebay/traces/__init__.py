"""Block traces: read in common formats, recorded, synthesized, described, drawn, written.

The core does parsing, sorting and statistics; this package writes Parquet and pictures, and creates
every file whole or not at all. It must not know drives, suites or results. Meaning of the figures:
docs/concepts/traces.md.
"""

from drivebay._core import synth_names as names
from drivebay._core import trace_formats as formats
from drivebay.traces.convert import convert, source
from drivebay.traces.picture import picture
from drivebay.traces.read import OPS, Described, batches, file_source, info
from drivebay.traces.recording import record

__all__ = [
    "OPS",
    "Described",
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
