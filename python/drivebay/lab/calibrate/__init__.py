"""Calibrate: fits a profile's values to a drive's figures, measured or published, and says what
these figures cannot tell.

Data: the ranges are the profiles' own, published figures and what they are compared with are those
of `drivebay validate`. This room must not know how a test is run, nor how its figures are computed.
Read in this order: `fitting.py`, `parameters.py`, `aims.py`, `goals.py`, `folder.py`, `rows.py`,
`shorten.py`, `trials.py`, `journal.py`, `search.py`, `knowledge.py`, `calibration.py`, `write.py`.
"""

from drivebay.lab.calibrate.calibration import Calibration, Compared, Fitted
from drivebay.lab.calibrate.fitting import fit
from drivebay.lab.calibrate.knowledge import Knowledge
from drivebay.lab.calibrate.parameters import Parameter, chosen

__all__ = ["Calibration", "Compared", "Fitted", "Knowledge", "Parameter", "chosen", "fit"]
