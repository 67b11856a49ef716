"""The lab: many runs, fits and comparisons: sweep, calibrate, validate, query, import, bench.

No package below this one knows it. It must not know the command line.
"""
