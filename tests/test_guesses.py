"""What guesses move: `scripts/guesses.py` over the stored derivatives."""

from __future__ import annotations

import sys
from pathlib import Path

from drivebay.analysis import fidelity

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))

import guesses


def test_most_guesses_move_no_row_by_more_than_its_interval() -> None:
    found = guesses.guesses()
    rows = {row["id"] for row in fidelity.recorded()["rows"]}
    assert len(found) > 200 and [one.share for one in found] == sorted(
        (one.share for one in found), reverse=True
    )
    assert all(one.row in rows if one.share else not one.row for one in found)
    more = [one for one in found if one.share > 1]
    assert more and 5 * len(more) < len(found)
    assert {"slc_cache.fold_ratio", "slc_cache.read_us"} <= {one.name for one in more}
