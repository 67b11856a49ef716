"""Results: the folder that a review writes, step by step, each step whole or not at all.

This package must not know how a test is run or which figures are computed from it.
"""

from drivebay.results.checking import Damage
from drivebay.results.manifest import SCHEMA_VERSION, Manifest, StepEntry, read_manifest
from drivebay.results.reading import Result, Step, load, load_finished
from drivebay.results.records import PhaseResult
from drivebay.results.writing import Folder

__all__ = [
    "SCHEMA_VERSION",
    "Damage",
    "Folder",
    "Manifest",
    "PhaseResult",
    "Result",
    "Step",
    "StepEntry",
    "load",
    "load_finished",
    "read_manifest",
]
