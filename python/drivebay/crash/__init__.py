"""Power cuts: a workload is recorded once, and every state that a cut could leave is checked.

`recording` runs a workload on a served drive that is recorded, `check` runs the user's check on a
state, `run` on all of them, `minimise` finds the fewest lost writes that fail, `words` tells of it.
This room must not know what a drive may lose (that is the core's), nor how anything is printed.
"""
