"""`drivebay paper`: all that was published of the catalog's drives, beside what comes out here.

Data: published/figures.csv (what was printed) and published/paper.toml (what of ours each row is
compared with, and the tests that are run for it). One parameter set per drive serves all rows; a
test that several rows ask for is run once. This room must not know result folders or reports.
Read in this order: `plan.py`, `runs.py`, `values.py`, `predicates.py`, `verdicts.py`, `table.py`.
"""

from drivebay.lab.validate.plan import Plan, load_plan
from drivebay.lab.validate.runs import run_all
from drivebay.lab.validate.verdicts import Paper, judge

__all__ = ["Paper", "Plan", "judge", "load_plan", "run_all"]
