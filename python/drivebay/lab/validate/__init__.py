"""`drivebay validate`: the published figures of the catalog's drives beside the reproduced ones.

Data: published/figures.csv (what was printed) and published/validation.toml (which figure each row
is compared with, and the tests that are run for it). One parameter set per drive serves all rows; a
test that several rows ask for is run once. This room must not know result folders or reports.
Read in this order: `plan.py`, `runs.py`, `values.py`, `predicates.py`, `verdicts.py`, `table.py`.
"""
