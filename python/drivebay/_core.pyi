"""
The Rust core. Private: people use `drivebay` and `drivebay.definitions`.
"""

from os import PathLike
from pathlib import Path
from typing import Any, Final, SupportsFloat, SupportsIndex, final

from _typeshed import Incomplete, SupportsGetItem
from numpy import bool_, float64, int64, uint8, uint32, uint64
from numpy.typing import NDArray

__all__ = [
    "QUEUE_DEPTH_MAX",
    "Control",
    "Counters",
    "CrashStates",
    "CrashView",
    "Decisions",
    "HandleUse",
    "Health",
    "Histogram",
    "Inside",
    "Mark",
    "OpLatency",
    "Policy",
    "Profile",
    "Progress",
    "RealReplayResult",
    "ReplayControl",
    "ReplayOptions",
    "ReplayProgress",
    "ReplayResult",
    "RunResult",
    "Samples",
    "Server",
    "Survey",
    "TraceBatches",
    "TraceColumns",
    "TraceInfo",
    "TraceSource",
    "TraceSummary",
    "TrimCheckResult",
    "VirtualArray",
    "VirtualDrive",
    "Workload",
    "Zone",
    "replay_real",
    "replay_survey",
    "synth_names",
    "synth_profile",
    "trace_formats",
    "victim_policies",
    "workload_fields",
]

QUEUE_DEPTH_MAX: Final[int]
"""
Most requests that are outstanding, in all queues together.
"""

@final
class Control:
    """Watches and stops a run from another thread."""
    def __new__(cls, /) -> Control: ...
    def cancel(self, /) -> None:
        """Stop the run at its next virtual second; it raises `Cancelled`."""
    def progress(self, /) -> Progress:
        """How far the run has come."""

@final
class Counters:
    """What a drive has counted since it was made."""
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def channel_read_bytes(self, /) -> int:
        """Bytes read over the flash channels."""
    @property
    def commands(self, /) -> int:
        """Host commands."""
    @property
    def copied_pages(self, /) -> int:
        """4 KiB pages copied by garbage collection and by folding."""
    @property
    def energy_j(self, /) -> float:
        """Energy, in joule."""
    @property
    def erases(self, /) -> int:
        """Superblocks erased."""
    @property
    def failed_blocks(self, /) -> int:
        """Flash blocks that failed in use."""
    @property
    def flash_core_busy_s(self, /) -> float:
        """Time that the flash core has worked, in seconds."""
    @property
    def host_pages(self, /) -> int:
        """4 KiB pages that the host wrote."""
    @property
    def page_reads(self, /) -> int:
        """Flash pages read."""
    @property
    def placed_pages(self, /) -> int:
        """4 KiB pages programmed: for the host, garbage collection, the map, and as padding."""
    @property
    def refreshes(self, /) -> int:
        """Superblocks moved because they had been read too often."""
    @property
    def retired_superblocks(self, /) -> int:
        """Superblocks given up."""
    @property
    def retried_reads(self, /) -> int:
        """Reads of flash that needed a retry, garbage collection's included."""
    @property
    def retries(self, /) -> int:
        """Retries of all of these."""
    @property
    def slc_pages(self, /) -> int:
        """Of the pages programmed, those with one bit per cell."""
    @property
    def spare_blocks(self, /) -> int:
        """Spare blocks left."""
    @property
    def temperature_c(self, /) -> float:
        """Temperature, in degrees Celsius."""
    @property
    def throttle_stage(self, /) -> int:
        """Throttle stage, 0 for none."""
    @property
    def throttled_s(self, /) -> float:
        """Time slowed by heat, in seconds."""

@final
class CrashStates:
    """
    A recording, and the states that a power cut could leave.

    `recording`: its file. `drive`: whose rules hold; None for those of the drive that was recorded. `changes`: fields of the rules that are
    different, as `info` has them. `after`: cuts begin at the first mark of this text.
    """
    def __new__(
        cls,
        /,
        recording: str | PathLike[str],
        drive: Profile | None,
        changes: dict[str, object],
        after: str | None,
    ) -> CrashStates: ...
    def enumerate(self, /, most: SupportsIndex, seed: SupportsIndex) -> tuple[list[str], Any]:
        """
        Names of distinct states, at most `most`, and their coverage: cuts, cuts_visited, cuts_exhausted, choices_log2, states,
        volatile_max.
        """
    def info(self, /) -> Any:
        """What was recorded: drive, capacity_bytes, is_truncated, writes, flushes (FUA too), written_bytes, distinct_bytes, marks, rules."""
    def last(self, /) -> str | None:
        """The state in which nothing is lost; None without a command."""
    def lost_units(self, /, name: str) -> list[tuple[int, int]]:
        """Units that a state has lost, each with its command."""
    def mark_of(self, /, name: str) -> str | None:
        """The last mark before a state's cut."""
    def timeline(self, /, name: str) -> Any:
        """What led to a state: `Timeline` in crates/crash/src/timeline.rs."""
    def with_lost(self, /, name: str, units: SupportsGetItem[int, SupportsIndex]) -> str:
        """The state of the same cut in which these units are lost, and what does not show below others."""

@final
class CrashView:
    """A new file at `path` that shows one state after the other."""
    def __new__(cls, /, path: str | PathLike[str]) -> CrashView: ...
    def clear(self, /, states: CrashStates) -> None:
        """Makes it an empty drive; to be called before the next state if somebody has written to the file."""
    def show(self, /, states: CrashStates, name: str) -> int:
        """Shows a state; returns how many pages of 4 KiB were written."""

@final
class Decisions:
    """What a policy plug-in was asked; None where it leaves the decision to the drive."""
    @property
    def die_reads(self, /) -> tuple[int, int] | None:
        """Reads that met a program or an erase on their die, and of these those that it had wait."""
    @property
    def levelings(self, /) -> tuple[int, int] | None:
        """Times that it was asked what wear levelling is to move, and of these those where it named a superblock."""
    @property
    def opens(self, /) -> tuple[int, int] | None:
        """Superblocks to be opened, and of these those where the drive would have opened another."""
    @property
    def paces(self, /) -> tuple[int, int] | None:
        """Commands whose pace was asked for, and of these those where it was changed."""
    @property
    def retried(self, /) -> tuple[int, int] | None:
        """Reads with retries, and of these those whose superblock it had moved."""
    @property
    def victims(self, /) -> tuple[int, int] | None:
        """Victims, and of these those where every candidate held as many valid pages."""
    @property
    def writes(self, /) -> tuple[int, int] | None:
        """Writes that needed a frontier, and of these those to the host's second one."""

@final
class HandleUse:
    """What went through a placement handle, or through the frontier of copies, in pages of 4 KiB."""
    @property
    def copied_4k(self, /) -> int:
        """Copied out of its reclaim units by garbage collection."""
    @property
    def handle(self, /) -> int | None:
        """Placement handle, from 0; None of the frontier of copies."""
    @property
    def reclaim_group(self, /) -> int:
        """Reclaim group, from 0."""
    @property
    def unit_left_4k(self, /) -> int:
        """What can still be written to its present reclaim unit."""
    @property
    def waf(self, /) -> float | None:
        """Pages written and copied per page written; None before the first."""
    @property
    def written_4k(self, /) -> int:
        """Written by the host; into the frontier of copies: copied from the handles for the first time."""

@final
class Health:
    """A drive's health log; fields named as in NVMe's SMART page have its meaning."""
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def asleep_s(self, /) -> float:
        """Seconds in which drive or link slept, or fell asleep."""
    @property
    def available_spare_percent(self, /) -> int:
        """Flash left that may fail, per cent."""
    @property
    def busy_s(self, /) -> float:
        """Seconds with a command outstanding."""
    @property
    def critical_temperature_s(self, /) -> float:
        """Seconds at or above the critical temperature."""
    @property
    def data_units_read(self, /) -> int:
        """Units of 512,000 bytes that the host read."""
    @property
    def data_units_written(self, /) -> int:
        """Units of 512,000 bytes that the host wrote."""
    @property
    def erases(self, /) -> tuple[int, int, int]:
        """Erases of a superblock: the fewest, the most, and the mean."""
    @property
    def host_reads(self, /) -> int:
        """Read commands."""
    @property
    def host_writes(self, /) -> int:
        """Write commands."""
    @property
    def link_outages(self, /) -> int:
        """How often the link was down."""
    @property
    def media_errors(self, /) -> int:
        """Reads that no error correction could save."""
    @property
    def node_temperatures_c(self, /) -> list[tuple[str, float]]:
        """Exact temperature of each heat node, with its name."""
    @property
    def percentage_used(self, /) -> int | None:
        """Wear against the rated cycles; None without a rating."""
    @property
    def power_cycles(self, /) -> int:
        """How often the drive was switched on."""
    @property
    def power_on_s(self, /) -> float:
        """Seconds switched on."""
    @property
    def temperature_c(self, /) -> float:
        """As the sensor reads it, whole degrees Celsius."""
    @property
    def throttling(self, /) -> list[tuple[int, float]]:
        """By throttle stage, mildest first: times entered, and seconds."""
    @property
    def unsafe_shutdowns(self, /) -> int:
        """Power lost without warning."""
    @property
    def waf(self, /) -> float | None:
        """4 KiB pages programmed per page that the host wrote; None before the first."""
    @property
    def wakes(self, /) -> int:
        """How often drive or link were woken from sleep."""
    @property
    def warning_temperature_s(self, /) -> float:
        """Seconds at or above the warning temperature, below the critical one."""

@final
class Histogram:
    """Counts of latencies in bins at most 1/64 wide; arrays of shape (bins,), ascending."""
    @property
    def count(self, /) -> NDArray[uint64]:
        """Latencies in each bin."""
    @property
    def high_ns(self, /) -> NDArray[uint64]:
        """End of each bin, exclusive."""
    @property
    def low_ns(self, /) -> NDArray[uint64]:
        """Least latency of each bin, in nanoseconds."""

@final
class Inside:
    """
    What a run kept of the drive's inside.

    Events have columns of shape (events,), in the order in which they began; intervals those of shape
    (intervals,); superblocks those of shape (superblocks,).
    """
    @property
    def begin_ns(self, /) -> NDArray[int64]:
        """Begin, from the start of the run; before it if the drive worked in the idle time before."""
    @property
    def cache_held_pages(self, /) -> NDArray[uint64]:
        """4 KiB pages of data that it held."""
    @property
    def cache_room_pages(self, /) -> NDArray[uint64]:
        """4 KiB pages of data that the SLC cache could hold just then."""
    @property
    def channel_ns(self, /) -> NDArray[uint64]:
        """Time that each channel moved data, shape (intervals * channels,)."""
    @property
    def channels(self, /) -> int:
        """Channels, likewise."""
    @property
    def copied_pages(self, /) -> NDArray[uint32]:
        """4 KiB pages that were copied out of it."""
    @property
    def counted(self, /) -> dict[str, NDArray[uint64]]:
        """
        What the drive had counted since it was made, by name; shape (intervals + 1,), as the others below: at the
        start and at the end of each interval.
        """
    @property
    def die_erase_ns(self, /) -> NDArray[uint64]:
        """Time that each die erased."""
    @property
    def die_program_ns(self, /) -> NDArray[uint64]:
        """Time that each die programmed."""
    @property
    def die_read_ns(self, /) -> NDArray[uint64]:
        """Time that each die read, shape (intervals * dies,)."""
    @property
    def dies(self, /) -> int:
        """Dies, of which `die_read_ns` and others have as many columns."""
    @property
    def dropped(self, /) -> int:
        """Events beyond the limit."""
    @property
    def duration_ns(self, /) -> int:
        """Length of the run."""
    @property
    def end_ns(self, /) -> NDArray[int64]:
        """End, likewise; the largest value where the run ended before."""
    @property
    def erases(self, /) -> NDArray[uint32]:
        """How often it had been erased."""
    @property
    def free_pages(self, /) -> NDArray[uint64]:
        """4 KiB pages that were free."""
    @property
    def interval_ns(self, /) -> int:
        """Length of an interval; the last one ends with the run."""
    @property
    def kind(self, /) -> NDArray[uint8]:
        """What happened."""
    @property
    def kinds(self, /) -> list[str]:
        """Names of the codes in `kind`, `trigger` and `superblock_state`."""
    @property
    def outstanding_ns(self, /) -> NDArray[uint64]:
        """Time of requests that were outstanding at once, added up."""
    @property
    def slc(self, /) -> NDArray[bool_]:
        """It has one bit per cell."""
    @property
    def states(self, /) -> list[str]: ...
    @property
    def superblock(self, /) -> NDArray[uint32]:
        """Number of the superblock."""
    @property
    def superblock_erases(self, /) -> NDArray[uint32]:
        """Times that it had been erased."""
    @property
    def superblock_slc_erases(self, /) -> NDArray[uint32]:
        """How many of them followed use with one bit per cell."""
    @property
    def superblock_state(self, /) -> NDArray[uint8]:
        """What each superblock was doing at the end."""
    @property
    def superblock_valid_pages(self, /) -> NDArray[uint32]:
        """4 KiB pages of data in it."""
    @property
    def trigger(self, /) -> NDArray[uint8]:
        """What a victim was begun by; 255 of other events."""
    @property
    def triggers(self, /) -> list[str]: ...
    @property
    def valid_pages(self, /) -> NDArray[uint32]:
        """4 KiB pages that it held."""

@final
class Mark:
    """Where a drive stood: what `VirtualDrive.live` goes on from."""

@final
class OpLatency:
    """The requests of one kind in a replay on a real drive."""
    @property
    def latency(self, /) -> Histogram:
        """Latencies, from when a request was due."""
    @property
    def latency_ns_sum(self, /) -> int:
        """Sum of the latencies."""
    @property
    def service(self, /) -> Histogram:
        """The drive's own share of them, from when a request was issued."""

@final
class Policy:
    """Compiled code that takes decisions of a virtual drive."""
    @staticmethod
    def from_table(name: str, address: SupportsIndex) -> Policy:
        """
        The plug-in `name`, "name@digest", whose table is at this address; raises `UserError` if it is of another
        version. The table and the code of its functions must stay.
        """

@final
class Profile:
    """A drive profile that was checked: one resolved document, see docs/adr."""
    def __new__(cls, /, document: str, policy: Policy | None = None) -> Profile:
        """
        `document` is the whole profile as JSON, `policy` the plug-in that it names; raises `UserError` naming the
        field that is wrong.
        """
    def __reduce__(self, /) -> tuple[type, tuple[str, Policy | None]]: ...
    @property
    def capacity_bytes(self, /) -> int:
        """User capacity."""
    def check(self, /, workload: Workload) -> None:
        """Raises `UserError` naming the field if a drive of this profile cannot run the workload."""
    @property
    def memory_bytes(self, /) -> int:
        """Memory that a drive of this profile needs for its maps."""

@final
class Progress:
    """How far a run has come, as of its last full second."""
    @property
    def bytes_per_s(self, /) -> int:
        """Bytes of the last second."""
    @property
    def elapsed_s(self, /) -> float:
        """Virtual time since the start."""
    @property
    def iops(self, /) -> int:
        """I/Os of the last second."""
    @property
    def requests(self, /) -> int:
        """Requests of a trace that were replayed; 0 in other runs."""
    @property
    def temperature_c(self, /) -> float:
        """Temperature of the drive, degrees Celsius."""

@final
class RealReplayResult:
    """A replay on a real drive up to its end; columns of shape (seconds,)."""
    @property
    def busy_ns(self, /) -> int:
        """Time with any request outstanding."""
    @property
    def completed(self, /) -> int:
        """Requests that came back, failed ones included."""
    @property
    def direct(self, /) -> bool:
        """Whether the page cache was passed by."""
    @property
    def end_ns(self, /) -> int:
        """From the start to the last completion."""
    @property
    def ended(self, /) -> str:
        """ "complete", "time", "stopped", "failures" or "broken"."""
    @property
    def failed(self, /) -> list[tuple[int, str, int, int, int, int]]:
        """The first 100 of them: number, kind, offset_bytes, bytes, errno, at_ns."""
    @property
    def failures(self, /) -> list[tuple[str, int, int]]:
        """Failed requests: kind, errno (0 for less moved than asked), and how many."""
    @property
    def fixed_buffers(self, /) -> bool:
        """Whether the kernel had the memory registered."""
    @property
    def issued(self, /) -> int:
        """Requests issued."""
    @property
    def late(self, /) -> int:
        """Requests issued late."""
    @property
    def late_not_read(self, /) -> int:
        """Of these, the ones that were not read from the trace in time."""
    @property
    def late_queue_full(self, /) -> int:
        """Of these, the ones that found the queue full."""
    @property
    def latency_ns_max(self, /) -> NDArray[uint64]:
        """Longest of them."""
    @property
    def latency_ns_sum(self, /) -> NDArray[uint64]:
        """Sum of the latencies of reads and writes."""
    @property
    def lateness(self, /) -> Histogram:
        """How late requests were issued."""
    @property
    def lateness_ns_max(self, /) -> int:
        """How late the latest was."""
    @property
    def length_ns(self, /) -> int:
        """From the start to the end, idle time at both ends included."""
    @property
    def ops(self, /) -> list[tuple[str, OpLatency]]:
        """By kind of request: read, write, trim, flush."""
    @property
    def outstanding_counts(self, /) -> list[int]:
        """
        Reads and writes by the number outstanding when they were issued, themselves included: 1, 2, 3, 4-5,
        6-10, 11-20, 21-32, above.
        """
    @property
    def outstanding_max(self, /) -> int:
        """Most of them at once."""
    @property
    def outstanding_ns(self, /) -> int:
        """Reads and writes outstanding, summed over time."""
    @property
    def over_100_ms(self, /) -> int:
        """Reads and writes with a latency over 100 ms."""
    @property
    def over_10_ms(self, /) -> int:
        """Reads and writes with a latency over 10 ms."""
    @property
    def read_bytes(self, /) -> NDArray[uint64]:
        """Bytes read."""
    @property
    def reads(self, /) -> NDArray[uint64]:
        """Reads completed."""
    @property
    def reason(self, /) -> str:
        """Why the trace could not be read further, if it could not."""
    @property
    def skipped_flushes(self, /) -> int:
        """Flushes that were left out."""
    @property
    def skipped_trims(self, /) -> int:
        """Trims that were left out."""
    @property
    def skipped_writes(self, /) -> int:
        """Writes that were left out, in a replay of the reads only."""
    @property
    def unanswered(self, /) -> int:
        """Requests that never came back."""
    @property
    def write_bytes(self, /) -> NDArray[uint64]:
        """Bytes written."""
    @property
    def writes(self, /) -> NDArray[uint64]:
        """Writes completed."""

@final
class ReplayControl:
    """Watches and stops a replay on a real drive from another thread."""
    def __new__(cls, /) -> ReplayControl: ...
    def progress(self, /) -> ReplayProgress:
        """How far the replay has come."""
    def stop(self, /) -> None:
        """Issue nothing more, wait for what is outstanding, and return what there is."""

@final
class ReplayOptions:
    """
    How a trace is replayed; times in seconds, `spin_us` in microseconds.

    `mode` "recorded" issues requests at their recorded times, with idle time cut to `idle_max_s` and
    `time_percent` of the recording's length; "dependencies" issues each as soon as what it waited for in
    the recording has completed. `rule` brings addresses beyond the target onto it: modulo its size ("fold"), or in
    proportion ("scale"). `trim`: trims and flushes as well. `handle_by_device`: the number of a request's
    device is its placement handle, on a virtual drive. The others are for real drives: `only_reads`; `zeros`
    or random bytes of `seed` are written; `depth`, the most requests outstanding; `spin_us` is spun
    before a request is due; `length_max_s` and `failures_max` end it; `buffered` by the page cache.
    """
    def __new__(cls, /, **fields: Any) -> ReplayOptions: ...
    @property
    def buffered(self, /) -> bool: ...
    @property
    def only_reads(self, /) -> bool: ...
    @property
    def trim(self, /) -> bool: ...

@final
class ReplayProgress:
    """How far a replay on a real drive has come."""
    @property
    def bytes(self, /) -> int:
        """Bytes read and written."""
    @property
    def done(self, /) -> int:
        """Requests that came back, failed ones included."""
    @property
    def elapsed_ns(self, /) -> int:
        """Since the start."""
    @property
    def failed(self, /) -> int:
        """Requests that failed."""
    @property
    def late(self, /) -> int:
        """Requests issued late."""

@final
class ReplayResult:
    """A replay on a virtual drive."""
    @property
    def busy_ns(self, /) -> int:
        """Time with at least one I/O outstanding."""
    @property
    def outstanding_counts(self, /) -> list[int]:
        """
        I/Os by the number outstanding at their release, themselves included: 1, 2, 3, 4-5, 6-10, 11-20,
        21-32, above.
        """
    @property
    def outstanding_max(self, /) -> int:
        """Most outstanding at once."""
    @property
    def outstanding_mean(self, /) -> float:
        """Mean number outstanding over the busy time."""
    @property
    def over_100_ms(self, /) -> int:
        """I/Os with a latency over 100 ms."""
    @property
    def over_10_ms(self, /) -> int:
        """I/Os with a latency over 10 ms."""
    @property
    def run(self, /) -> RunResult:
        """The columns and histograms, as of any run."""
    @property
    def skipped(self, /) -> int:
        """Trims and flushes that were not replayed."""

@final
class RunResult:
    """A run: columns of shape (seconds,) unless something else is said."""
    @property
    def after(self, /) -> Counters:
        """The drive's counters after it."""
    @property
    def before(self, /) -> Counters:
        """The drive's counters before the run."""
    @property
    def copied_4k(self, /) -> int | None:
        """4 KiB copied meanwhile of the job's own span, of jobs that ran together and share none."""
    @property
    def end_ns(self, /) -> int:
        """When the run ended, on the drive's clock."""
    @property
    def flush_latency_ns_sum(self, /) -> int:
        """Sum of their latencies."""
    @property
    def flushes(self, /) -> int:
        """Flushes of a mix, which count nowhere else."""
    @property
    def host_pages(self, /) -> NDArray[uint64]:
        """4 KiB pages that the host had written by the end of each whole second, since the drive was made."""
    @property
    def inside(self, /) -> Inside | None:
        """What happened inside the drive, if the run was asked to keep it."""
    @property
    def latency_ns_max(self, /) -> NDArray[uint64]:
        """Longest latency."""
    @property
    def latency_ns_sum(self, /) -> NDArray[uint64]:
        """Sum of the latencies of all I/Os."""
    @property
    def media_errors(self, /) -> int:
        """I/Os whose data could not be read."""
    @property
    def placed_pages(self, /) -> NDArray[uint64]:
        """4 KiB pages that had been programmed by then."""
    @property
    def power_w(self, /) -> NDArray[float64]:
        """Mean power of each whole second, watt."""
    @property
    def power_w_peak(self, /) -> NDArray[float64]:
        """Highest power of a tenth of each whole second."""
    @property
    def queue_ios(self, /) -> NDArray[uint64]:
        """I/Os of each submission queue, shape (queues,)."""
    @property
    def queue_latency_ns_sum(self, /) -> NDArray[uint64]:
        """Sum of their latencies."""
    @property
    def read_bytes(self, /) -> NDArray[uint64]:
        """Bytes read."""
    @property
    def read_latency(self, /) -> Histogram:
        """Latencies of reads."""
    @property
    def reads(self, /) -> NDArray[uint64]:
        """Reads completed."""
    @property
    def samples(self, /) -> Samples | None:
        """Every n-th I/O, if the run was asked to keep them."""
    @property
    def stable(self, /) -> bool:
        """Whether the rule for stability ended it."""
    @property
    def stage_ns(self, /) -> dict[str, NDArray[uint64]]:
        """Sum of the time spent in each stage, by its name."""
    @property
    def start_ns(self, /) -> int:
        """When the run began, on the drive's clock."""
    @property
    def temperature_c(self, /) -> NDArray[float64]:
        """Temperature at the end of each whole second, degrees Celsius."""
    @property
    def throttle_stage(self, /) -> NDArray[uint32]:
        """Throttle stage at the end of each whole second."""
    @property
    def trim_latency_ns_sum(self, /) -> int:
        """Sum of their latencies."""
    @property
    def trims(self, /) -> int:
        """Trims of a mix, which count nowhere else."""
    @property
    def worn_out(self, /) -> bool:
        """Whether it ended because the flash is worn out: what follows is refused."""
    @property
    def write_bytes(self, /) -> NDArray[uint64]:
        """Bytes written."""
    @property
    def write_latency(self, /) -> Histogram:
        """Latencies of writes."""
    @property
    def writes(self, /) -> NDArray[uint64]:
        """Writes completed."""

@final
class Samples:
    """Every n-th I/O of a run; arrays of shape (samples,)."""
    @property
    def at_ns(self, /) -> NDArray[uint64]:
        """When the host made the request, from the start of the run."""
    @property
    def bytes(self, /) -> NDArray[uint64]:
        """Length of the request in bytes."""
    @property
    def is_write(self, /) -> NDArray[bool_]:
        """Whether it was a write."""
    @property
    def latency_ns(self, /) -> NDArray[uint64]:
        """Until it was completed."""
    @property
    def offset_bytes(self, /) -> NDArray[uint64]:
        """First byte of the request."""

@final
class Server:
    """
    Drives that listen from the moment this is made, and answer while `run` runs.

    `profiles`: what the drives are. `document`: `server`, a table of what they share, and `drives`, a list of tables in
    the order of the profiles, with the keys of `Options` and `DriveOptions` in `crates/serve/src/server/options.rs`.
    """
    def __new__(
        cls, /, profiles: SupportsGetItem[int, Profile], document: dict[str, object]
    ) -> Server: ...
    @property
    def addresses(self, /) -> list[str]:
        """Addresses that it listens at, with the ports that it was given."""
    def run(self, /) -> Incomplete:
        """Serve until stopped; the figures of each drive, as the control socket's `status` has them."""
    def status(self, /) -> Incomplete:
        """Figures so far of each drive that runs."""
    def stop(self, /) -> None:
        """Complete what is under way, then end."""

@final
class Survey:
    """What a look through a whole trace finds."""
    @property
    def length_s(self, /) -> float | None:
        """When the last request is due; None where only the drive can say."""
    @property
    def reads(self, /) -> int:
        """Reads."""
    @property
    def recorded_bytes(self, /) -> int:
        """Where the highest address ends."""
    @property
    def requests(self, /) -> int:
        """Requests, trims and flushes included."""
    @property
    def writes(self, /) -> int:
        """Writes."""

@final
class TraceBatches:
    """A trace in the order of its times; reading releases the interpreter lock."""
    def next(self, /) -> TraceColumns | None:
        """The next requests; None at the end."""
    def summary(self, /) -> TraceSummary:
        """What was read so far."""

@final
class TraceColumns:
    """Requests of a trace; arrays of shape (n,), n up to 262,144."""
    @property
    def at_ns(self, /) -> NDArray[uint64]:
        """When each was issued, from 0 at the first request."""
    @property
    def bytes(self, /) -> NDArray[uint64]:
        """Length of the request in bytes; 0 for a flush."""
    @property
    def device(self, /) -> NDArray[uint32]:
        """Device, as the recording numbers it."""
    @property
    def offset_bytes(self, /) -> NDArray[uint64]:
        """First byte of the request."""
    @property
    def op(self, /) -> NDArray[uint8]:
        """0 read, 1 write, 2 trim, 3 flush."""
    @property
    def response_ns(self, /) -> NDArray[int64]:
        """How long it took; -1 where it is not known."""

@final
class TraceInfo:
    """A trace's statistics, see docs/concepts/traces.md; None where the trace does not say, or has no such I/O."""
    @property
    def address_end_bytes(self, /) -> int | None:
        """Where the highest address ends, of any device."""
    @property
    def address_start_bytes(self, /) -> int | None:
        """Lowest address that is read or written, of any device."""
    @property
    def devices(self, /) -> int:
        """Number of devices."""
    @property
    def duration_s(self, /) -> float:
        """Seconds from the first arrival to the last arrival or completion."""
    @property
    def footprint_bytes(self, /) -> int | None:
        """Bytes of the distinct 4 KiB pages read or written."""
    @property
    def idle_s(self, /) -> float | None:
        """Seconds with nothing outstanding."""
    @property
    def overwrite_share(self, /) -> float | None:
        """Share of page writes to pages that the trace had written before."""
    @property
    def queue_depth_mean(self, /) -> float | None:
        """Mean of the outstanding requests at arrival."""
    @property
    def queue_depth_share(self, /) -> list[tuple[str, float]] | None:
        """Shares by outstanding requests at arrival, itself included."""
    @property
    def read_bytes(self, /) -> int:
        """Bytes read."""
    @property
    def reads(self, /) -> int:
        """Number of reads."""
    @property
    def sequential_share(self, /) -> float | None:
        """Share that begins where one of the last 32 of its kind and device ended."""
    @property
    def size_share(self, /) -> list[tuple[str, float]] | None:
        """Shares of reads and writes by size."""
    @property
    def unwritten_read_share(self, /) -> float | None:
        """Share of page reads from pages that the trace had not written before."""
    @property
    def writes(self, /) -> int:
        """Number of writes."""
    @property
    def written_bytes(self, /) -> int:
        """Bytes written."""

@final
class TraceSource:
    """Where the requests of a trace come from: a recorded file, or the synthesizer."""
    def batches(self, /) -> TraceBatches:
        """Its requests in the order of their times, as batches of columns."""
    def convert(self, /, out: str | PathLike[str], to: str) -> TraceSummary:
        """Writes the trace into `out` as "iolog" or "csv"; says what was read."""
    @staticmethod
    def file(
        path: str | PathLike[str],
        format: str | None = None,
        *,
        time_unit: str | None = None,
        unpacked: str | PathLike[str] | None = None,
        columns: str | None = None,
    ) -> TraceSource:
        """
        A recorded file of one of `trace_formats()`, None to detect it. `time_unit`: of its
        times, "s", "ms", "us" or "ns"; `unpacked`: of a Parquet file, its columns as a CSV file; `columns`: which
        column of either holds what, as "time=ts:us,offset=lba:512".
        """
    def info(self, /) -> tuple[TraceInfo, TraceSummary]:
        """The trace's statistics, and what was read."""
    @property
    def name(self, /) -> str:
        """The file's name, or that of the synthesized trace."""
    @property
    def path(self, /) -> Path | None:
        """The recorded file; None of a synthesized trace."""
    def requests(self, /) -> int | None:
        """Number of requests of a synthesized trace; None of a file."""
    def sorted(self, /) -> TraceSource:
        """
        The same trace, sorted through a temporary file first: needed only where a request comes more than 262,144
        requests late.
        """
    @staticmethod
    def synth(
        name: str,
        scale: SupportsFloat | SupportsIndex = 1.0,
        seed: SupportsIndex = 1,
        profile: str | None = None,
    ) -> TraceSource:
        """
        A synthesized trace: one of `synth_names()`, with `scale` times the published number of I/Os;
        `profile` replaces its profile by another one's text.
        """

@final
class TraceSummary:
    """What was read of a trace."""
    @property
    def format(self, /) -> str:
        """The format, or "synthesized"."""
    @property
    def notes(self, /) -> list[str]:
        """What was skipped, and what to doubt, in sentences."""
    @property
    def requests(self, /) -> int:
        """Number of requests."""

@final
class TrimCheckResult:
    """One half of a TRIM check on a virtual drive."""
    @property
    def mapped(self, /) -> int:
        """How many of them still give what was written; the others give zeros."""
    @property
    def outer_lost(self, /) -> int:
        """Pages of the outer quarters that no longer give what was written."""
    @property
    def pages(self, /) -> int:
        """4 KiB pages of the middle halves."""
    @property
    def run(self, /) -> RunResult:
        """The reads of the extents' middle halves, 4 KiB at queue depth 1."""

@final
class VirtualArray:
    """Virtual drives that a host sees as one, as Linux md does; the drives stay the caller's."""
    def __new__(
        cls,
        /,
        members: SupportsGetItem[int, VirtualDrive],
        level: str,
        chunk_bytes: SupportsIndex,
        good_bytes: SupportsGetItem[int, SupportsIndex | None],
    ) -> VirtualArray:
        """
        Of these drives; `good_bytes` is up to where the data of each is good, None of one that failed and -1 of one that is
        whole. Raises `UserError` for what is no array.
        """
    def capacity_bytes(self, /) -> int:
        """What the host can write."""
    def good_bytes(self, /) -> list[int | None]:
        """Up to where the data of each member is good, in bytes: None of one that failed, -1 of one that is whole."""
    def rebuild(
        self,
        /,
        control: Control | None = None,
        rebuild_rate: SupportsFloat | SupportsIndex | None = None,
    ) -> float:
        """Rebuild members that are not whole, with nothing else to do; the seconds that it took."""
    def run_jobs(
        self,
        /,
        jobs: SupportsGetItem[int, tuple[Workload, SupportsIndex]],
        control: Control | None = None,
        rebuild_rate: SupportsFloat | SupportsIndex | None = None,
    ) -> list[RunResult]:
        """As `VirtualDrive.run_jobs`; a member that is not whole is rebuilt meanwhile, at so many bytes a second at most."""
    def stripe_bytes(self, /) -> int:
        """The host's data in a stripe."""

@final
class VirtualDrive:
    """A virtual drive in memory; what it runs releases the interpreter lock, and Ctrl-C stops it."""
    def __new__(cls, /, profile: Profile, seed: SupportsIndex) -> VirtualDrive: ...
    @property
    def capacity_bytes(self, /) -> int:
        """User capacity."""
    def copy(self, /) -> VirtualDrive:
        """Another drive in the same state: both go on bit for bit the same."""
    def copy_from(self, /, other: VirtualDrive) -> None:
        """Make this drive a copy of another, in its memory where that fits."""
    def counters(self, /) -> Counters:
        """What the drive has counted since it was made."""
    def decisions(self, /) -> Decisions | None:
        """What the policy plug-in was asked since the drive was made; None without one."""
    def discard(self, /, start_bytes: SupportsIndex, length_bytes: SupportsIndex) -> None:
        """Discard (TRIM, Deallocate) an extent."""
    def fail_die(self, /, die: SupportsIndex) -> None:
        """A die fails now."""
    def failed_dies(self, /) -> tuple[list[int], bool]:
        """Dies that failed, in order, and whether what lay on them is still being moved."""
    def health(self, /) -> Health:
        """The health log at this moment."""
    def live(
        self,
        /,
        since: Mark,
        times: SupportsFloat | SupportsIndex,
        seconds: SupportsFloat | SupportsIndex,
    ) -> None:
        """What happened since the mark happens `times` times more, in so many seconds, without being simulated."""
    def mark(self, /) -> Mark:
        """Where the drive stands now, for `live`."""
    def placement(self, /) -> list[HandleUse]:
        """
        What went through each placement handle since the drive was made, reclaim group by group and, with initial isolation,
        behind them all through the frontier of copies of each; empty without placement.
        """
    def power_cut(self, /) -> tuple[int, float]:
        """
        Cut the power now and turn it on again: the 4 KiB pages whose newest data is lost, and the
        seconds until the drive answers again.
        """
    def replay(
        self,
        /,
        source: TraceSource,
        options: ReplayOptions,
        control: Control | None = None,
        events: SupportsIndex = 0,
    ) -> ReplayResult:
        """Replay a trace, from the drive's present state and time on; `events`: as of `run`."""
    def reset(self, /, profile: Profile, seed: SupportsIndex) -> None:
        """Make it a new drive of this profile, in its memory where that fits."""
    def rest(self, /, seconds: SupportsFloat | SupportsIndex) -> None:
        """Leave the drive idle for some seconds of its time."""
    def restore(self, /, profile: Profile, path: str | PathLike[str]) -> None:
        """
        Make it a drive of this profile in a state that was saved, in its memory where that fits; after an
        error the drive is gone until `reset`.
        """
    def run(
        self,
        /,
        workload: Workload,
        seed: SupportsIndex,
        control: Control | None = None,
        sample_every: SupportsIndex = 0,
        events: SupportsIndex = 0,
    ) -> RunResult:
        """
        Run one workload, from the drive's present state and time on; keeps every `sample_every`-th I/O, and
        with `events` what happens inside the drive: that many events at most.
        """
    def run_jobs(
        self,
        /,
        jobs: SupportsGetItem[int, tuple[Workload, SupportsIndex]],
        control: Control | None = None,
        events: SupportsIndex = 0,
    ) -> list[RunResult]:
        """
        Run several workloads at once, each with its seed; their results in the same order. `events`: as of
        `run`; what happened inside, of all together, is in the first result.
        """
    def sanitize(self, /, method: str, passes: SupportsIndex = 1) -> float:
        """Sanitize as a command, by "block" or "crypto" erase or so many passes of "overwrite"; returns its seconds."""
    def save(self, /, path: str | PathLike[str]) -> None:
        """Write the drive's whole state to a file."""
    def secure_erase(self, /) -> None:
        """Purge it in no time, as between tests: all data gone, all flash erased; wear stays."""
    def trim_check(
        self,
        /,
        starts: SupportsGetItem[int, SupportsIndex],
        *,
        extent_bytes: SupportsIndex,
        reads: SupportsIndex,
        discard: bool,
        control: Control | None = None,
    ) -> TrimCheckResult:
        """
        Write a pattern to the extents that begin at `starts`, or with `discard` discard their middle
        halves; then read the middle halves `reads` times, 4 KiB at queue depth 1.
        """
    def zones(self, /) -> list[Zone]:
        """The zones, in the order of their addresses; empty on a drive without."""

@final
class Workload:
    """
    A closed loop on a span of a drive: what suites and the library resolve their workloads to.

    The fields are those of `workload_fields`; what is left out has the core's default. It ends with the first of
    `stop`: `duration_s` of the drive's time, `bytes` requested, and `stable`, a table of `window_s`, `within_percent` of
    the mean within which its data rates lie, and `min_s`, the earliest end. With none of them it ends when each block
    has come, if the offsets go over the span in passes. Raises `UserError` naming a field that is not allowed.
    """
    def __new__(cls, /, **fields: Any) -> Workload: ...

@final
class Zone:
    """A zone of a drive that has them."""
    @property
    def state(self, /) -> str:
        """ "empty", "implicitly open", "explicitly open", "closed" or "full"."""
    @property
    def written_bytes(self, /) -> int:
        """What the host has written to it: its write pointer, but for a zone that was finished."""

def replay_real(
    source: TraceSource,
    options: ReplayOptions,
    path: str | PathLike[str],
    *,
    capacity_bytes: SupportsIndex,
    block_bytes: SupportsIndex,
    recorded_bytes: SupportsIndex,
    only_reads: bool,
    control: ReplayControl,
) -> RealReplayResult:
    """
    Replays a trace on a file or block device; Ctrl-C ends it, and the result says what happened until then.

    `capacity_bytes` of the target may be used, `block_bytes` is its logical block, `recorded_bytes` is
    where the recording's highest address ends. The replay runs in a thread of its own, so that whoever
    holds the interpreter's lock cannot make it late.
    """

def replay_survey(source: TraceSource, options: ReplayOptions) -> Survey:
    """A look through the whole trace; nothing is issued. Raises `TraceOrderError` if it must be sorted first."""

def synth_names() -> list[str]:
    """Names of the traces that are synthesized."""

def synth_profile(name: str) -> str:
    """The profile of a synthesized trace, as TOML."""

def trace_formats() -> list[str]:
    """Names of the formats that are read."""

def victim_policies() -> list[tuple[str, str, str | None]]:
    """
    The drive's own victim policies: name, description, and the key of `[gc]` that holds the
    parameter, if there is one.
    """

def workload_fields() -> list[tuple[str, str, str]]:
    """The fields of a workload: name, default as JSON, and what is allowed on any drive."""
