"""Exchange: SQL over results, and results of other programs made into ours.

This room must not know how a test is run, nor how results are shown.
"""

from drivebay.exchange.fio_import import import_fio
from drivebay.exchange.query import Answer, query

__all__ = ["Answer", "import_fio", "query"]
