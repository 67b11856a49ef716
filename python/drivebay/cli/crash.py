"""`drivebay crash`: checks every state that a power cut could leave, and minimises failures."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from drivebay import serving
from drivebay.cli import complete, options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import print_json, say, say_notes, show
from drivebay.cli.target import modified_profile
from drivebay.common import units
from drivebay.common.errors import EXIT_CHECK_FAILED, EXIT_DONE, EXIT_USAGE, UserError

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

Capacity = Annotated[
    str | None, option("SIZE", "Scale the drive down to at least this capacity (see serve).")
]
WriteBack = Annotated[
    float,
    option(
        "N",
        "Write the workload's open files back and sync its folders N times a second, as happens "
        "on a busy machine.",
        min=0,
    ),
]
Rules = Annotated[
    str | None,
    option("DRIVE", "Use the rules of this drive. [default: the recorded drive]", "--drive"),
]


@app.command()
def record(
    drive: str = argument("DRIVE", f"{options.CATALOG_NAME}.", autocompletion=complete.drives),
    command: list[str] = argument(),
    out: Path = option(),
    image: Path | None = option("--from"),
    capacity: Capacity = None,
    writeback: WriteBack = 0.0,
    pace: Literal["sleep", "hybrid", "spin", "none"] = option(default="none"),
    changes: options.Set = None,
    seed: options.Seed = 1,
) -> None:
    """Record the commands of a workload on a served drive, with their data.

    The exit code is that of the workload.

    Examples:
      drivebay crash record sm951-nvme-256 --out kv.crash -- ./workload {}
      drivebay crash record sm951-nvme-256 --capacity 1G --from db.img \\
          --out db.crash -- sh -c './workload "$DRIVEBAY_NBD"'

    {} is a file with the drive's data (by nbdfuse); $DRIVEBAY_NBD is the drive's
    NBD address. The workload marks what it has committed with a line to the
    control socket:
      echo "mark committed 17" | nc -UN "$DRIVEBAY_CONTROL"
    $DRIVEBAY_STRACE, in front of a program on a file system, traces its system
    calls to FILE.strace, by which run explains a failure (needs strace).
    drivebay serve --record FILE records a drive that is served in any other way.

    Parameters
    ----------
    command : -- COMMAND...
        Workload to run.
    out : FILE
        New file for the recording.
    image : IMAGE
        Start with the contents of this image (see serve).
    pace :
        Method to meet completion times (see serve).
    """
    profile = modified_profile(drive, changes, capacity)
    served = serving.Drive(profile=profile, image=image, pace=pace, seed=seed)
    raise SystemExit(_record(served, out, command, writeback))


def _record(served: serving.Drive, out: Path, command: Sequence[str], writeback: float) -> int:
    """Records a workload; returns its exit code, as a shell does for a signal."""
    from drivebay.crash import recording

    code = recording.record(served, out, command, writeback)
    say(f"recorded: {out}, {units.si_bytes(out.stat().st_size)}")
    return code if code >= 0 else 128 - code


@app.command()
def run(
    recording: Path = argument(),
    check: list[str] = argument(),
    out: Path | None = option(),
    workload: str | None = option(),
    capacity: Capacity = None,
    writeback: WriteBack = 0.0,
    junit: Path | None = option(),
    sarif: Path | None = option(),
    budget: float | None = option(min=1),
    states: int = option(min=1, default=10_000),
    timeout: float = option(min=0.001, default=60.0),
    drive: Rules = None,
    changes: options.Set = None,
    rules: Literal["nvme", "ata", "disk"] | None = option(),
    atomic: str | None = option(),
    ignore_flush: bool = flag("--ignore-flush"),
    after: str | None = option(),
    scratch: Path | None = option(),
    jobs: options.Jobs = None,
    seed: options.Seed = 1,
    as_json: options.Json = False,
) -> None:
    """Check every state that a power cut could leave, and minimise the failures.

    The drive's write buffer, mapping unit and power-loss protection decide which data it may
    lose. If there are too many states, a sample is checked, and the report says so.

    Examples:
      drivebay crash run kv.crash -- ./check {}
      drivebay crash run kv.crash --workload './workload {}' --budget 1200 \\
          --junit out.xml --sarif out.sarif -- ./check {}
      drivebay crash run fs.crash --states 2000 -- e2fsck -fn {}
      drivebay crash run kv.crash --drive 7450-pro-960 -- ./check {}
      drivebay crash run kv.crash --ignore-flush -- ./check {}
      drivebay crash run kv.crash --after created -- ./check {}

    {} is a file with a state; the check may write to it. $DRIVEBAY_MARK is the
    last mark before the cut, $DRIVEBAY_STATE the name of the state. The check
    exits with 0 if the state is good. Exit codes of run: 0 all states are good; 1
    some are not; 2 a pass proves nothing, because the check passes on an empty
    drive or the recording is cut short.

    Parameters
    ----------
    recording : RECORDING
        Recording, or a log of Linux's dm-log-writes.
    check : -- CHECK...
        Command that checks a state.
    out : FOLDER
        Folder for the verdicts; an existing run is continued. [default: RECORDING.run]
    workload : COMMAND
        Record this command first, on --drive (sm951-nvme-256) with --capacity (the least); see
        record.
    junit : FILE
        Write the failures as JUnit XML.
    sarif : FILE
        Write the failures as SARIF 2.1.0.
    budget : SECONDS
        Time limit of the whole command.
    states : N
        Limit of states to check.
    timeout : SECONDS
        Time after which a check counts as hanging.
    rules :
        Include what this standard permits for data that was not durable: garbage, sheared sectors,
        read errors. [default: none]
    atomic : SIZE
        Unit that a power cut never tears, 512B to 1MiB; for --rules nvme the AWUPF. [default: the
        drive's mapping unit; with --rules 512B, or the AWUPF of --drive]
    ignore_flush :
        Use the rules of a drive that ignores flushes.
    after : MARK
        Cut the power only after the first mark with this text.
    scratch : FOLDER
        Folder for the files of states, for example /dev/shm. [default: TMPDIR]
    """
    from drivebay.cli.progress import LINE_EVERY_S, status
    from drivebay.crash import reports, words
    from drivebay.crash import run as runs
    from drivebay.definitions.scaling import with_capacity

    reports.refuse_others(junit, sarif)
    deadline = None if budget is None else time.monotonic() + budget
    profile = None if drive is None else modified_profile(drive, changes)
    if rules == "nvme" and profile is not None and "identify" in profile.raw:
        blocks = profile.raw["identify"]["atomic_write_power_fail"]["value"] + 1
        atomic = atomic or str(512 << min(11, int(blocks).bit_length() - 1))  # at most 1 MiB
    if workload is not None:
        made = modified_profile(drive or "sm951-nvme-256", changes, capacity)
        made = with_capacity(made, 0) if capacity is None else made
        served = serving.Drive(profile=made, pace="none")
        if code := _record(served, recording, shlex.split(workload), writeback):
            raise UserError(f"the workload fails: exit code {code}", "its output is above")
        profile = changes = None  # the recording has the drive's rules
    if changes and profile is None:
        raise UserError("--set needs --drive", "--drive sm951-nvme-256 --set ignore_flush")
    asked = runs.Asked(
        recording=recording,
        check=tuple(check),
        changes=_changed_rules(rules, atomic, ignore_flush),
        drive=profile,
        after=after,
        states=states,
        seed=seed,
        timeout_s=timeout,
    )
    folder = out or recording.with_name(recording.name + ".run")
    with status(LINE_EVERY_S) as update:

        def tell(done: int, total: int, failed: int) -> None:
            update(f"{done:,} of {total:,} states checked, {failed:,} failed")

        outcome = runs.run(asked, folder, jobs, tell, scratch, deadline)
    say_notes(outcome.notes)
    smallest = {failure.states[0]: failure.smallest for failure in outcome.failures}
    failed = outcome.failed
    again = f"seed {seed}; drivebay crash replay {folder}"
    texts = reports.paragraphs(outcome, asked, again) if junit or sarif or not as_json else {}
    reports.write(junit, sarif, outcome, texts, check)
    if as_json:
        more = {"failed": failed, "smallest": smallest, "notes": outcome.notes}
        print_json({"states": len(outcome.verdicts), "coverage": outcome.coverage, **more})
    else:
        show(words.covered(outcome.coverage, len(outcome.verdicts)) + f"; {len(failed):,} failed")
        core = asked.open()
        for failure in outcome.failures:
            similar = f" and {len(failure.states) - 1:,} similar" * (len(failure.states) > 1)
            show("", f"smallest failing state for {failure.states[0]}{similar}: {failure.smallest}")
            show(*words.timeline(core.timeline(failure.smallest)))
            output = failure.verdict.said or "nothing"
            show(f"output of the check: {output}", texts[failure.smallest])
    raise SystemExit(EXIT_CHECK_FAILED if failed else EXIT_USAGE if outcome.is_void else EXIT_DONE)


def _changed_rules(rules: str | None, atomic: str | None, ignore_flush: bool) -> dict[str, Any]:
    """Fields of the rules that the options change."""
    changes: dict[str, Any] = {"ignores_flush": True} if ignore_flush else {}
    if rules is not None:
        changes |= {"standard": rules, "atomic_bytes": 512}
    if atomic is not None:
        size = units.parse_bytes(atomic, option="--atomic")
        if not 512 <= size <= 1 << 20 or size & (size - 1):
            raise UserError(f"--atomic {atomic} is not possible", "a power of two, 512B to 1MiB")
        changes["atomic_bytes"] = size
    return changes


@app.command("show")
def show_(
    place: Path = argument(),
    state: str | None = argument(),
    drive: Rules = None,
    as_json: options.Json = False,
) -> None:
    """Describe a recording, a run's verdicts, or the events that lead to a state.

    Examples:
      drivebay crash show kv.crash                 contents of the recording
      drivebay crash show kv.crash 12:lost:40      events that lead to a state
      drivebay crash show kv.crash.run             verdicts

    Parameters
    ----------
    place : RECORDING|FOLDER
        Recording, or folder of a run.
    state : STATE
        Name of a state.
    """
    from drivebay.crash import run as runs
    from drivebay.crash import words

    document: Mapping[str, Any]
    if place.is_dir() and state is None:
        verdicts = runs.verdicts_of(place)
        failed = {name: verdict.said for name, verdict in verdicts.items() if verdict.failed}
        document = {**runs.read(place), "checked": len(verdicts), "failed": failed}
        lines = [words.covered(document["coverage"], len(verdicts)) + f"; {len(failed):,} failed"]
        lines += [f"{name}  {(said.splitlines() or [''])[-1]}" for name, said in failed.items()]
    elif state is not None:
        document = _opened(place, drive).open().timeline(state)
        lines = list(words.timeline(document))
    else:
        document = _opened(place, drive).open().info()
        lines = [f"{key}  {value}" for key, value in document.items()]
    if as_json:
        print_json(document)
    else:
        show(*lines)


def _opened(place: Path, drive: str | None) -> Asked:
    """Returns the recording, or the recording of a run with the rules of the run."""
    from drivebay.crash import run as runs

    profile = None if drive is None else modified_profile(drive, None)
    if not place.is_dir():
        return runs.Asked(recording=place, check=(), drive=profile)
    run = runs.read(place)
    file, rules = Path(run["recording"]), run["rules"]
    return runs.Asked(recording=file, check=(), drive=profile, changes=rules, after=run["after"])


@app.command()
def replay(
    place: Path = argument(),
    state: str = argument(),
    nbd: str | None = option(),
    file: Path | None = option(),
    drive: Rules = None,
) -> None:
    """Recreate a state, as a file or as a served drive.

    Examples:
      drivebay crash replay kv.crash 12:lost:40 --nbd unix:/tmp/state.sock
      drivebay crash replay kv.crash.run 12:lost:40 --file state.img

    Parameters
    ----------
    place : RECORDING|FOLDER
        Recording, or folder of a run.
    state : STATE
        Name of a state.
    nbd : ADDRESS
        Serve the state over NBD, until Ctrl-C.
    file : FILE
        Write the state to this new file.
    """
    from drivebay.crash import replay as replays
    from drivebay.crash import words

    if (nbd is None) == (file is None):
        raise UserError("replay needs either --nbd or --file", "--nbd unix:/tmp/state.sock")
    core = _opened(place, drive).open()
    for line in words.timeline(core.timeline(state)):
        say(line)
    if file is not None:
        replays.write(core, state, file)
        print(file)
    else:
        with replays.served(core, state, str(nbd)) as server:
            say(f"nbd     {server.addresses[0]}; Ctrl-C stops it")
            server.run()
