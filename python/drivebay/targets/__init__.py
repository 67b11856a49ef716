"""Targets on which a suite can run: a virtual drive, a file, a block device.

This package must not know result folders, reports, or the suite of a test.
"""
