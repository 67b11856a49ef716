"""Recomputes the shipped results of the catalog's drives: `make catalog-results`.

    python scripts/catalog_results.py [--drive NAME] [--jobs 2] [--quick] [--out FOLDER]

Reviews every drive of the catalog with the default suite at full length, two at a time, and writes
figures and series to catalog-results/DRIVE.json.xz, with a fingerprint of profile and model. Then
it runs the suite `ranking`, and adds the keys that rank the drive. Each review is stored in
target/catalog-results/ under its fingerprint: an interrupted run continues when it is started
again with the same code, test by test, and a drive whose result is up to date is skipped. A fast
drive's two hours of random writes are a billion I/Os each, two thirds of its time: `--skip
consistency-default --skip consistency-25op` leaves them out. `--quick` reviews all drives
shortened, in a quarter of an hour, and writes figures and loads to one file, quick.json.xz.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from drivebay import results
from drivebay.analysis import review
from drivebay.common.errors import DrivebayError
from drivebay.definitions import profiles
from drivebay.report.base.runs import Entry, entries
from drivebay.report.peers import competitors
from drivebay.report.peers.digest import digest

TOP = Path(__file__).resolve().parent.parent
SHIPPED = TOP / competitors.FOLDER
SUITE = competitors.SUITE
RANKING = "ranking"
LAST_KEY = "durable"
"""Key that only the suite `ranking` gives."""
LEFT_OUT = ("zn540-1tb", *(n for n in profiles.names() if profiles.load(n).capacity_bytes > 2.1e12))
"""Drives that are reviewed only when named by --drive. The zones of the first one accept none of
the suite's random writes. The maps of a large one take 1 GB of memory for 1 TB, a review hours."""
BYTES_MAX = 3_000_000


def say(message: str, _began: float = time.monotonic()) -> None:
    """Prints progress, with the minutes so far."""
    print(f"{(time.monotonic() - _began) / 60:6.1f} min  {message}", file=sys.stderr, flush=True)


def reviewed(
    drive: str,
    now: Mapping[str, str],
    *,
    quick: bool = False,
    suite: str = SUITE,
    skip: Sequence[str] = (),
) -> Path:
    """Folder of a complete review of this drive in its present form; runs the missing tests."""
    kept = TOP / "target" / competitors.FOLDER
    kept /= f"{drive}-{now['profile'][:8]}-{now['model'][:8]}{'-quick' if quick else ''}"
    kept = kept if suite == SUITE else kept.with_name(f"{kept.name}-{suite}")
    kept = kept.with_name(f"{kept.name}-part") if skip else kept
    tool = [sys.executable, "-m", "drivebay", "review"]
    if (kept / "manifest.json").exists():
        command = [*tool, "--resume", str(kept)]
        if not results.load(kept).missing:
            return kept
    else:
        shutil.rmtree(kept, ignore_errors=True)
        command = [*tool, drive, "--suite", suite, "--jobs", "1", "--out", str(kept)]
        command += ["--quick"] if quick else []
        command += [word for test in skip for word in ("--skip", test)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{drive}: {done.stderr.strip().splitlines()[-1:]}")
    (kept / "report.html").unlink(missing_ok=True)
    return kept


def _quick(drives: Sequence[str], asked: argparse.Namespace) -> None:
    """Makes shortened reviews of these drives, in one file."""

    def review_one(drive: str) -> tuple[Entry, Mapping[str, str]]:
        now = competitors.fingerprint(drive)
        folder = reviewed(drive, now, quick=True)
        say(drive)
        return entries([review(results.load(folder))])[0], now

    with ThreadPoolExecutor(asked.jobs) as pool:
        path = competitors.write_quick(list(pool.map(review_one, drives)), asked.out)
    say(f"{path}: {path.stat().st_size:,} bytes")


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--drive", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--jobs", type=int, default=2, help="reviews at a time")
    parser.add_argument("--skip", action="append", default=[], help="leave out this test")
    parser.add_argument("--quick", action="store_true", help="shortened, all in one file")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="folder to write to")
    asked = parser.parse_args()
    os.nice(5)
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.quick:
        _quick([name for name in profiles.names() if name not in LEFT_OUT], asked)
        return
    shipped = competitors.load(asked.out)
    new = {drive["profile"] for drive in shipped if not drive["old"]}
    ranked = {drive["profile"] for drive in shipped if LAST_KEY in drive.get("keys", {})}
    wanted = asked.drive or [name for name in profiles.names() if name not in LEFT_OUT]
    drives = [name for name in wanted if name not in new & ranked]
    say(f"{len(drives)} drives to review or to rank; {len(new & ranked)} results are complete")

    def review_one(drive: str) -> None:
        now, path = competitors.fingerprint(drive), asked.out / f"{drive}{competitors.ENDING}"
        if drive not in new:
            folder = reviewed(drive, now, skip=asked.skip)
            competitors.write(entries([review(results.load(folder))])[0], asked.out, now)
        entry = entries([review(results.load(reviewed(drive, now, suite=RANKING)))])[0]
        document = competitors.unpacked(path)
        document["keys"] = {**document.get("keys", {}), **digest(entry)["keys"]}
        competitors.packed(document, path)
        say(f"{drive}: {path.stat().st_size:,} bytes")

    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(review_one, drives))
    if not asked.drive:
        for path in asked.out.glob(f"*{competitors.ENDING}"):
            known = [*profiles.names(), competitors.QUICK]
            if path.name.removesuffix(competitors.ENDING) not in known:
                path.unlink()
    total = sum(path.stat().st_size for path in asked.out.glob(f"*{competitors.ENDING}"))
    say(f"{total:,} bytes in all")
    if total > BYTES_MAX:
        raise SystemExit(f"error: more than {BYTES_MAX:,} bytes")


if __name__ == "__main__":
    try:
        main()
    except DrivebayError as problem:
        print(f"error: {problem.message}\nhint: {problem.hint}", file=sys.stderr)
        raise SystemExit(3) from None
