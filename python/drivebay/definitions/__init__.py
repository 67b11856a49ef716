"""Definitions: drive profiles, suites and workloads, read from TOML and checked.

This package must not know how a target works, nor results or reports.
"""
