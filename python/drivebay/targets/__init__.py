"""Targets: what a suite can be run on. A virtual drive, a file, a block device.

This room must not know result folders, reports, or which suite a test is from.
"""
