"""An installed package has everything that the checkout has: the core, and the project's data.

The wheel is built as a user would build it; the core comes from the cache that `make setup` left.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent
DATA_FOLDERS = ("drives", "published", "suites")


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in a freshly built wheel."""
    out = tmp_path_factory.mktemp("wheel")
    command = ["maturin", "build", "--release", "--locked", "-i", sys.executable, "-o", str(out)]
    result = subprocess.run(
        [str(Path(sys.executable).with_name(command[0])), *command[1:]],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    (wheel,) = out.glob("*.whl")
    assert "-abi3-" in wheel.name, "one wheel serves every Python from 3.11 on"
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize("folder", DATA_FOLDERS)
def test_the_data_is_in_the_wheel(wheel_names: set[str], folder: str) -> None:
    files = [path.name for path in (TOP / folder).iterdir() if path.is_file()]
    assert files
    missing = {f"drivebay/_data/{folder}/{name}" for name in files} - wheel_names
    assert not missing


def test_the_core_and_its_types_are_in_the_wheel(wheel_names: set[str]) -> None:
    assert {"drivebay/_core.abi3.so", "drivebay/_core.pyi", "drivebay/py.typed"} <= wheel_names


def test_every_source_file_is_in_the_wheel(wheel_names: set[str]) -> None:
    assets = (TOP / "python" / "drivebay" / "report" / "assets").iterdir()
    sources = [*(TOP / "python").rglob("*.py"), *assets]
    missing = {str(path.relative_to(TOP / "python")) for path in sources} - wheel_names
    assert not missing
