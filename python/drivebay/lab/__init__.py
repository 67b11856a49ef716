"""The lab: many runs, fits and comparisons: sweep, calibrate, validate, query, import, bench.

Nothing below this room knows it. It must not know the command line.
"""
