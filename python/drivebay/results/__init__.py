"""Results: the folder that a review writes, step by step, each step whole or not at all.

This package must not know how a test is run or which figures are computed from it.
"""

from drivebay.results.checking import Damage as Damage
from drivebay.results.manifest import SCHEMA_VERSION as SCHEMA_VERSION
from drivebay.results.manifest import Manifest as Manifest
from drivebay.results.manifest import StepEntry as StepEntry
from drivebay.results.manifest import read_manifest as read_manifest
from drivebay.results.reading import Result as Result
from drivebay.results.reading import Step as Step
from drivebay.results.reading import load as load
from drivebay.results.reading import load_finished as load_finished
from drivebay.results.records import PhaseResult as PhaseResult
from drivebay.results.writing import Folder as Folder
