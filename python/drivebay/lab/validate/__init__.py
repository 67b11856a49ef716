"""`drivebay validate`: comparison of published figures of the catalog's drives with reproduced
ones.

Data: published/figures.csv (the printed figures) and published/validation.toml (the figure that
each row is compared with, and the tests that are run for it). One parameter set per drive serves
all rows; a test that several rows need is run once. This package must not know result folders or
reports. Read in this order: `plan.py`, `runs.py`, `values.py`, `statements.py`, `verdicts.py`,
`score.py`, `table.py`.
"""
