"""Suites: the tests of a review as data, from suites/*.toml or a user's file.

This package must not know how a target runs a test, nor which figures are computed from its
results.
"""

from drivebay.definitions.suites.load_fields import LoadFields as LoadFields
from drivebay.definitions.suites.loader import load as load
from drivebay.definitions.suites.loader import names as names
from drivebay.definitions.suites.loader import spoken as spoken
from drivebay.definitions.suites.loads import shares_of as shares_of
from drivebay.definitions.suites.loads import writes_of as writes_of
from drivebay.definitions.suites.loads import zone_words as zone_words
from drivebay.definitions.suites.model import Phase as Phase
from drivebay.definitions.suites.model import Prepare as Prepare
from drivebay.definitions.suites.model import Quick as Quick
from drivebay.definitions.suites.model import Replay as Replay
from drivebay.definitions.suites.model import Stable as Stable
from drivebay.definitions.suites.model import Suite as Suite
from drivebay.definitions.suites.model import Test as Test
from drivebay.definitions.suites.model import Trim as Trim
from drivebay.definitions.suites.model import Workload as Workload
from drivebay.definitions.suites.parts import Content as Content
from drivebay.definitions.suites.parts import Rounds as Rounds
from drivebay.definitions.suites.parts import Score as Score
from drivebay.definitions.suites.parts import Steady as Steady
