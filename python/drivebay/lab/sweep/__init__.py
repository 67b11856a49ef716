"""Sweep: many runs in parallel on this machine or a Dask cluster, one Parquet part for each.

A run is one test on one drive at one point of the parameters with one seed, and depends on nothing
else. To follow a sweep, read `engine.run` from the top; `spec` is the user's input, `plan` the
resolved sweep, `work` the task of a worker, `store` the results. Effects are computed in
`analysis`, and shown by `report`.
"""

from drivebay.lab.sweep.api import Sweep, run
from drivebay.lab.sweep.spec import Spec, load

__all__ = ["Spec", "Sweep", "load", "run"]
