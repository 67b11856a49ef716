"""Calibrate: fits a profile's parameters to a drive's figures, measured or published, and says what
these figures cannot identify.

Data: the ranges are the profiles' own, published figures and what they are compared with are those
of `drivebay validate`. This room must not know how a test is run, nor how its figures are computed.
To follow one fit, read `fitting.fit` from the top.
"""

from drivebay.lab.calibrate.calibration import Calibration, Compared, Estimate
from drivebay.lab.calibrate.fitting import fit
from drivebay.lab.calibrate.identifiability import Identifiability
from drivebay.lab.calibrate.parameters import Parameter, select_parameters

__all__ = [
    "Calibration",
    "Compared",
    "Estimate",
    "Identifiability",
    "Parameter",
    "fit",
    "select_parameters",
]
