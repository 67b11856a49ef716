"""Analysis: figures from results, compared with published figures. Pure functions.

This package must not know how a test was run, how a result is stored beyond reading it, or how a
figure is shown. Floats are used freely here; percentiles are never averaged, histograms are merged.
"""

from drivebay.analysis.conditions import Conditions, ValidityWarning, conditions
from drivebay.analysis.figures import Figure, Measured
from drivebay.analysis.headline import Headline
from drivebay.analysis.review import Review, headline, review
from drivebay.analysis.trust import agreement

__all__ = [
    "Conditions",
    "Figure",
    "Headline",
    "Measured",
    "Review",
    "ValidityWarning",
    "agreement",
    "conditions",
    "headline",
    "review",
]
