"""Review: runs a suite on a target, test by test, into a folder; continues where it was stopped.

This package must not know which kind of target it has, nor which figures are computed from its
results. To follow one review, read `engine.run` from the top.
"""

from drivebay.review.engine import run
from drivebay.review.plan import Plan, Planned, Silent, Sink, make_plan

__all__ = ["Plan", "Planned", "Silent", "Sink", "make_plan", "run"]
