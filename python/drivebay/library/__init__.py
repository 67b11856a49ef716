"""Library for researchers: drives, loads and results as Python objects.

    drive = drivebay.drive("sm951-ahci-512").with_("heatsink", unused="25%")
    result = drivebay.run(drive, drivebay.Workload(duration_s=60))
    result.series.iops, result.latency.percentile_us(99)

A drive and a load (`load.py`) make a `Result` (`result.py`, `latency.py`). A `Device` is a drive
with a state that takes one load after another (both in `drives.py`), an `Array` combines several
devices (`arrays.py`), `Replicates` are runs of a load with several seeds (`replication.py`), and a
`Life` covers a drive's years under a load (`life.py`). One call per run crosses the FFI boundary to
the core, never one per I/O. The library does not depend on suite files, result folders or the
command line.
"""

from drivebay.library.arrays import Array as Array
from drivebay.library.drives import Device as Device
from drivebay.library.drives import Drive as Drive
from drivebay.library.drives import drive as drive
from drivebay.library.drives import run as run
from drivebay.library.latency import Latencies as Latencies
from drivebay.library.life import Age as Age
from drivebay.library.life import Life as Life
from drivebay.library.life import age as age
from drivebay.library.load import Trace as Trace
from drivebay.library.load import Workload as Workload
from drivebay.library.replication import Replicates as Replicates
from drivebay.library.replication import replicates as replicates
from drivebay.library.result import Result as Result
from drivebay.library.result import Samples as Samples
from drivebay.library.result import Series as Series
from drivebay.targets.virtual.inside import Inside as Inside
