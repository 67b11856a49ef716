"""Schemas of tables from lists of their columns."""

from __future__ import annotations

import pyarrow as pa


def schema_of(columns: str) -> pa.Schema:
    """Schema with these columns, each `name:type` as Arrow names its types; strings have no type.

    >>> schema_of("second:int32 stage ns:int64").types
    [DataType(int32), DataType(string), DataType(int64)]
    """
    parts = (column.partition(":") for column in columns.split())
    return pa.schema([(name, pa.type_for_alias(kind or "string")) for name, _, kind in parts])
