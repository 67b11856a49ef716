"""
The Rust core. Private: use `drivebay` and `drivebay.definitions`.
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
    "FlashMap",
    "HandleUse",
    "Health",
    "Histogram",
    "Inside",
    "Mark",
    "OpLatency",
    "Operations",
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
Most outstanding requests over all queues.
"""

@final
class Control:
    """Monitors and stops a run from another thread."""
    def __new__(cls, /) -> Control: ...
    def cancel(self, /) -> None:
        """Stops the run at its next virtual second; the run raises `Cancelled`."""
    def progress(self, /) -> Progress:
        """Returns the progress of the run."""

@final
class Counters:
    """Counters of a drive since it was made."""
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
        """Time that the flash core was busy, in seconds."""
    @property
    def host_pages(self, /) -> int:
        """4 KiB pages that the host wrote."""
    @property
    def page_reads(self, /) -> int:
        """Flash pages read."""
    @property
    def placed_pages(self, /) -> int:
        """4 KiB pages programmed: for the host, garbage collection and the map, and as padding."""
    @property
    def refreshes(self, /) -> int:
        """Superblocks moved because they had been read too often."""
    @property
    def retired_superblocks(self, /) -> int:
        """Superblocks taken out of use."""
    @property
    def retried_reads(self, /) -> int:
        """Flash reads that needed a retry, including those of garbage collection."""
    @property
    def retries(self, /) -> int:
        """Retries of these reads."""
    @property
    def slc_pages(self, /) -> int:
        """Programmed pages with one bit per cell."""
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
        """Time throttled by heat, in seconds."""

@final
class CrashStates:
    """
    A recording, and the states that a power cut could leave.

    `recording`: path of the recording. `drive`: profile whose rules apply; None for the rules of
    the recorded drive. `changes`: changed fields of the rules, with the names in `info`. `after`:
    cuts begin at the first mark with this text.
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
        Returns the names of distinct states, at most `most`, and their coverage: cuts,
        cuts_visited, cuts_exhausted, choices_log2, states, volatile_max, damaged.
        """
    def info(self, /) -> Any:
        """
        Returns a description of the recording: drive, capacity_bytes, is_truncated, writes, flushes
        (including FUA), fua, written_bytes, distinct_bytes, marks, rules.
        """
    def last(self, /) -> str | None:
        """Returns the last state, in which nothing is lost; None if there is no command."""
    def lost_units(self, /, name: str) -> list[tuple[int, int]]:
        """Returns the lost units of a state, each with its command."""
    def mark_of(self, /, name: str) -> str | None:
        """Returns the last mark before a state's cut."""
    def timeline(self, /, name: str) -> Any:
        """Returns the explanation of a state: `Timeline` in crates/crash/src/timeline.rs."""
    def with_lost(self, /, name: str, units: SupportsGetItem[int, SupportsIndex]) -> str:
        """
        Returns the state of the same cut in which these units are lost. Units hidden below present
        ones do not count as lost.
        """

@final
class CrashView:
    """A new file at `path` that shows one state at a time."""
    def __new__(cls, /, path: str | PathLike[str]) -> CrashView: ...
    def clear(self, /, states: CrashStates) -> None:
        """
        Resets the file to an empty drive. Required before the next state if another program has
        written to the file.
        """
    def show(self, /, states: CrashStates, name: str) -> int:
        """Shows a state; returns the number of written 4 KiB pages."""

@final
class Decisions:
    """Number of decisions of a policy plug-in; None for decisions that it leaves to the drive."""
    @property
    def die_reads(self, /) -> tuple[int, int] | None:
        """Reads that met a program or an erase on their die; and those that the plug-in delayed."""
    @property
    def levelings(self, /) -> tuple[int, int] | None:
        """Requests for a superblock to move for wear levelling; and those answered with a superblock."""
    @property
    def opens(self, /) -> tuple[int, int] | None:
        """Superblocks to open; and those for which the drive would have chosen another."""
    @property
    def paces(self, /) -> tuple[int, int] | None:
        """Commands whose pace was requested; and those for which it was changed."""
    @property
    def retried(self, /) -> tuple[int, int] | None:
        """Reads with retries; and those whose superblock was moved."""
    @property
    def victims(self, /) -> tuple[int, int] | None:
        """Victims; and those for which every candidate had the same number of valid pages."""
    @property
    def writes(self, /) -> tuple[int, int] | None:
        """Writes that needed a frontier; and those sent to the host's second one."""

@final
class FlashMap:
    """
    Map of a drive. An address is a number of a mapping unit of flash: superblock times
    `superblock_units`, plus its number in the superblock.
    """
    @property
    def addresses(self, /) -> NDArray[uint32]:
        """Address of each mapping unit of the drive, in their order; 4294967295 if it is not mapped."""
    @property
    def dies(self, /) -> NDArray[uint32]:
        """
        Die of each flash page of a superblock (of the first one, with reclaim groups). The mapping
        units of a flash page are consecutive.
        """
    @property
    def planes(self, /) -> NDArray[uint32]:
        """Plane in its die of each flash page of a superblock."""
    @property
    def superblock_units(self, /) -> int:
        """Mapping units of a superblock."""
    @property
    def unit_bytes(self, /) -> int:
        """Bytes of a mapping unit."""

@final
class HandleUse:
    """Use of a placement handle or of the frontier of copies, in pages of 4 KiB."""
    @property
    def copied_4k(self, /) -> int:
        """Pages copied out of its reclaim units by garbage collection."""
    @property
    def handle(self, /) -> int | None:
        """Placement handle, from 0; None for the frontier of copies."""
    @property
    def reclaim_group(self, /) -> int:
        """Reclaim group, from 0."""
    @property
    def unit_left_4k(self, /) -> int:
        """Pages that can still be written to its present reclaim unit."""
    @property
    def waf(self, /) -> float | None:
        """Pages written and copied per page written; None before the first."""
    @property
    def written_4k(self, /) -> int:
        """
        Pages written by the host; for the frontier of copies: pages copied from the handles for the
        first time.
        """

@final
class Health:
    """A drive's health log; fields named as in NVMe's SMART page have its meaning."""
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def asleep_s(self, /) -> float:
        """Seconds that drive or link slept, or were entering sleep."""
    @property
    def available_spare_percent(self, /) -> int:
        """Remaining spare flash, per cent."""
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
        """Erases per superblock: minimum, maximum, and mean."""
    @property
    def host_reads(self, /) -> int:
        """Read commands."""
    @property
    def host_writes(self, /) -> int:
        """Write commands."""
    @property
    def link_outages(self, /) -> int:
        """Number of link outages."""
    @property
    def media_errors(self, /) -> int:
        """Reads that error correction could not recover."""
    @property
    def node_temperatures_c(self, /) -> list[tuple[str, float]]:
        """Name and exact temperature of each heat node."""
    @property
    def percentage_used(self, /) -> int | None:
        """Wear relative to the rated cycles, per cent; None without a rating."""
    @property
    def power_cycles(self, /) -> int:
        """Number of power-ons."""
    @property
    def power_on_s(self, /) -> float:
        """Seconds powered on."""
    @property
    def temperature_c(self, /) -> float:
        """Temperature as the sensor reads it, whole degrees Celsius."""
    @property
    def throttling(self, /) -> list[tuple[int, float]]:
        """Number of entries and seconds of each throttle stage, mildest first."""
    @property
    def unsafe_shutdowns(self, /) -> int:
        """Number of power losses without warning."""
    @property
    def waf(self, /) -> float | None:
        """4 KiB pages programmed per page that the host wrote; None before the first write."""
    @property
    def wakes(self, /) -> int:
        """Number of times that drive or link were woken from sleep."""
    @property
    def warning_temperature_s(self, /) -> float:
        """Seconds at or above the warning temperature, below the critical one."""

@final
class Histogram:
    """Latency counts in bins at most 1/64 wide; arrays of shape (bins,), ascending."""
    @property
    def count(self, /) -> NDArray[uint64]:
        """Number of latencies in each bin."""
    @property
    def high_ns(self, /) -> NDArray[uint64]:
        """End of each bin, exclusive, in nanoseconds."""
    @property
    def low_ns(self, /) -> NDArray[uint64]:
        """Lowest latency of each bin, in nanoseconds."""

@final
class Inside:
    """
    Events and activity inside the drive during a run.

    Columns of events have shape (events,), in the order of their begin; columns of intervals
    have shape (intervals,), columns of superblocks (superblocks,).
    """
    @property
    def begin_ns(self, /) -> NDArray[int64]:
        """Begin, from the start of the run; negative if the drive worked in the idle time before."""
    @property
    def cache_held_pages(self, /) -> NDArray[uint64]:
        """4 KiB pages of data that the SLC cache held."""
    @property
    def cache_room_pages(self, /) -> NDArray[uint64]:
        """4 KiB pages of data that the SLC cache could hold at that time."""
    @property
    def channel_ns(self, /) -> NDArray[uint64]:
        """Time that each channel transferred data, shape (intervals * channels,)."""
    @property
    def channels(self, /) -> int:
        """Number of channels; `channel_ns` has one column per channel."""
    @property
    def copied_pages(self, /) -> NDArray[uint32]:
        """4 KiB pages copied out of the superblock."""
    @property
    def counted(self, /) -> dict[str, NDArray[uint64]]:
        """
        Counters since the drive was made, by name; shape (intervals + 1,), like the columns below:
        at the start, and at the end of each interval.
        """
    @property
    def die_erase_ns(self, /) -> NDArray[uint64]:
        """Time that each die was erasing."""
    @property
    def die_program_ns(self, /) -> NDArray[uint64]:
        """Time that each die was programming."""
    @property
    def die_read_ns(self, /) -> NDArray[uint64]:
        """Time that each die was reading, shape (intervals * dies,)."""
    @property
    def dies(self, /) -> int:
        """Number of dies; `die_read_ns` and the other columns of dies have one column per die."""
    @property
    def dropped(self, /) -> int:
        """Number of events beyond the limit."""
    @property
    def duration_ns(self, /) -> int:
        """Length of the run."""
    @property
    def end_ns(self, /) -> NDArray[int64]:
        """End, from the start of the run; the largest value if the run ended before."""
    @property
    def erases(self, /) -> NDArray[uint32]:
        """Previous erases of the superblock."""
    @property
    def free_pages(self, /) -> NDArray[uint64]:
        """4 KiB pages that were free."""
    @property
    def interval_ns(self, /) -> int:
        """Length of an interval; the last one ends with the run."""
    @property
    def kind(self, /) -> NDArray[uint8]:
        """Kind of each event."""
    @property
    def kinds(self, /) -> list[str]:
        """Names of the codes in `kind`, `trigger` and `superblock_state`."""
    @property
    def outstanding_ns(self, /) -> NDArray[uint64]:
        """Sum of the times that requests were outstanding."""
    @property
    def slc(self, /) -> NDArray[bool_]:
        """True if the superblock has one bit per cell."""
    @property
    def states(self, /) -> list[str]: ...
    @property
    def superblock(self, /) -> NDArray[uint32]:
        """Number of the superblock."""
    @property
    def superblock_erases(self, /) -> NDArray[uint32]:
        """Erases of each superblock."""
    @property
    def superblock_slc_erases(self, /) -> NDArray[uint32]:
        """Erases of each superblock after use with one bit per cell."""
    @property
    def superblock_state(self, /) -> NDArray[uint8]:
        """State of each superblock at the end."""
    @property
    def superblock_valid_pages(self, /) -> NDArray[uint32]:
        """Valid 4 KiB pages in each superblock."""
    @property
    def trigger(self, /) -> NDArray[uint8]:
        """Trigger of a victim's collection; 255 for other events."""
    @property
    def triggers(self, /) -> list[str]: ...
    @property
    def valid_pages(self, /) -> NDArray[uint32]:
        """Valid 4 KiB pages in the superblock."""

@final
class Mark:
    """A mark of a drive's state, for `VirtualDrive.live`."""

@final
class OpLatency:
    """Requests of one operation in a replay on a real drive."""
    @property
    def latency(self, /) -> Histogram:
        """Latencies, measured from the time when a request was due."""
    @property
    def latency_ns_sum(self, /) -> int:
        """Sum of the latencies."""
    @property
    def service(self, /) -> Histogram:
        """Service times, the drive's part of the latencies, measured from the issue of a request."""

@final
class Operations:
    """
    Operations of the flash translation layer in their order; every array has shape
    (operations,). Pages and addresses are numbers of mapping units as in `FlashMap`.
    """
    @property
    def address(self, /) -> NDArray[uint32]:
        """First address; 0 for kinds without one."""
    @property
    def count(self, /) -> NDArray[uint32]:
        """Number of pages or addresses."""
    @property
    def kind(self, /) -> NDArray[uint32]:
        """
        0: the host writes `count` pages to addresses from `address` on. 1: a valid page is copied
        to `address`. 2: `count` addresses get padding or parity, or nothing on a failed die. 3:
        `count` pages are trimmed. 4: after a power cut a page is at its older `address` again, or
        at none (4294967295). 5: a superblock with `count` addresses is erased. 6: all pages are
        unmapped.
        """
    @property
    def page(self, /) -> NDArray[uint32]:
        """First page; 0 for kinds without one."""

@final
class Policy:
    """Compiled code that makes decisions for a virtual drive."""
    @staticmethod
    def from_table(name: str, address: SupportsIndex) -> Policy:
        """
        Creates the plug-in `name`, in the form "name@digest", from the table at this address.
        Raises `UserError` if it has another version. The table and the code of its functions must
        stay loaded.
        """

@final
class Profile:
    """A checked drive profile: one resolved document, see docs/adr."""
    def __new__(cls, /, document: str, policy: Policy | None = None) -> Profile:
        """
        `document` is the whole profile as JSON, `policy` the plug-in that it names. Raises
        `UserError` with the name of the wrong field.
        """
    def __reduce__(self, /) -> tuple[type, tuple[str, Policy | None]]: ...
    @property
    def capacity_bytes(self, /) -> int:
        """User capacity in bytes."""
    def check(self, /, workload: Workload) -> None:
        """
        Raises `UserError` with the name of the field if a drive with this profile cannot run the
        workload.
        """
    @property
    def memory_bytes(self, /) -> int:
        """Memory for the maps of a drive with this profile, in bytes."""
    @property
    def spare_share(self, /) -> float:
        """Share of the blocks for data that may fail before a new drive with this profile is worn out."""

@final
class Progress:
    """Progress of a run as of its last full second."""
    @property
    def bytes_per_s(self, /) -> int:
        """Bytes in the last second."""
    @property
    def elapsed_s(self, /) -> float:
        """Virtual time since the start."""
    @property
    def iops(self, /) -> int:
        """I/Os in the last second."""
    @property
    def requests(self, /) -> int:
        """Trace requests replayed so far; 0 in other runs."""
    @property
    def temperature_c(self, /) -> float:
        """Temperature of the drive, degrees Celsius."""

@final
class RealReplayResult:
    """Results of a replay on a real drive, up to its end; columns of shape (seconds,)."""
    @property
    def busy_ns(self, /) -> int:
        """Time with any request outstanding."""
    @property
    def completed(self, /) -> int:
        """Requests completed, including failed ones."""
    @property
    def direct(self, /) -> bool:
        """True if direct I/O bypassed the page cache."""
    @property
    def end_ns(self, /) -> int:
        """Time from the start to the last completion."""
    @property
    def ended(self, /) -> str:
        """ "complete", "time", "stopped", "failures" or "broken"."""
    @property
    def failed(self, /) -> list[tuple[int, str, int, int, int, int]]:
        """First 100 failed requests: number, operation, offset_bytes, bytes, errno, at_ns."""
    @property
    def failures(self, /) -> list[tuple[str, int, int]]:
        """
        Failed requests: operation, errno (0 if fewer bytes were moved than requested), and their
        number.
        """
    @property
    def fixed_buffers(self, /) -> bool:
        """True if the memory was registered with the kernel."""
    @property
    def issued(self, /) -> int:
        """Requests issued."""
    @property
    def late(self, /) -> int:
        """Requests issued late."""
    @property
    def late_not_read(self, /) -> int:
        """Late requests that were not read from the trace in time."""
    @property
    def late_queue_full(self, /) -> int:
        """Late requests that found the queue full."""
    @property
    def latency_ns_max(self, /) -> NDArray[uint64]:
        """Longest of these latencies."""
    @property
    def latency_ns_sum(self, /) -> NDArray[uint64]:
        """Sum of the latencies of reads and writes."""
    @property
    def lateness(self, /) -> Histogram:
        """Lateness of issued requests."""
    @property
    def lateness_ns_max(self, /) -> int:
        """Longest lateness."""
    @property
    def length_ns(self, /) -> int:
        """Time from start to end, including idle time at both ends."""
    @property
    def ops(self, /) -> list[tuple[str, OpLatency]]:
        """Latencies by operation: read, write, trim, flush."""
    @property
    def outstanding_counts(self, /) -> list[int]:
        """
        Reads and writes by the number outstanding at their issue, including themselves: 1, 2, 3,
        4-5, 6-10, 11-20, 21-32, above.
        """
    @property
    def outstanding_max(self, /) -> int:
        """Largest number of outstanding reads and writes."""
    @property
    def outstanding_ns(self, /) -> int:
        """Integral of the outstanding reads and writes over time."""
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
        """Reason why the trace could not be read further, if so."""
    @property
    def skipped_flushes(self, /) -> int:
        """Skipped flushes."""
    @property
    def skipped_trims(self, /) -> int:
        """Skipped trims."""
    @property
    def skipped_writes(self, /) -> int:
        """Skipped writes, in a replay of reads only."""
    @property
    def unanswered(self, /) -> int:
        """Requests that never completed."""
    @property
    def write_bytes(self, /) -> NDArray[uint64]:
        """Bytes written."""
    @property
    def writes(self, /) -> NDArray[uint64]:
        """Writes completed."""

@final
class ReplayControl:
    """Monitors and stops a replay on a real drive from another thread."""
    def __new__(cls, /) -> ReplayControl: ...
    def progress(self, /) -> ReplayProgress:
        """Returns the progress of the replay."""
    def stop(self, /) -> None:
        """
        Stops the replay: it issues nothing more, waits for outstanding requests, and returns its
        results.
        """

@final
class ReplayOptions:
    """
    Options of a replay; times in seconds, `spin_us` in microseconds.

    `mode` "recorded" issues requests at their recorded times, with idle time cut to `idle_max_s`,
    and scaled to `time_percent` of the recording's length; "dependencies" issues each request as
    soon as all requests have completed that it waited for in the recording. `rule` maps addresses
    beyond the target: modulo its size ("fold"), or in proportion ("scale"). `trim` includes trims
    and flushes. `handle_by_device` uses the number of a request's device as its placement handle,
    on a virtual drive. The other options are for real drives: `only_reads` replays reads only;
    `zeros` writes zeros instead of random bytes from `seed`; `depth` is the most outstanding
    requests; `spin_us` is the time to spin before a request is due; `length_max_s` and
    `failures_max` end the replay; `buffered` uses the page cache.
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
    """Progress of a replay on a real drive."""
    @property
    def bytes(self, /) -> int:
        """Bytes read and written."""
    @property
    def done(self, /) -> int:
        """Completed requests, including failed ones."""
    @property
    def elapsed_ns(self, /) -> int:
        """Time since the start."""
    @property
    def failed(self, /) -> int:
        """Requests that failed."""
    @property
    def late(self, /) -> int:
        """Requests issued late."""

@final
class ReplayResult:
    """Results of a replay on a virtual drive."""
    @property
    def busy_ns(self, /) -> int:
        """Time with at least one I/O outstanding."""
    @property
    def outstanding_counts(self, /) -> list[int]:
        """
        I/Os by the number outstanding at their release, including themselves: 1, 2, 3, 4-5, 6-10,
        11-20, 21-32, above.
        """
    @property
    def outstanding_max(self, /) -> int:
        """Largest number outstanding."""
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
        """Columns and histograms, as of any run."""
    @property
    def skipped(self, /) -> int:
        """Trims and flushes that were not replayed."""

@final
class RunResult:
    """Results of a run: columns of shape (seconds,) unless noted otherwise."""
    @property
    def after(self, /) -> Counters:
        """The drive's counters after the run."""
    @property
    def before(self, /) -> Counters:
        """The drive's counters before the run."""
    @property
    def copied_4k(self, /) -> int | None:
        """
        4 KiB pages of the job's own span copied during the run; None unless jobs ran together on
        spans that do not overlap.
        """
    @property
    def end_ns(self, /) -> int:
        """End of the run, on the drive's clock."""
    @property
    def flush_latency_ns_sum(self, /) -> int:
        """Sum of their latencies."""
    @property
    def flushes(self, /) -> int:
        """Flushes of a mix, which are in no other count."""
    @property
    def host_pages(self, /) -> NDArray[uint64]:
        """
        4 KiB pages that the host had written by the end of each whole second, since the drive was
        made.
        """
    @property
    def inside(self, /) -> Inside | None:
        """Events inside the drive, if requested."""
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
        """4 KiB pages programmed by the end of each whole second, since the drive was made."""
    @property
    def power_w(self, /) -> NDArray[float64]:
        """Mean power of each whole second, watt."""
    @property
    def power_w_peak(self, /) -> NDArray[float64]:
        """Highest power over a tenth of each whole second, watt."""
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
        """Every n-th I/O, if requested."""
    @property
    def stable(self, /) -> bool:
        """True if the stability rule ended the run."""
    @property
    def stage_ns(self, /) -> dict[str, NDArray[uint64]]:
        """Sum of the time spent in each stage, by its name."""
    @property
    def start_ns(self, /) -> int:
        """Start of the run, on the drive's clock."""
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
        """Trims of a mix, which are in no other count."""
    @property
    def worn_out(self, /) -> bool:
        """True if the run ended because the flash is worn out; the drive refuses all later writes."""
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
        """Time when the host made the request, from the start of the run."""
    @property
    def bytes(self, /) -> NDArray[uint64]:
        """Length of the request in bytes."""
    @property
    def is_write(self, /) -> NDArray[bool_]:
        """True for writes."""
    @property
    def latency_ns(self, /) -> NDArray[uint64]:
        """Latency of the request."""
    @property
    def offset_bytes(self, /) -> NDArray[uint64]:
        """First byte of the request."""

@final
class Server:
    """
    A server of virtual drives; it listens as soon as it is created, and responds while `run` runs.

    `profiles`: profiles of the drives. `document`: `server`, a table of common options, and
    `drives`, a list of tables in the order of the profiles, with the keys of `Options` and
    `DriveOptions` in `crates/serve/src/server/options.rs`.
    """
    def __new__(
        cls, /, profiles: SupportsGetItem[int, Profile], document: dict[str, object]
    ) -> Server: ...
    @property
    def addresses(self, /) -> list[str]:
        """Addresses that it listens on, with the assigned ports."""
    def run(self, /) -> Incomplete:
        """
        Serves until stopped; returns the figures of each drive, as in the control socket's
        `status`.
        """
    def status(self, /) -> Incomplete:
        """Returns the figures so far of each running drive."""
    def stop(self, /) -> None:
        """Completes outstanding requests, then ends."""

@final
class Survey:
    """Results of a survey of a trace."""
    @property
    def length_s(self, /) -> float | None:
        """Due time of the last request; None if it depends on the drive."""
    @property
    def reads(self, /) -> int:
        """Reads."""
    @property
    def recorded_bytes(self, /) -> int:
        """End of the highest address."""
    @property
    def requests(self, /) -> int:
        """Requests, including trims and flushes."""
    @property
    def writes(self, /) -> int:
        """Writes."""

@final
class TraceBatches:
    """A trace in time order; reading releases the interpreter lock."""
    def next(self, /) -> TraceColumns | None:
        """Returns the next requests; None at the end."""
    def summary(self, /) -> TraceSummary:
        """Returns a summary of the reading so far."""

@final
class TraceColumns:
    """Requests of a trace; arrays of shape (n,), n up to 262,144."""
    @property
    def at_ns(self, /) -> NDArray[uint64]:
        """Issue time of each request, from 0 at the first one."""
    @property
    def bytes(self, /) -> NDArray[uint64]:
        """Length of the request in bytes; 0 for a flush."""
    @property
    def device(self, /) -> NDArray[uint32]:
        """Number of the device in the recording."""
    @property
    def offset_bytes(self, /) -> NDArray[uint64]:
        """First byte of the request."""
    @property
    def op(self, /) -> NDArray[uint8]:
        """Operation: 0 read, 1 write, 2 trim, 3 flush, 4 write with FUA."""
    @property
    def response_ns(self, /) -> NDArray[int64]:
        """Response time; -1 if unknown."""

@final
class TraceInfo:
    """
    Statistics of a trace, see docs/concepts/traces.md. Fields are None if the trace lacks the
    information or has no such I/O.
    """
    @property
    def address_end_bytes(self, /) -> int | None:
        """End of the highest address, of any device."""
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
    def flushes(self, /) -> int:
        """Number of flushes."""
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
        """Shares by outstanding requests at arrival, including the request itself."""
    @property
    def read_bytes(self, /) -> int:
        """Bytes read."""
    @property
    def reads(self, /) -> int:
        """Number of reads."""
    @property
    def sequential_share(self, /) -> float | None:
        """Share of I/Os that begin where one of the last 32 of the same kind and device ended."""
    @property
    def size_share(self, /) -> list[tuple[str, float]] | None:
        """Shares of reads and writes by size."""
    @property
    def trims(self, /) -> int:
        """Number of trims."""
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
    """Source of a trace's requests: a recorded file, or the synthesizer."""
    def batches(self, /) -> TraceBatches:
        """Returns the requests in time order, as batches of columns."""
    def convert(self, /, out: str | PathLike[str], to: str) -> TraceSummary:
        """Writes the trace into `out` as "iolog" or "csv"; returns a summary of the reading."""
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
        Creates a source for a recorded file in one of `trace_formats()`, or None to detect the
        format. `time_unit`: unit of its times, "s", "ms", "us" or "ns". `unpacked`: for a Parquet
        file, its columns as a CSV file. `columns`: map of columns for either, like
        "time=ts:us,offset=lba:512".
        """
    def info(self, /) -> tuple[TraceInfo, TraceSummary]:
        """Returns the trace's statistics, and a summary of the reading."""
    @property
    def name(self, /) -> str:
        """Name of the file or of the synthesized trace."""
    @property
    def path(self, /) -> Path | None:
        """Path of the recorded file; None for a synthesized trace."""
    def requests(self, /) -> int | None:
        """Returns the number of requests of a synthesized trace; None for a file."""
    def sorted(self, /) -> TraceSource:
        """
        Returns the same trace, sorted through a temporary file first. Only needed if a request is
        more than 262,144 requests late.
        """
    @staticmethod
    def synth(
        name: str,
        scale: SupportsFloat | SupportsIndex = 1.0,
        seed: SupportsIndex = 1,
        profile: str | None = None,
    ) -> TraceSource:
        """
        Creates a source for a synthesized trace: one of `synth_names()`, with `scale` times the
        published number of I/Os. `profile` is the text of a profile to use instead.
        """

@final
class TraceSummary:
    """Summary of reading a trace."""
    @property
    def format(self, /) -> str:
        """Name of the format, or "synthesized"."""
    @property
    def notes(self, /) -> list[str]:
        """Skipped entries and possible problems, one sentence each."""
    @property
    def requests(self, /) -> int:
        """Number of requests."""
    @property
    def why(self, /) -> str:
        """Reason for the format; empty for synthesized traces."""

@final
class TrimCheckResult:
    """Results of one half of a TRIM check on a virtual drive."""
    @property
    def mapped(self, /) -> int:
        """Pages of the middle halves that still return the written data; the others return zeros."""
    @property
    def outer_lost(self, /) -> int:
        """Pages of the outer quarters that no longer return the written data."""
    @property
    def pages(self, /) -> int:
        """4 KiB pages of the middle halves."""
    @property
    def run(self, /) -> RunResult:
        """Reads of the extents' middle halves, 4 KiB at queue depth 1."""

@final
class VirtualArray:
    """
    Virtual drives that a host sees as one drive, like a Linux md array. The drives remain
    accessible to the caller.
    """
    def __new__(
        cls,
        /,
        members: SupportsGetItem[int, VirtualDrive],
        level: str,
        chunk_bytes: SupportsIndex,
        good_bytes: SupportsGetItem[int, SupportsIndex | None],
    ) -> VirtualArray:
        """
        Creates an array of `members`. `good_bytes` gives the end of each member's valid data: None
        for a failed member, -1 for a complete one. Raises `UserError` for an impossible array.
        """
    def capacity_bytes(self, /) -> int:
        """Returns the capacity for the host in bytes."""
    def good_bytes(self, /) -> list[int | None]:
        """
        Returns the end of each member's valid data in bytes: None for a failed member, -1 for a
        complete one.
        """
    def rebuild(
        self,
        /,
        control: Control | None = None,
        rebuild_rate: SupportsFloat | SupportsIndex | None = None,
    ) -> float:
        """Rebuilds incomplete members, without host requests; returns the elapsed seconds."""
    def run_jobs(
        self,
        /,
        jobs: SupportsGetItem[int, tuple[Workload, SupportsIndex]],
        control: Control | None = None,
        rebuild_rate: SupportsFloat | SupportsIndex | None = None,
    ) -> list[RunResult]:
        """
        Runs jobs like `VirtualDrive.run_jobs`. Incomplete members are rebuilt in parallel, at
        `rebuild_rate` bytes per second at most.
        """
    def stripe_bytes(self, /) -> int:
        """Returns the bytes of host data per stripe."""

@final
class VirtualDrive:
    """
    A virtual drive in memory. Its methods release the interpreter lock while they run, and Ctrl-C
    stops them.
    """
    def __new__(cls, /, profile: Profile, seed: SupportsIndex) -> VirtualDrive: ...
    @property
    def capacity_bytes(self, /) -> int:
        """User capacity in bytes."""
    def copy(self, /) -> VirtualDrive:
        """Returns another drive in the same state; both continue identically, bit for bit."""
    def copy_from(self, /, other: VirtualDrive) -> None:
        """Turns this drive into a copy of another; reuses its memory where it fits."""
    def counters(self, /) -> Counters:
        """Returns the counters since the drive was made."""
    def decisions(self, /) -> Decisions | None:
        """
        Returns the number of decisions of the policy plug-in since the drive was made; None without
        a plug-in.
        """
    def discard(self, /, start_bytes: SupportsIndex, length_bytes: SupportsIndex) -> None:
        """Discards (TRIM, Deallocate) an extent."""
    def fail_die(self, /, die: SupportsIndex) -> None:
        """Makes a die fail now."""
    def failed_dies(self, /) -> tuple[list[int], bool]:
        """Returns the failed dies in order, and whether their data is still being rebuilt."""
    def health(self, /) -> Health:
        """Returns the health log at this time."""
    def live(
        self,
        /,
        began: Mark,
        since: Mark,
        times: SupportsFloat | SupportsIndex,
        seconds: SupportsFloat | SupportsIndex,
    ) -> None:
        """
        Repeats the activity since the mark `since` `times` times, over `seconds` seconds, without
        simulating it. `began` is a mark of the beginning of the load.
        """
    def map(self, /) -> FlashMap:
        """Returns the map."""
    def mark(self, /) -> Mark:
        """Returns a mark of the drive's present state, for `live`."""
    def operations(self, /, keep: bool) -> Operations:
        """
        Returns the operations of the translation layer since the last call, none at the first one.
        `keep`: log them from now on, else no longer.
        """
    def placement(self, /) -> list[HandleUse]:
        """
        Returns the use of each placement handle since the drive was made, by reclaim group,
        followed by the frontier of copies of each group if handles are initially isolated. Empty
        without placement.
        """
    def power_cut(self, /) -> tuple[int, float]:
        """
        Cuts the power now and turns it on again. Returns the number of 4 KiB pages whose newest
        data is lost, and the seconds until the drive responds again.
        """
    def replay(
        self,
        /,
        source: TraceSource,
        options: ReplayOptions,
        control: Control | None = None,
        events: SupportsIndex = 0,
    ) -> ReplayResult:
        """Replays a trace, from the drive's present state and time on; `events` is as in `run`."""
    def reset(self, /, profile: Profile, seed: SupportsIndex) -> None:
        """
        Turns this object into a new drive with the given profile; reuses the old drive's memory
        where it fits.
        """
    def rest(self, /, seconds: SupportsFloat | SupportsIndex) -> None:
        """Leaves the drive idle for some seconds of its time."""
    def restore(self, /, profile: Profile, path: str | PathLike[str]) -> None:
        """
        Turns this object into a drive with the given profile in a saved state; reuses its memory
        where it fits. After an error there is no drive until `reset`.
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
        Runs a workload, from the drive's present state and time on. Keeps every `sample_every`-th
        I/O. If `events` is above 0, also keeps up to `events` events inside the drive, and its
        activity.
        """
    def run_jobs(
        self,
        /,
        jobs: SupportsGetItem[int, tuple[Workload, SupportsIndex]],
        control: Control | None = None,
        events: SupportsIndex = 0,
    ) -> list[RunResult]:
        """
        Runs several workloads at once, each with its seed; returns their results in the same order.
        `events` is as in `run`; the events of all workloads together are in the first result.
        """
    def sanitize(self, /, method: str, passes: SupportsIndex = 1) -> float:
        """
        Sanitizes the drive with a command: "block" or "crypto" erase, or `passes` passes of
        "overwrite". Returns its duration in seconds.
        """
    def save(self, /, path: str | PathLike[str]) -> None:
        """Writes the drive's whole state to a file."""
    def secure_erase(self, /) -> None:
        """
        Purges the drive in no time, as between tests: all data is gone, all flash erased; wear
        remains.
        """
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
        Writes a pattern to the extents that begin at `starts`, or with `discard` discards their
        middle halves; then reads the middle halves `reads` times, 4 KiB at queue depth 1.
        """
    def zones(self, /) -> list[Zone]:
        """Returns the zones in address order; empty for a drive without zones."""

@final
class Workload:
    """
    A closed loop on a span of a drive; suites and the library convert their workloads to this form.

    The fields are those of `workload_fields`; missing fields have the core's defaults. The workload
    ends with the first of `stop`: `duration_s` of the drive's time, `bytes` requested, and
    `stable`, a table of `window_s`, `within_percent` of the mean within which its data rates lie,
    and `min_s`, the earliest end. With none of them it ends after one pass over the span, if the
    offsets have passes. Raises `UserError` with the name of a field that is not allowed.
    """
    def __new__(cls, /, **fields: Any) -> Workload: ...

@final
class Zone:
    """A zone of a zoned drive."""
    @property
    def state(self, /) -> str:
        """ "empty", "implicitly open", "explicitly open", "closed" or "full"."""
    @property
    def written_bytes(self, /) -> int:
        """Bytes that the host has written to it: its write pointer, except for a finished zone."""

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
    Replays a trace on a file or block device. Ctrl-C ends it; the result covers the time until
    then.

    `capacity_bytes` is the size of the target that may be used, `block_bytes` its logical block,
    `recorded_bytes` the end of the recording's highest address. The replay runs in a thread of its
    own, so that the interpreter lock cannot delay it.
    """

def replay_survey(source: TraceSource, options: ReplayOptions) -> Survey:
    """
    Surveys the whole trace; nothing is issued. Raises `TraceOrderError` if the trace must be sorted
    first.
    """

def synth_names() -> list[str]:
    """Returns the names of the traces that can be synthesized."""

def synth_profile(name: str) -> str:
    """Returns the profile of a synthesized trace, as TOML."""

def trace_formats() -> list[str]:
    """Returns the names of the formats that can be read."""

def victim_policies() -> list[tuple[str, str, str | None]]:
    """
    The drive's own victim policies: name, description, and the key of `[gc]` that holds the
    parameter, if there is one.
    """

def workload_fields() -> list[dict[str, str]]:
    """
    Returns the fields of a workload in the core's order, each as a table of `name`, `kind` (its
    type in Rust), `default` as JSON, `doc`, `allowed` values on any drive, and `suffix` for
    descriptions, with `{}` for the value.
    """
