"""Generators of the documentation site and the man page, from the program and its data.

Each module makes pages about one subject and returns them as text; `scripts/docs.py` and
`scripts/manpage.py` write them to their places. Nothing here is part of the package.
"""
