"""Helpers that every package may use: errors, units, the project's data folders, signals, memory.

This package must not import any other package of drivebay.
"""
