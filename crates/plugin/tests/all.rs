//! Tests of the interface for policy plug-ins. That compiled plug-ins decide as they should,
//! `tests/test_policies.py` shows with real libraries.

mod interface;
