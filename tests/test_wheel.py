"""An installed package has everything that the checkout has: the core, the project's data, the man
page; and it runs where there is no checkout. The source distribution has all that a build needs.

Built as `make wheel` does, but with the profile of the tests, whose core is in the cache.
$DRIVEBAY_WHEEL names another wheel for the tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import crash_program
import pytest
from waiting import wait_until

from drivebay.common.provenance import git_commit

TOP = Path(__file__).resolve().parent.parent
DATA_FOLDERS = (
    *(
        "ailments",
        "catalog-results",
        "classes",
        "drives",
        "hosts",
        "published",
        "published/computed",
        "suites",
    ),
)
MAN_PAGE = "share/man/man1/drivebay.1"


def maturin(*arguments: str) -> None:
    """Runs maturin in the checkout, as the scripts do."""
    command = [str(Path(sys.executable).with_name("maturin")), *arguments]
    script = ["bash", "-ec", 'source scripts/common.sh; stamp_commit; "$@"', "maturin", *command]
    result = subprocess.run(script, cwd=TOP, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A freshly built wheel, or $DRIVEBAY_WHEEL."""
    if named := os.environ.get("DRIVEBAY_WHEEL"):
        return Path(named).resolve()
    out = tmp_path_factory.mktemp("wheel")
    maturin("build", "--profile", "checks", "--locked", "-i", sys.executable, "-o", str(out))
    (built,) = out.glob("*.whl")
    assert "-abi3-" in built.name, "one wheel serves every Python from 3.11 on"
    return built


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    """Names of the files in it."""
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
    template = TOP / "python" / "drivebay" / "definitions" / "policy_template"
    templates = [path for path in template.rglob("*") if path.is_file()]
    sources = [*(TOP / "python").rglob("*.py"), *assets, *templates]
    missing = {str(path.relative_to(TOP / "python")) for path in sources} - wheel_names
    assert not missing


def test_the_wheel_runs_where_there_is_no_checkout(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, which has of this one only the packages that drivebay needs."""
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    install = ["-m", "pip", "install", "-q", "--no-index", "--no-deps", str(wheel)]
    subprocess.run([place / "bin/python", *install], check=True)
    assert (place / MAN_PAGE).is_file()
    # Put on the path, the folder's own .pth files are not read: the checkout stays out.
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    done = subprocess.run(
        [place / "bin/drivebay", "doctor", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    basics = {one["name"]: one for one in json.loads(done.stdout)["findings"] if one["basic"]}
    assert basics["Rust core"]["state"] == "ok"
    where = "import drivebay; print(drivebay.__file__, drivebay.drive('xp941-512').capacity_bytes)"
    said = subprocess.check_output(
        [place / "bin/python", "-c", where], cwd=tmp_path, env=environment, text=True
    )
    assert said.startswith(str(place)) and said.endswith(" 512110190592\n")


def installed_command(wheel: Path, place: Path) -> list[str]:
    """The program, installed by pip with its dependencies from the package index."""
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    install = [str(place / "bin/pip"), "install", "-q", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True, cwd=place)
    return [str(place / "bin/drivebay")]


@pytest.mark.long
def test_an_installed_wheel_does_what_a_first_user_does(wheel: Path, tmp_path: Path) -> None:
    """Without Rust, without the checkout, without any program of the system."""
    program = installed_command(wheel, tmp_path / "venv")
    python = str(tmp_path / "venv/bin/python")
    place = tmp_path / "place"
    place.mkdir()
    environment = {"PATH": str(tmp_path / "venv/bin"), "HOME": str(place), "LANG": "C.UTF-8"}
    assert not shutil.which("cargo", path=environment["PATH"])

    def run(*words: str, code: int = 0) -> str:
        command = [*program, *words]
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    commit = git_commit()
    assert commit and commit in run("--version")
    assert "Rust core" in run("doctor")
    run("review", "sm951-ahci-512", "--suite", "quick", "--out", "result")
    report = place / "result/report.html"
    made = report.read_bytes()
    report.unlink()
    run("report", "result")
    assert report.read_bytes() == made

    shutil.copy(crash_program.__file__, place)
    work = (python, "crash_program.py", "work", "no-fsync")
    run("crash", "record", "sm951-nvme-256", "--capacity", "64MiB", "--out", "a", "--", *work)
    check = (python, "crash_program.py", "check", "no-fsync", "{}")
    assert "is gone" in run("crash", "run", "a", "--", *check, code=1)

    serve = [*program, "serve", "sm951-ahci-512", "--nbd", "unix:s", "--data", "drive.img"]
    clients: list[crash_program.Nbd] = []
    with subprocess.Popen(serve, cwd=place, env=environment) as server:

        def connected() -> bool:
            assert server.poll() is None
            with contextlib.suppress(OSError):
                clients.append(crash_program.Nbd(str(place / "s")))
            return bool(clients)

        wait_until(connected)
        (client,) = clients
        client.write(7, b"drivebay" * 512)
        client.flush()
        assert client.read(7, 1) == b"drivebay" * 512
        server.send_signal(signal.SIGTERM)
    assert server.returncode == 0


def test_the_source_distribution_has_what_a_build_needs(tmp_path: Path) -> None:
    maturin("sdist", "-o", str(tmp_path))
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        members = {member.name.partition("/")[2]: member for member in archive}
        lock = archive.extractfile(members["Cargo.lock"])
        assert lock
        locked = tomllib.load(lock)["package"]
    crates = {name.split("/")[1] for name in members if name.startswith("crates/")}
    ours = {package["name"] for package in locked if "source" not in package}
    assert ours == {f"drivebay-{crate}" for crate in crates}, "else --locked fails"
    assert all(member.isfile() for member in members.values()), "no links: they would dangle"
    needed = {"Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "pyproject.toml"}
    needed |= {f"packaging/wheel/data/{MAN_PAGE}", "python/drivebay/_core.pyi"}
    needed |= {"python/drivebay/_commit"}
    needed |= {str(path.relative_to(TOP)) for path in (TOP / "crates").glob("*/src/**/*.rs")}
    needed |= {str(path.relative_to(TOP)) for path in (TOP / "python").rglob("*.py")}
    for folder in DATA_FOLDERS:
        files = [path.name for path in (TOP / folder).iterdir() if path.is_file()]
        needed |= {f"python/drivebay/_data/{folder}/{name}" for name in files}
    assert not needed - members.keys()
