"""Fit: values of profiles from figures, measured or published, and what the figures cannot tell.

`fit` turns a review's figures or published rows into a profile (`drivebay calibrate`). `Bench`
takes derivatives of all published rows by all free values; from them follow the leverage of each
row, what comes out without it, and how far figures stay open (`make fidelity`).
Both run tests through one `Evaluator`, whose journal keeps every answer.

Data: ranges are the profiles' own; published rows are those of `drivebay validate`. This room must
not know how a test is run, nor how its figures are computed. To follow one fit, read `fitting.fit`
from the top; for the published rows `sensitivity.derivatives`, `linear.posterior`, `kept`.
"""

from drivebay.lab.fit.fitting import fit
from drivebay.lab.fit.linear import Identifiability
from drivebay.lab.fit.outcome import Calibration, Compared, Estimate
from drivebay.lab.fit.parameters import Parameter, select_parameters

__all__ = [
    "Calibration",
    "Compared",
    "Estimate",
    "Identifiability",
    "Parameter",
    "fit",
    "select_parameters",
]
