"""The Rust core. Private: use `drivebay.catalog` and `drivebay.targets.virtual`."""

from os import PathLike
from typing import Any

class CoreError(Exception):
    """A mistake in a profile or a workload: "what is wrong\\nhint: what to do"."""

class CancelledError(Exception):
    """`Control.cancel` was called."""

class Control:
    """Watches and stops a run from another thread."""

    def __init__(self) -> None: ...
    def cancel(self) -> None: ...
    def requests(self) -> int:
        """Requests of a trace replayed so far."""

    def look(self) -> tuple[float, float, int, int]:
        """Virtual seconds run, temperature in Celsius, I/Os and bytes of the last full second."""

class VirtualDrive:
    """A virtual drive in memory; runs release the interpreter lock."""

    def __init__(self, profile_json: str, seed: int) -> None: ...
    def renew(self, profile_json: str, seed: int) -> None: ...
    def run(
        self, workload_json: str, seed: int, control: Control | None, sample_every: int = 0
    ) -> dict[str, Any]:
        """Runs one workload and returns its columns.

        start_ns, end_ns: int, on the drive's clock; stable: bool; before, after: counters;
        media_errors: int, I/Os whose data could not be read.
        Per second, uint64, shape (seconds,): reads, writes, read_bytes, write_bytes,
        latency_ns_sum, latency_ns_max; stage_ns: a dict of such columns by stage.
        Sensors per second: temperature_c, power_w, power_w_peak (highest tenth of the second;
        float64), throttle_stage (uint32); host_pages, placed_pages (uint64): 4 KiB pages written
        by the host and programmed, from the drive's first day to the end of each second.
        Per submission queue, uint64, shape (queues,): queue_ios, queue_latency_ns_sum.
        Histograms, uint64, shape (bins,): read_low_ns, read_high_ns (exclusive), read_count, and
        the same with write_.
        With `sample_every` n, of every n-th I/O, shape (samples,): sample_at_ns (from the start),
        sample_latency_ns, sample_offset_bytes, sample_bytes (uint64), sample_is_write (bool).
        """
    def power_cut(self) -> tuple[int, float]:
        """Cuts the power now and turns it on: 4 KiB pages whose newest data is lost, and the
        seconds until the drive answers again."""

    def copy(self) -> VirtualDrive:
        """Another drive in the same state: data, wear, clock, heat, and where its seeds stand.

        Both go on bit for bit the same with the same workloads and seeds.
        """
    def copy_from(self, other: VirtualDrive, /) -> None:
        """Makes this drive what `other.copy()` is, in its own memory where that fits: cheaper."""
    def save(self, path: str | PathLike[str], /) -> None:
        """Writes the state that `copy` copies to a file, as a whole or not at all.

        Raises `CoreError` if the file cannot be written. A state is one of this version's model.
        """
    def restore(self, profile_json: str, path: str | PathLike[str], /) -> None:
        """Makes this a drive of the profile in a saved state, in its memory where that fits.

        Raises `CoreError` saying what is wrong with the file: not found, no state, damaged, of
        another version or another profile; the drive is gone then (`renew` makes a new one).
        """
    def trim_check(self, plan_json: str, control: Control | None) -> dict[str, Any]:
        """Writes a pattern (or, with `discard`, discards the middle halves of its stretches), then
        reads the middle halves, 4 KiB at queue depth 1; the columns of `run` for these reads.

        `plan_json`: {"starts": [bytes], "extent_bytes", "reads", "discard"}. More: pages, of the
        middle halves; mapped, how many of them still give what was written (the others give
        zeros); outer_lost, pages of the outer quarters that do not.
        """

    def rest(self, seconds: float) -> None: ...
    def discard(self, start_bytes: int, length_bytes: int) -> None: ...
    def secure_erase(self) -> None:
        """A purge in no time, as between tests: all data gone, all flash erased; wear stays."""
    def sanitize(self, how: str, /) -> float:
        """Sanitize or Format NVM as a command, "block" or "crypto" erase; returns its seconds.

        A crypto erase leaves the flash to be erased when it is used. Pages read as zeros after.
        """
    def counters(self) -> dict[str, Any]: ...
    def health(self) -> dict[str, Any]:
        """The health log, with the units of NVMe's SMART page or as the names say.

        temperature_c (whole degrees), node_temperatures_c (a dict by heat node),
        available_spare_percent, percentage_used (None without a rating), data_units_read and
        data_units_written (512,000 bytes), host_reads, host_writes, busy_s, power_cycles,
        power_on_s, unsafe_shutdowns, media_errors, warning_temperature_s, critical_temperature_s,
        throttling (a list of (times entered, seconds) by stage), wakes, asleep_s, waf (or None).
        """
    @property
    def capacity_bytes(self) -> int: ...

def check_profile(profile_json: str) -> tuple[int, int]:
    """User capacity and memory need, both in bytes; raises `CoreError` naming the field."""

def check_workload(profile_json: str, workload_json: str) -> None:
    """Whether a drive of this profile can be asked this; raises `CoreError` naming the field."""

def replay(
    drive: VirtualDrive, what_json: str, plan_json: str, control: Control | None, /
) -> dict[str, Any]:
    """Replays a trace on a virtual drive and returns the columns of `VirtualDrive.run`, and more.

    `what_json`: {"file": {"path", "format"?, "sort"?}} or {"synth": {"name", "scale", "seed",
    "profile"?}}. `plan_json`: {"pace": {"mode": "recorded", "idle_max_ns"?, "time_percent"?} or
    {"mode": "dependencies"}, "rule"?: "fold" or "scale", "recorded_bytes"?, "trim"?}.
    More: busy_ns, outstanding_max, over_10_ms, over_100_ms, left_out: int; outstanding_mean: float;
    outstanding_counts: list of 8 int, I/Os by the number outstanding at their release, themselves
    included: 1, 2, 3, 4-5, 6-10, 11-20, 21-32, above.
    """

class TraceFileError(CoreError):
    """A trace's file cannot be opened, read or written: the machine, not the trace."""

class TraceOrderError(CoreError):
    """A trace is too far out of order to stream: open it again with `sort`."""

class TraceBatches:
    """A trace in order of time, as batches of columns; reading releases the interpreter lock.

    `from_` is one of `trace_formats()`, None to detect it; `sort` sorts through a temporary file.
    """

    def __init__(self, path: str, from_: str | None, sort: bool, /) -> None: ...
    @staticmethod
    def synth(what_json: str, /) -> TraceBatches:
        """A synthesized trace, as for `replay`."""

    def next(self) -> dict[str, Any] | None:
        """The next columns, shape (n,), n up to 262,144; None at the end.

        at_ns (uint64, from 0), op (uint8: 0 read, 1 write, 2 trim, 3 flush), offset_bytes, bytes
        (uint64), device (uint32), response_ns (int64, -1 where it is not known).
        """
    def summary(self) -> dict[str, Any]:
        """format: str; requests: int, given so far; notes: list of str, what was left out."""

def trace_formats() -> list[str]:
    """Names of the formats that are read."""

def trace_info(path: str, from_: str | None, /) -> tuple[str, dict[str, Any]]:
    """A trace's statistics as JSON, and a summary as of `TraceBatches.summary`."""

def trace_convert(path: str, from_: str | None, out: str, to: str, /) -> dict[str, Any]:
    """Writes a trace into `out` as "iolog" or "csv"; returns a summary."""

def synth_names() -> list[str]:
    """Names of the traces that are synthesized."""

def synth_profile(name: str, /) -> str:
    """The profile of a synthesized trace, as TOML."""

def synth_size(what_json: str, /) -> tuple[int, int]:
    """Number of requests of a synthesized trace, and where its highest address may end, bytes."""

def synth_info(what_json: str, /) -> str:
    """Statistics of a synthesized trace, as JSON."""

def synth_write(what_json: str, out: str, to: str, /) -> int:
    """Writes a synthesized trace into `out` as "iolog" or "csv"; returns the number of requests."""

class ReplayMachineError(CoreError):
    """A replay cannot begin on this machine: no io_uring, no O_DIRECT, no memory."""

class ReplayWatch:
    """Watches and stops a replay from another thread."""

    def __init__(self) -> None: ...
    def stop(self) -> None:
        """Issue nothing more, wait for what is out, and return what there is."""
    def look(self) -> tuple[int, int, int, int, int]:
        """Nanoseconds since the start; requests done; bytes moved; issued late; failed."""

def replay_survey(plan_json: str, /) -> str:
    """A look through the whole trace, as JSON; nothing is played.

    requests, reads, writes, recorded_bytes (where the highest address ends), length_ns (when the
    last request is due; null where only the drive can say). Raises `TraceOrderError` if the trace
    must be sorted first.
    """

def replay_real(
    plan_json: str, path: str, sizes: tuple[int, int, int], watch: ReplayWatch, /
) -> dict[str, Any]:
    """Plays a trace on a file or block device, in a thread of its own; Ctrl-C stops it.

    `sizes`: bytes of the target that may be used, of its logical block, of the recording (0: not
    known). Returns what happened up to the end, whatever ended it:
    ended: "complete", "time", "stopped", "failures" or "broken", then with a reason; length_ns,
    end_ns (last completion), busy_ns, outstanding_ns (a time integral), outstanding_max,
    outstanding_counts (as of `replay`, when issued); issued, completed, unanswered; late,
    late_queue_full, late_not_read, lateness_ns_max; over_10_ms, over_100_ms; passed_writes,
    passed_trims, passed_flushes; fixed_buffers, direct: bool.
    Per second, uint64, shape (seconds,): reads, writes, read_bytes, write_bytes, latency_ns_sum,
    latency_ns_max. For each of read, write, trim and flush NAME_latency_ns_sum, and histograms,
    uint64, shape (bins,): NAME_low_ns, NAME_high_ns (exclusive), NAME_count; of the drive's own
    share, NAME_service_low_ns and so on; lateness_low_ns and so on.
    failures: list of (op, errno, count), errno 0 for less moved than asked; failed: the first 100
    as (number, op, offset_bytes, bytes, errno, at_ns).
    """

class ServeMachineError(CoreError):
    """A drive cannot be served on this machine: an address in use, a locked file, no memory."""

class Server:
    """A drive that is served: it listens once it is made, and answers while `run` runs."""

    def __init__(self, profile_json: str, seed: int, options_json: str, /) -> None:
        """options: name, nbd (list), data, state, memory_max_bytes, pace, tls (pair or null),
        control, power_cut, loss, faults (list); all must be there."""
    @property
    def addresses(self) -> list[str]:
        """Where clients find it, in the order of the option; with the real port."""
    def run(self) -> str:
        """Serves until stopped; returns the figures as JSON, see docs/concepts/serving.md."""
    def stop(self) -> None:
        """Answers what is under way, then ends; from any thread."""
    def status(self) -> str | None:
        """The figures so far; None if it does not run."""
