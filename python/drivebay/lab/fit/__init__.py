"""Fit: estimates values of profiles from measured or published figures, with their uncertainty.

`fit` turns a review's figures or published rows into a profile (`drivebay calibrate`). `Bench`
computes derivatives of all published rows with respect to all free values; from them follow the
leverage of each row, leave-one-out predictions, and the uncertainty of figures (`make fidelity`).
Both run tests through one `Evaluator`, whose journal keeps every result.

Data: ranges are the profiles' own; published rows are those of `drivebay validate`. This package
must not know how a test is run, nor how its figures are computed. To follow one fit, read
`fitting.fit` from the top; for the published rows `sensitivity.derivatives`, `linear.posterior`,
`kept`.
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
