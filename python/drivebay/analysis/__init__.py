"""Analysis: figures from results, compared with published figures. Pure functions.

This package must not know how a test was run, how a result is stored beyond reading it, or how a
figure is shown. Floats are used freely here; percentiles are never averaged, histograms are merged.
"""

from drivebay.analysis.conditions import Conditions as Conditions
from drivebay.analysis.conditions import ValidityWarning as ValidityWarning
from drivebay.analysis.conditions import conditions as conditions
from drivebay.analysis.figures import Figure as Figure
from drivebay.analysis.figures import Measured as Measured
from drivebay.analysis.headline import Headline as Headline
from drivebay.analysis.review import Review as Review
from drivebay.analysis.review import headline as headline
from drivebay.analysis.review import review as review
from drivebay.analysis.trust import agreement as agreement
