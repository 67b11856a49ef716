"""What the documentation site and the man page are generated from: the program and its data.

Each module makes pages of one thing and returns them as text; `scripts/docs.py` and
`scripts/manpage.py` put them where they belong. Nothing here is part of the package.
"""
