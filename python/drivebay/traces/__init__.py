"""Block traces: read in common formats, recorded, synthesized, described, drawn, written.

The core does parsing, sorting and statistics; this package writes Parquet and pictures, and creates
every file whole or not at all. It must not know drives, suites or results. Meaning of the figures:
docs/concepts/traces.md.
"""

from drivebay import _core
from drivebay.traces.convert import convert as convert
from drivebay.traces.convert import source as source
from drivebay.traces.picture import picture as picture
from drivebay.traces.read import OPS as OPS
from drivebay.traces.read import Described as Described
from drivebay.traces.read import batches as batches
from drivebay.traces.read import file_source as file_source
from drivebay.traces.read import info as info
from drivebay.traces.recording import record as record

names, formats = _core.synth_names, _core.trace_formats
