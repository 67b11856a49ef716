"""Review: runs a suite on a target, test by test, into a folder; goes on where it was stopped.

This room must not know what kind of target it has, nor what is computed from its figures.
To follow one review, read `engine.run` from the top.
"""

from drivebay.review.engine import run
from drivebay.review.plan import Plan, Planned, Silent, Sink, make_plan

__all__ = ["Plan", "Planned", "Silent", "Sink", "make_plan", "run"]
