"""Power cuts: records a workload once, then checks every state that a cut could leave.

`recording` runs a workload on a served drive and records it, `check` runs the user's check on a
state, `run` on all of them, `minimise` finds the fewest lost writes that fail, `words` describes
the outcome. This package must not know what a drive may lose (the core decides that), nor how
anything is printed.
"""
