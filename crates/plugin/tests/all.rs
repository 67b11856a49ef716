//! Tests of the interface for policy plug-ins. `tests/test_policies.py` tests the decisions of
//! compiled plug-ins with real libraries.

mod interface;
