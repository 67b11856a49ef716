#!/usr/bin/env python3
"""Repeats published durability bugs of unmodified programs with `drivebay crash`: the release with
the bug must fail in some state, the release with its fix in none.

usage: run.py [--unprivileged] [--states N] [--jobs N] [--json FILE] NAME... | all | sound | list

Each program comes from its package registry (PyPI, npm, the Go proxy, crates.io) and is kept in
~/.cache/drivebay-known, or $DRIVEBAY_KNOWN. With root the files are on a loop device (mounted.py);
without it, or with --unprivileged, in user-mode Linux (unprivileged.py). The table is in
docs/concepts/known-bugs.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rows import ROWS, SOUND, Row

HERE = Path(__file__).resolve().parent
MOUNTED, UNPRIVILEGED = HERE.parent / "mounted.py", HERE.parent / "unprivileged.py"
DRIVE = "sm951-nvme-256"


@dataclass(frozen=True)
class Found:
    """Outcome for one release: states checked, states that failed, and what the check said."""

    states: int
    failed: int
    said: str
    seconds: float


def cache() -> Path:
    """Folder of the installed programs."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "drivebay-known"
    return Path(os.environ.get("DRIVEBAY_KNOWN", default))


def must(words: list[str | Path], folder: Path, **more: str) -> str:
    """Runs a command; its output. One that fails ends the script."""
    done = subprocess.run(
        list(map(str, words)),
        cwd=folder,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{words[0]}: {(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout


def installed(row: Row, version: str) -> list[str]:
    """Installs a release unless it is there; the command that runs the row's script with it."""
    kind = row.script.rpartition(".")[2]
    folder = cache() / f"{row.name}-{version.replace('/', '-')}"
    script = HERE / row.script
    ready = folder / "ready"
    if not ready.exists() or ready.read_bytes() != script.read_bytes():
        folder.mkdir(parents=True, exist_ok=True)
        if kind == "py":
            if not (folder / "bin/python").exists():
                must([sys.executable, "-m", "venv", folder], folder)
            name = version if "==" in version else f"{row.package}=={version}"
            if row.package:
                must([folder / "bin/python", "-m", "pip", "install", "-q", name], folder)
        elif kind == "js":
            (folder / "package.json").write_text("{}\n")
            must(["npm", "install", "--silent", f"{row.package}@{version}"], folder)
            shutil.copy(script, folder / "main.js")  # which finds the modules beside it
        elif kind == "go":
            shutil.copy(script, folder / "main.go")
            (folder / "go.mod").write_text("module known\n\ngo 1.21\n")
            more = {"GOFLAGS": "-mod=mod"}
            must(["go", "get", f"{row.package}@{version}"], folder, **more)
            must(["go", "build", "-o", "main", "."], folder, **more)
        else:
            (folder / "src").mkdir(exist_ok=True)
            shutil.copy(script, folder / "src/main.rs")
            needs = "".join(f"{line}\n" for line in (f'{row.package} = "={version}"', *row.also))
            (folder / "Cargo.toml").write_text(
                f'[package]\nname = "main"\nversion = "0.1.0"\nedition = "2021"\n'
                f"[dependencies]\n{needs}"
            )
            must(["cargo", "build", "-q"], folder, CARGO_TARGET_DIR=str(folder / "target"))
        ready.write_bytes(script.read_bytes())
    return {
        "py": [str(folder / "bin/python"), "-P", str(script)],
        "js": ["node", str(folder / "main.js")],
        "go": [str(folder / "main")],
        "rs": [str(folder / "target/debug/main")],
    }[kind]


def drivebay(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the installed drivebay."""
    return subprocess.run(
        [sys.executable, "-m", "drivebay", "crash", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


def repeated(
    row: Row, program: list[str], folder: Path, states: int, jobs: int | None, root: bool
) -> Found:
    """Records the program's work, and checks the states that power cuts could leave."""
    began = time.monotonic()
    recording = folder / "recording"
    mounted: list[str | Path] = [sys.executable, MOUNTED if root else UNPRIVILEGED]
    noise = ["--noise", str(row.noise)] if row.noise else []
    work = [*mounted, "--make", row.fs, *noise, *["{}"] * root, "--"]
    work += [sys.executable, HERE / "marks.py"]
    size = ("--capacity", row.capacity, "--out", recording)
    done = drivebay("record", DRIVE, *size, "--", *work, *program, "work", *row.more)
    if done.returncode != 0:
        sys.exit(f"{row.name}: the workload fails: {done.stderr.strip()[-2000:]}")
    options = ["--states", str(states), "--after", row.after, "--json"]
    options += ["--jobs", str(jobs)] if jobs else []
    if Path("/dev/shm").is_dir():
        options += ["--scratch", "/dev/shm"]
    check = [*mounted, "{}", "--", *program, "check", *row.more]
    done = drivebay("run", recording, *options, "--", *check)
    if done.returncode not in (0, 1):
        sys.exit(f"{row.name}: {done.stderr.strip()[-2000:]}")
    outcome: dict[str, Any] = json.loads(done.stdout)
    said = ""
    if outcome["failed"]:
        with (folder / "recording.run/verdicts.jsonl").open() as verdicts:
            for line in map(json.loads, verdicts):
                if line["state"] == outcome["failed"][0]:
                    said = (line["said"].splitlines() or ["no output"])[-1]
    return Found(outcome["states"], len(outcome["failed"]), said, time.monotonic() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", nargs="+", help="a row, all, sound, or list")
    parser.add_argument("--states", type=int, default=0, help="most states for each release")
    parser.add_argument("--jobs", type=int, help="checks at a time")
    parser.add_argument(
        "--unprivileged", action="store_true", help="without root, as if there were none"
    )
    parser.add_argument("--json", type=Path, help="file for the outcomes")
    parser.add_argument("--keep", type=Path, help="folder for recordings and verdicts")
    asked = parser.parse_args()
    rows = {row.name: row for row in (*ROWS, *SOUND)}
    if asked.name == ["list"]:
        for row in rows.values():
            print(f"{row.name:18} {row.program} {' -> '.join(row.versions)}")
        return 0
    groups = {"all": [row.name for row in ROWS], "sound": [row.name for row in SOUND]}
    names = [name for word in asked.name for name in groups.get(word, [word])]
    if unknown := [name for name in names if name not in rows]:
        sys.exit(f"no row {unknown[0]}: run.py list")
    root = os.geteuid() == 0 and not asked.unprivileged
    wrong, told = 0, {}
    for name in names:
        row = rows[name]
        for version in row.versions:
            program = installed(row, version)
            folder = (asked.keep or cache() / "runs") / f"{name}-{version.replace('/', '-')}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            found = repeated(row, program, folder, asked.states or row.states, asked.jobs, root)
            has_bug = row in ROWS and version == row.versions[0]
            good = has_bug == bool(found.failed)
            wrong += not good
            told[f"{name} {version}"] = {**vars(found), "as_expected": good}
            print(
                f"{name} {version}: {found.failed} of {found.states} states fail, "
                f"{found.seconds:.0f} s, {'as expected' if good else 'NOT AS EXPECTED'}"
                + f": {found.said}"
                * bool(found.said),
                flush=True,
            )
    if asked.json:
        asked.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
