"""Sweep: many runs side by side on this machine or a Dask cluster, one Parquet part for each.

A run is one test on one drive at one point of the parameters with one seed, and depends on nothing
else. To follow a sweep, read `engine.run` from the top; `spec` says what a user writes, `plan` what
becomes of it, `work` what a worker does, `store` what is left.
Effects are computed in `analysis`, and laid out in `report`.
"""

from drivebay.lab.sweep.api import Sweep, run
from drivebay.lab.sweep.spec import Spec, load

__all__ = ["Spec", "Sweep", "load", "run"]
