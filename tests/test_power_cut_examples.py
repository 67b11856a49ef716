"""What the examples of power cuts say when the file system is gone, without a drive: damage of each
kind is a loss, and what fails before the first cut is not."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "power-cuts" / "cuts.py"


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("cuts", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "cuts", module)
    spec.loader.exec_module(module)
    return module


def _bay(cuts: ModuleType, folder: Path, mounts: int) -> Any:
    """A drive that mounts so many times, each time on a folder."""

    class Bay:
        kind = "ext4"
        left = mounts

        @contextlib.contextmanager
        def disk(self) -> Iterator[str]:
            yield "/dev/none"

        @contextlib.contextmanager
        def mounted(self, device: str) -> Iterator[Path]:
            if self.left == 0:
                raise cuts.Failed("error: mount: cannot mount")
            self.left -= 1
            yield folder

        def cut(self) -> int:
            return 4096

    return Bay()


class Program:
    def __init__(self, damage: Exception | None = None, commits: int = 1) -> None:
        self.damage, self.commits, self.last = damage, commits, 0

    def create(self, folder: Path) -> None:
        pass

    def count(self, folder: Path) -> int:
        if self.damage is not None and self.last:
            raise self.damage
        return self.last

    def commit(self, folder: Path, last: int, begun: Callable[[], None]) -> int:
        if self.commits:
            begun()
        self.last += self.commits
        return self.last


@pytest.mark.parametrize(
    ("program", "mounts", "said"),
    [
        (Program(), 2, "does not mount: error: mount: cannot mount"),
        (Program(OSError(117, "Structure needs cleaning")), 9, "is damaged: .* needs cleaning"),
        (Program(commits=0), 9, "nothing can be committed after record 0"),
    ],
)
def test_damage_is_a_loss(
    cuts: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    program: Program,
    mounts: int,
    said: str,
) -> None:
    monkeypatch.setattr(cuts, "command", lambda *words, check=True: "")
    monkeypatch.setattr(cuts, "unflushed_writes", lambda file: contextlib.nullcontext())
    with pytest.raises(cuts.Lost, match=said):
        cuts._rounds(program, _bay(cuts, tmp_path, mounts), 2, 1)


def test_what_fails_before_the_first_cut_is_no_loss(
    cuts: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cuts, "command", lambda *words, check=True: "")
    with pytest.raises(cuts.Failed, match="cannot mount"):
        cuts._rounds(Program(), _bay(cuts, tmp_path, 0), 2, 1)


def test_a_file_system_that_fsck_complains_of_is_a_loss(
    cuts: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def command(*words: str | Path, check: bool = True) -> str:
        if words[0] == "e2fsck":
            raise cuts.Failed("error: e2fsck: clean it")
        return ""

    monkeypatch.setattr(cuts, "command", command)
    monkeypatch.setattr(cuts, "unflushed_writes", lambda file: contextlib.nullcontext())
    with pytest.raises(cuts.Lost, match="e2fsck: clean it"):
        cuts._rounds(Program(), _bay(cuts, tmp_path, 9), 1, 1)
