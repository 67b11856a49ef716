"""What the model knows, and what it was told: leverage, leave-one-out errors, intervals.

Every number of a profile that is no drawing of the drive is a free parameter with a plausible
range. Derivatives of all published rows by all of them (`derivatives`) say which row stands there
because it was put in, what would come out without it, and how far the parameters leave each figure
open (`posterior`). `make fidelity` computes this and keeps it in published/fidelity.json; the pages
docs/fidelity.md and docs/sensitivity.md are made of it (`pages`). Of which kinds of figures a drive
gives good ones follows from the recorded rows (`kinds`); the catalog's pages say it.
Read in this order: `free.py`, `conditions.py`, `derivatives.py`, `posterior.py`, `kept.py`.
"""
