"""The installed fio; one process: started, asked each second, stopped, waited for.

Sources: fio's HOWTO (SIGUSR1 prints the running figures); measured here with 3.25 to 3.41: the
answer comes 1 ms after the signal and costs 1 ms of a helper thread. `--status-interval=1` prints
the same, but at its own seconds (0.9 s, 1.9 s after the job's start): each of our seconds would mix
two of its, and the spread over the seconds would be 10 % too small.

fio runs in its own session, so that Ctrl-C reaches drivebay only, which then stops it; the kernel
sends it SIGTERM if drivebay dies; with `thread=1` it has no children.

Leaves out: the meaning of the figures (parse) and fio's job files (job).
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import json
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

from drivebay.common import programs
from drivebay.common.errors import EnvironmentProblem
from drivebay.targets.base import Progress
from drivebay.targets.fio import parse
from drivebay.targets.fio.job import TARGET_VARIABLE, probe_job
from drivebay.targets.safety import in_use

# io_uring is blocked in many containers; libaio then does the same work.
ENGINES = ("io_uring", "libaio")
ARGUMENTS = ("--output-format=json+", "--eta=never", "-")
STOPPED_EXIT_CODE = 128
POLL_S = 0.25
FIRST_ASK_S = 0.05
SHORTEST_S = 0.3
NEVER = float("inf")
ANSWER_S = 0.001
# Seconds that an answer takes: at first, and at most; the estimate adapts in between.
ANSWER_MAX_S = 0.05
# An answer this much before a second's end serves as that second's.
EARLY_MS = 50
KEPT_LEVEL = 2
# Compression of an answer's 46 KB takes 0.4 ms this way; 8.8 ms line by line at gzip's own level
# 9 (measured).
KEPT_BUFFER_BYTES = 2**16
# Part of fio's message (backend.c, thread_main) after a job has waited for its own statistics for
# five seconds; the thread that requested them then waits for ever. Fixed in 3.42 (commit
# 00084f95).
STUCK = b"stuck grabbing stat_sem"
STUCK_LOOKED_AT_BYTES = 4096
# Bytes of output up to the end of a document. guess: 40 jobs with counts in each of 1,856 bins
# (stat.h) of nine histograms; with the bins seen in practice an answer has 46 KB.
DOCUMENT_BYTES_MAX = 2**24
# Documents that fio may print without a request. guess: it prints one at its end.
UNASKED_MAX = 16
# Bytes of fio's stderr. guess: all output seen is below 1 KB.
COMPLAINTS_BYTES_MAX = 2**20
FULL = {
    errno.ENOSPC: "the file system of the tested file is full",
    errno.EDQUOT: "the disk quota of the tested file is used up",
}
# An I/O that hangs delays fio's end; only after this time is fio killed, which is safe: it has no
# children.
KILL_AFTER_S = 60.0

# Works as the shell's `exec`, but first requests SIGTERM when the parent dies (prctl 1). A
# preexec_fn would run Python between fork and exec, which may hang in a program with threads.
_EXEC = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); "
    "os.getppid() == int(sys.argv[1]) and os.execv(sys.argv[2], sys.argv[2:])"
)


@dataclass(frozen=True)
class Tool:
    """The fio to use: its path, its version as it prints it, and the engine that works here."""

    path: str
    version: str
    engine: str


def working_tool(target_path: str, *, shown: str) -> Tool:
    """Find fio, its version, and the first engine with which it can read the target. Raises
    EnvironmentProblem if fio is missing, is of an unknown version, or cannot read the target.
    """
    path = installed()
    version = _once(path, "--version")[1].strip()
    parse.parse_version(version)
    complaints = []
    with in_use.opened(target_path) as fd:
        for engine in ENGINES:
            job, target = probe_job(engine=engine), f"/proc/{os.getpid()}/fd/{fd}"
            exit_code, _, said = _once(path, *ARGUMENTS, job=job, target=target)
            if exit_code == 0:
                return Tool(path, version, engine)
            complaints.append(first_line(said))
    raise EnvironmentProblem(
        f"fio cannot read {shown} by {' or '.join(ENGINES)}: {complaints[0]}",
        "look for the cause with: dmesg | tail",
    )


def must_have(option: str, *, since: str, instead: str) -> None:
    """Raise if the installed fio does not know an option of its job files; touches no drive.
    `since`: the first fio with the option, for the error. `instead`: the alternative without the
    option, for the hint.
    """
    path = installed()
    answer = _once(path, f"--cmdhelp={option}")[1]
    if not re.search(rf"^\s*{option}:", answer, re.MULTILINE):
        version = _once(path, "--version")[1].strip()
        raise EnvironmentProblem(
            f"{option} needs fio {since} or later; installed is {version}",
            f"install a newer fio: https://github.com/axboe/fio; or {instead}",
        )


def installed() -> str:
    """Returns the path of fio; raises EnvironmentProblem if it is not installed."""
    if (found := shutil.which("fio")) is None:
        raise EnvironmentProblem(
            "fio is not installed; files and block devices are tested through it", "apt install fio"
        )
    return os.path.realpath(found)


def _once(fio: str, *arguments: str, job: str = "", target: str = "") -> tuple[int, str, str]:
    """Runs a fio that ends by itself; returns its exit code, output and stderr."""
    try:
        more = {TARGET_VARIABLE: target}
        done = programs.ask(
            [fio, *arguments], timeout_s=60, typed=job.encode(), more=more, folder="/"
        )
    except programs.NoAnswer as problem:
        raise EnvironmentProblem(f"{fio} cannot be run: {problem}", "apt install fio") from None
    output, complaints = (part.decode(errors="replace") for part in (done.stdout, done.stderr))
    return done.returncode, output, complaints


def first_line(stderr: str) -> str:
    """Returns the first line of stderr that is not blank."""
    return next((line.strip() for line in stderr.splitlines() if line.strip()), "no reason given")


class Fio:
    """A running fio; leaving the `with` block stops it in every case."""

    def __init__(self, fio: str, job: str, target_fd: int) -> None:
        self.target = f"/proc/{os.getpid()}/fd/{target_fd}"
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by _artefacts)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _EXEC, str(os.getpid()), fio, *ARGUMENTS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env={**os.environ, "LC_ALL": "C", TARGET_VARIABLE: self.target},
            cwd="/",
            start_new_session=True,
        )
        self.answers: queue.SimpleQueue[tuple[float, parse.Document | None]] = queue.SimpleQueue()
        self.stdout = tempfile.TemporaryFile()  # noqa: SIM115 (likewise)
        self.stopped = False
        self.asked = 0
        self._overflows = False
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError), self.process.stdin as stdin:
            stdin.write(job.encode())  # a pipe breaks if fio has ended; then stderr has the reason
        self._reader = threading.Thread(
            target=self._read, args=(self.process.stdout,), daemon=True, name="fio-output"
        )
        self._reader.start()

    def _read(self, stdout: IO[bytes]) -> None:
        left, count = DOCUMENT_BYTES_MAX, 0
        with (
            gzip.GzipFile("", "wb", KEPT_LEVEL, self.stdout, mtime=0) as packed,
            io.BufferedWriter(packed, KEPT_BUFFER_BYTES) as kept,
        ):

            def lines() -> Iterator[str]:
                nonlocal left
                while line := stdout.readline(left + 1):
                    if (left := left - len(line)) < 0:
                        return
                    kept.write(line)
                    yield line.decode(errors="replace")

            for document in parse.documents(lines()):
                self.answers.put((time.monotonic(), document))
                left, count = DOCUMENT_BYTES_MAX, count + 1
                if count > self.asked + UNASKED_MAX:
                    left = -1
                    break
        self._overflows = left < 0
        stdout.close()  # ends a fio that is still writing
        if not self._overflows:
            self.answers.put((time.monotonic(), None))

    def can_be_asked(self) -> bool:
        """True if fio has installed its signal handler; before that, SIGUSR1 would end it."""
        try:
            with open(f"/proc/{self.process.pid}/status") as status:
                caught = next(line for line in status if line.startswith("SigCgt:"))
        except (OSError, StopIteration):
            return False
        return bool(int(caught.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1)

    def ask(self) -> None:
        """Have fio print its figures so far."""
        if self.process.poll() is None:
            self.asked += 1
            self.process.send_signal(signal.SIGUSR1)

    def stop(self) -> None:
        """Have fio end soon and print its final figures."""
        self.stopped = True
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def is_stuck(self) -> bool:
        """True if fio has printed that its statistics are locked for ever: then it neither answers
        nor ends (before 3.42, where it was asked just when a job ended).
        """
        return STUCK in os.pread(self.stderr.fileno(), STUCK_LOOKED_AT_BYTES, 0)

    def prints_too_much(self) -> bool:
        """True if stdout or stderr has more output than fio normally prints."""
        return self._overflows or os.fstat(self.stderr.fileno()).st_size > COMPLAINTS_BYTES_MAX

    def answer(self, timeout_s: float) -> tuple[float, parse.Document | None] | None:
        """Returns the next document and its arrival time; None in place of the document at the end
        of the output; only None if nothing arrived in time.
        """
        try:
            return self.answers.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None

    def __enter__(self) -> Fio:
        return self

    def __exit__(self, *problem: object) -> None:
        self.stop()
        try:
            self.process.wait(KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()


def run(
    tool: Tool,
    job: str,
    target_fd: int,
    *,
    name: str,
    shown_target: str,
    progress: Progress,
    each_second: Callable[[parse.Recorder], bool],
    asks_until_ms: Callable[[parse.Recorder], float],
    on_start: Callable[[int], None] = lambda _: None,
    look: Callable[[], None] = lambda: None,
    jobs: int = 1,
) -> tuple[list[parse.Recorder], dict[str, bytes]]:
    """Run a job file to its end, or until `each_second` returns True. Raises Cancelled if asked to
    stop; fio has ended by then; EnvironmentProblem if fio fails, with the first line of its
    stderr.

    Parameters
    ----------
    target_fd : our open descriptor of the file or device: fio opens exactly this file, even if the
    path has changed since.
    name : base name of the kept files.
    each_second : called after every answer; True stops the job.
    asks_until_ms : from this point of the job on no more answers are requested, as a fio that is
    asked while it ends may crash (seen in all versions). Called with the figures so far.
    on_start : called with fio's process number.
    look : called several times a second while fio runs; an exception from it ends the job.
    jobs : number of jobs in the file, which run at the same time; each has a recorder, in their
    order, and the callbacks are given the first.
    """
    seconds = _Seconds([parse.Recorder(number) for number in range(jobs)], asks_until_ms)
    first, *_ = seconds.recorders
    last: parse.Document | None = None
    with Fio(tool.path, job, target_fd) as running:
        on_start(running.process.pid)
        while True:
            progress.check()
            look()
            if running.prints_too_much():
                raise EnvironmentProblem(
                    f"{tool.path} prints more than figures: over {DOCUMENT_BYTES_MAX / 1e6:.3g} MB "
                    f"in one answer, {UNASKED_MAX} answers that it was not asked for, or over "
                    f"{COMPLAINTS_BYTES_MAX / 1e6:.3g} MB of complaints",
                    f"is it fio? {tool.path} --version",
                )
            got = running.answer(seconds.ask(running))
            if got is None:
                if seconds.waiting and running.is_stuck():
                    raise EnvironmentProblem(
                        "fio is stuck, as before 3.42 when it is asked while a job ends",
                        "go on with --resume; a newer fio does not",
                    )
                continue
            came, document = got
            if document is None:
                break
            last = document
            if running.stopped:
                seconds.waiting = False
            elif seconds.take(came, document) and each_second(first):
                running.stop()
        exit_code = running.process.wait()
        stopped = running.stopped
    artefacts = _artefacts(running, tool, job, name, shown_target, last)
    allowed = (0, STOPPED_EXIT_CODE) if stopped else (0,)
    if exit_code not in allowed or last is None or parse.job_error(last) != 0:
        said = first_line(artefacts[f"{name}.stderr.txt"].decode(errors="replace"))
        raise _failure(said.replace(running.target, shown_target), exit_code, last)
    for one in seconds.recorders:
        one.finish(last)
        one.zero_s = seconds.zero
    return seconds.recorders, artefacts


class _Seconds:
    """Schedule of requests to fio, so that its answers come at full seconds of the job's clock;
    `zero` is the estimated start of that clock.
    """

    def __init__(
        self, recorders: list[parse.Recorder], asks_until_ms: Callable[[parse.Recorder], float]
    ) -> None:
        self.recorders = recorders
        self.waiting = False
        self.zero = time.monotonic()
        self._asks_until_ms = asks_until_ms
        self._asked_ms, self._answer_s = 0, ANSWER_S
        long_enough = self._until_ms() > 1000 * SHORTEST_S
        self._next = self.zero + FIRST_ASK_S if long_enough else NEVER

    def _until_ms(self) -> float:
        return self._asks_until_ms(self.recorders[0])

    def ask(self, running: Fio) -> float:
        """Asks fio if a request is due; returns the seconds to wait for an answer."""
        now = time.monotonic()
        if now >= self._next and not self.waiting and not running.stopped:
            if self._asked_ms and (now - self.zero) * 1000 >= self._until_ms():
                self._next = NEVER
            elif running.can_be_asked():
                running.ask()
                self.waiting = True
            else:
                self._next = now + FIRST_ASK_S
        return POLL_S if self.waiting else min(POLL_S, self._next - now)

    def take(self, came: float, document: parse.Document) -> bool:
        """Adds an answer; returns False before each job has begun."""
        answers_ms = self._asked_ms if self.waiting and self._asked_ms else None
        self.waiting = False
        if not answers_ms and not parse.has_begun(document, len(self.recorders)):
            self._next = came + FIRST_ASK_S
            return False
        ms = parse.runtime_ms(document)
        for one in self.recorders:
            one.add(document, asked_ms=answers_ms)
        if answers_ms:
            answer_s = self._answer_s + (ms - answers_ms) / 2000
            self._answer_s = min(max(answer_s, 0.0), ANSWER_MAX_S)
        self._asked_ms = ((ms + EARLY_MS) // 1000 + 1) * 1000
        self.zero = came - self._answer_s - ms / 1000
        over = self._asked_ms >= self._until_ms()
        self._next = NEVER if over else self.zero + self._asked_ms / 1000
        return True


def _artefacts(
    running: Fio, tool: Tool, job: str, name: str, shown: str, last: parse.Document | None
) -> dict[str, bytes]:
    def whole(kept: IO[bytes]) -> bytes:
        with kept:
            kept.seek(0)
            return kept.read()

    arguments = " ".join(ARGUMENTS)
    target = shlex.quote(shown.replace(":", "\\:"))  # a colon would part two file names
    return {
        f"{name}.fio": job.encode(),
        f"{name}.command.txt": (
            f"{TARGET_VARIABLE}={target} {tool.path} {arguments} < {name}.fio\n".encode()
        ),
        f"{name}.json": json.dumps(last, indent=1).encode(),
        f"{name}.stdout.gz": whole(running.stdout),
        f"{name}.stderr.txt": whole(running.stderr),
        f"{name}.exit-code.txt": f"{running.process.returncode}\n".encode(),
        "fio-version.txt": f"{tool.version}\n".encode(),
    }


def _failure(reason: str, exit_code: int, last: parse.Document | None) -> EnvironmentProblem:
    error = 0 if last is None else parse.job_error(last)
    for number, is_used_up in FULL.items():
        if error == number or os.strerror(number) in reason:
            return EnvironmentProblem(is_used_up, "free some space: df -h, quota")
    if error and reason == "no reason given":
        reason = os.strerror(error)
    return EnvironmentProblem(
        f"fio failed (exit code {exit_code}): {reason}", "look for the cause with: dmesg | tail"
    )
