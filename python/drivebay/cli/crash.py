"""`drivebay crash`: every state that a power cut could leave, and the smallest that fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from drivebay.cli import complete, options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import print_json, say, say_notes, show
from drivebay.common import units
from drivebay.common.errors import EXIT_CHECK_FAILED, EXIT_DONE

if TYPE_CHECKING:
    from drivebay.crash.run import Asked

app = options.Verb(
    help="Check every state that a power cut could leave.",
    epilog="""\b
Examples:
  drivebay crash record sm951-nvme-256 --out kv.crash -- ./workload {}
  drivebay crash run kv.crash -- ./check {}
  drivebay crash show kv.crash.run
  drivebay crash replay kv.crash 12:lost:40 --nbd unix:/tmp/state.sock""",
)

Rules = Annotated[
    str | None,
    option(
        "DRIVE", "By the rules of this drive. [default: of the one that was recorded]", "--drive"
    ),
]


@app.command(
    epilog="""\b
Examples:
  drivebay crash record sm951-nvme-256 --out kv.crash -- ./workload {}
  drivebay crash record sm951-nvme-256 --capacity 1G --from db.img \\
      --out db.crash -- sh -c './workload "$DRIVEBAY_NBD"'

\b
{} is a file with the drive's bytes (nbdfuse); $DRIVEBAY_NBD is the drive over
NBD. The workload tells what it was promised by a line to the control socket:
  echo "mark committed 17" | nc -UN "$DRIVEBAY_CONTROL"
drivebay serve --record FILE records any other way to a served drive."""
)
def record(
    drive: str = argument("DRIVE", f"{options.CATALOG_NAME}.", autocompletion=complete.drives),
    command: list[str] = argument("-- COMMAND...", "The workload."),
    out: Path = option("FILE", "The recording, a new file."),
    image: Path | None = option(
        "IMAGE", "Begin with what this image holds, as serve does.", "--from"
    ),
    capacity: str | None = option(
        "SIZE", "Scale the drive down to at least this capacity, as serve does."
    ),
    pace: Literal["sleep", "hybrid", "spin", "none"] = option(
        None, "How completion times are met, as serve does.", default="none"
    ),
    changes: options.Set = None,
    seed: options.Seed = 1,
) -> None:
    """Record what a workload asks of a served drive, with its data.

    The exit code is the workload's.
    """
    from drivebay import serving
    from drivebay.cli.target import modified_profile
    from drivebay.crash import recording
    from drivebay.definitions.scaling import with_capacity

    profile = modified_profile(drive, changes)
    if capacity is not None:
        profile = with_capacity(profile, units.parse_bytes(capacity, option="--capacity"))
    served = serving.Drive(profile=profile, image=image, pace=pace, seed=seed)
    code = recording.record(served, out, command)
    say(f"recorded: {out}, {units.si_bytes(out.stat().st_size)}")
    raise SystemExit(code if code >= 0 else 128 - code)  # as a shell tells of a signal


@app.command(
    epilog="""\b
Examples:
  drivebay crash run kv.crash -- ./check {}
  drivebay crash run fs.crash --states 2000 -- e2fsck -fn {}
  drivebay crash run kv.crash --drive 7450-pro-960 -- ./check {}
  drivebay crash run kv.crash --ignore-flush -- ./check {}
  drivebay crash run kv.crash --after created -- ./check {}

\b
{} is a file with a state, which the check may write to. $DRIVEBAY_MARK is the
last mark before the cut, $DRIVEBAY_STATE the state's name. Exit code 0 of the
check: the state is good. Exit codes of run: 0 all are; 1 one is not."""
)
def run(
    recording: Path = argument("RECORDING", "What record made, or a log of Linux's dm-log-writes."),
    check: list[str] = argument("-- CHECK...", "The check of a state."),
    out: Path | None = option(
        "FOLDER", "Verdicts; goes on if it is there. [default: RECORDING.run]"
    ),
    states: int = option("N", "Most states.", min=1, default=10_000),
    timeout: float = option("SECONDS", "A check that takes longer hangs.", min=0.001, default=60.0),
    drive: Rules = None,
    changes: options.Set = None,
    atomic: str | None = option(
        "SIZE", "What a power cut does not tear, 512B to 1MiB. [default: the drive's mapping unit]"
    ),
    ignore_flush: bool = flag("--ignore-flush", "By the rules of a drive that ignores flushes."),
    after: str | None = option(
        "MARK", "Cut the power behind the first mark of this text, not before."
    ),
    scratch: Path | None = option(
        "FOLDER", "Where files of states are: /dev/shm. [default: TMPDIR]"
    ),
    jobs: options.Jobs = None,
    seed: options.Seed = 1,
    as_json: options.Json = False,
) -> None:
    """Check every state that a power cut could leave, and minimise the failures.

    What the drive may lose follows from its write buffer, mapping unit and power-loss
    protection. Where there are too many states they are sampled, and how many is told.
    """
    from drivebay.cli.progress import LINE_EVERY_S, status
    from drivebay.crash import run as runs

    asked = _asked(recording, check, drive, changes, atomic, ignore_flush, after)
    asked = asked | {"states": states, "seed": seed, "timeout_s": timeout}
    folder = out or recording.with_name(recording.name + ".run")
    with status(LINE_EVERY_S) as tell:
        found = runs.run(
            runs.Asked(**asked),
            folder,
            jobs,
            lambda done, all, failed: tell(
                f"{done:,} of {all:,} states checked, {failed:,} failed"
            ),
            scratch,
        )
    say_notes(found.notes)
    smallest = {one.states[0]: one.smallest for one in found.failures}
    failed = found.failed
    if as_json:
        fields = {"failed": failed, "smallest": smallest, "notes": found.notes}
        print_json({"states": len(found.verdicts), "coverage": found.coverage, **fields})
    else:
        from drivebay.crash import words

        show(words.covered(found.coverage, len(found.verdicts)) + f"; {len(failed):,} failed")
        core = runs.Asked(**asked).open()
        for one in found.failures:
            alike = f" and {len(one.states) - 1:,} alike" * (len(one.states) > 1)
            show("", f"the smallest that fails, of {one.states[0]}{alike}: {one.smallest}")
            show(*words.timeline(core.timeline(one.smallest)))
            said = one.verdict.said or "nothing"
            show(f"the check said: {said}", f"drivebay crash replay {folder} {one.smallest}")
    raise SystemExit(EXIT_CHECK_FAILED if failed else EXIT_DONE)


def _asked(
    recording: Path,
    check: list[str],
    drive: str | None,
    set_: list[str] | None,
    atomic: str | None,
    ignore_flush: bool,
    after: str | None,
) -> dict[str, Any]:
    """The fields of `Asked` that say which states there are."""
    from drivebay.cli.target import modified_profile
    from drivebay.common.errors import UserError

    if set_ and drive is None:
        raise UserError("--set is for --drive", "--drive sm951-nvme-256 --set ignore_flush")
    changes: dict[str, Any] = {"ignores_flush": True} if ignore_flush else {}
    if atomic is not None:
        size = units.parse_bytes(atomic, option="--atomic")
        if not 512 <= size <= 1 << 20 or size & (size - 1):
            raise UserError(f"--atomic {atomic} is not possible", "a power of two, 512B to 1MiB")
        changes["atomic_bytes"] = size
    profile = None if drive is None else modified_profile(drive, set_)
    return {
        "recording": recording,
        "check": tuple(check),
        "drive": profile,
        "changes": changes,
        "after": after,
    }


@app.command(
    "show",
    epilog="""\b
Examples:
  drivebay crash show kv.crash                 what was recorded
  drivebay crash show kv.crash 12:lost:40      what led to a state
  drivebay crash show kv.crash.run             verdicts""",
)
def show_(
    place: Path = argument("RECORDING|FOLDER", "A recording, or the folder of a run."),
    state: str | None = argument("STATE", "A state's name."),
    drive: Rules = None,
    as_json: options.Json = False,
) -> None:
    """Describe a recording, a run's verdicts, or what led to a state."""
    from drivebay.crash import run as runs
    from drivebay.crash import words

    found: Mapping[str, Any]
    if place.is_dir() and state is None:
        verdicts = runs.verdicts_of(place)
        failed = {name: one.said for name, one in verdicts.items() if one.failed}
        found = {**runs.read(place), "checked": len(verdicts), "failed": failed}
        lines = [words.covered(found["coverage"], len(verdicts)) + f"; {len(failed):,} failed"]
        lines += [
            f"{name}  {said.splitlines()[-1] if said else ''}" for name, said in failed.items()
        ]
    else:
        core = _of(place, drive).open()
        if state is not None:
            found = core.timeline(state)
            lines = list(words.timeline(found))
        else:
            found = core.info()
            lines = [f"{key}  {value}" for key, value in found.items()]
    if as_json:
        print_json(found)
    else:
        show(*lines)


def _of(place: Path, drive: str | None) -> Asked:
    """The recording, or that of a run with the run's rules."""
    from drivebay.crash import run as runs

    if not place.is_dir():
        return runs.Asked(**_asked(place, [], drive, None, None, False, None))
    before = runs.read(place)
    own = _asked(Path(before["recording"]), [], drive, None, None, False, before["after"])
    return runs.Asked(**(own | {"changes": before["rules"]}))


@app.command(
    epilog="""\b
Examples:
  drivebay crash replay kv.crash 12:lost:40 --nbd unix:/tmp/state.sock
  drivebay crash replay kv.crash.run 12:lost:40 --file state.img"""
)
def replay(
    place: Path = argument("RECORDING|FOLDER", "A recording, or the folder of a run."),
    state: str = argument("STATE", "A state's name."),
    nbd: str | None = option("ADDRESS", "Serve it over NBD, until Ctrl-C."),
    file: Path | None = option("FILE", "Write it into this new file."),
    drive: Rules = None,
) -> None:
    """Make a state again: as a file, or a drive that is served."""
    from drivebay.common.errors import UserError
    from drivebay.crash import replay as replays
    from drivebay.crash import words

    if (nbd is None) == (file is None):
        raise UserError("replay takes one of --nbd and --file", "--nbd unix:/tmp/state.sock")
    core = _of(place, drive).open()
    for line in words.timeline(core.timeline(state)):
        say(line)
    if file is not None:
        replays.write(core, state, file)
        print(file)
    else:
        with replays.served(core, state, str(nbd)) as server:
            say(f"nbd     {server.addresses[0]}; Ctrl-C ends")
            server.run()
