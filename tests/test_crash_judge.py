"""A second judge: the rule of fio's crash-aware verification agrees with the enumeration.

Source: fio's HOWTO, `verify_policy=fsynced` (after 3.42): only writes count that had completed when
the last fsync that succeeded was submitted. The rule is stated anew here. A block with a later
write may hold that one, too. Left out: fio's headers and checksums, and writes with FUA, which
`fsynced` refuses.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import crash_program
import pytest

from drivebay import _core, serving
from drivebay.common.errors import UserError
from drivebay.crash import recording
from drivebay.crash.run import Asked
from drivebay.definitions import profiles
from drivebay.definitions.scaling import with_capacity

BLOCKS, STEPS, STATES = 4, 60, 1500
SCRIPT = """
import os, sys
import crash_program as c
drive = c.Nbd(os.environ["DRIVEBAY_NBD"].partition("socket=")[2])
for number, block in enumerate(map(int, sys.argv[1:]), 1):
    drive.flush() if block < 0 else drive.write(block, c.filled(number))
    c.mark(str(number))
"""


def _steps(seed: int) -> list[int]:
    """Blocks that are written, one after the other; -1 is a flush."""
    choose = random.Random(seed)
    return [-1 if choose.random() < 0.25 else choose.randrange(BLOCKS) for _ in range(STEPS)]


def _passes(steps: list[int], content: tuple[int | None, ...]) -> bool:
    """fio's rule: each block holds its last write that an fsync covers, or a later one."""
    covered = max((number for number, block in enumerate(steps) if block < 0), default=0)
    for block, there in enumerate(content):
        writes = [number for number, at in enumerate(steps, 1) if at == block]
        safe = max((number for number in writes if number <= covered), default=None)
        if there != safe and (there not in writes or there < (safe or 0)):
            return False
    return True


def _choices(states: _core.CrashStates, cut: int) -> Iterator[str]:
    """Names of all states of a cut."""
    for number in itertools.count():
        name = f"{cut}:choice:{number}"
        try:
            states.lost_units(name)
        except UserError:
            return
        yield name


@pytest.mark.parametrize("seed", [1, 2])
def test_fios_rule_calls_the_same_states_possible(seed: int, tmp_path: Path) -> None:
    steps = _steps(seed)
    drive = with_capacity(profiles.load("sm951-nvme-256"), 64 << 20)
    folder = str(Path(crash_program.__file__).parent)
    command = ("env", f"PYTHONPATH={folder}", sys.executable, "-c", SCRIPT, *map(str, steps))
    served = serving.Drive(profile=drive, pace="none")
    assert recording.record(served, tmp_path / "recording", command) == 0

    def states(ignores_flush: bool) -> dict[str, set[tuple[int | None, ...]]]:
        changes = {"ignores_flush": ignores_flush}
        core = Asked(recording=tmp_path / "recording", check=(), changes=changes, after="1").open()
        image = tmp_path / f"state-{ignores_flush}"
        view = _core.CrashView(image)
        names, coverage = core.enumerate(STATES, seed)
        if not ignores_flush:
            # The last cut of each mark, at which a flush has completed, with all of its choices.
            cuts = {core.mark_of(f"{cut}:prefix:0"): cut for cut in range(coverage["cuts"])}
            names = [name for cut in cuts.values() for name in _choices(core, cut)]
        found: dict[str, set[tuple[int | None, ...]]] = {}
        for name in names:
            view.show(core, name)
            with image.open("rb") as file:
                pieces = [file.read(crash_program.BLOCK) for _ in range(BLOCKS)]
            content = tuple(map(crash_program.number_of, pieces))
            found.setdefault(core.mark_of(name) or "", set()).add(content)
        return found

    possible, all_states = states(False), states(True)
    verdicts = []
    for mark, contents in all_states.items():
        # The cut is before the next mark, when the next step has completed.
        done = steps[: int(mark) + 1]
        for content in contents:
            verdicts.append(_passes(done, content))
            assert verdicts[-1] == (content in possible[mark]), (mark, content)
        assert all(_passes(done, content) for content in possible[mark])
    assert len(verdicts) > 1000 and 50 < sum(verdicts) < len(verdicts) - 50
