"""Rules that find flaws of a benchmark in its own figures; each has its physics and its source.

A threshold without a source is a guess, and says so. docs/concepts/judge.md has the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

from drivebay.common import documents
from drivebay.definitions.fio_options import SYNCHRONOUS
from drivebay.lab.fio_import.jobs import LAST_BIN_NS
from drivebay.lab.judge.evidence import REMOTE, WHOLE, Case, size

Verdict = Literal["shown", "likely", "cannot be told from this file", "excluded"]
ORDER: tuple[Verdict, ...] = get_args(Verdict)
GIB = 2**30
# Mean latency below which no drive was asked; guess: a read over PCIe takes longer.
MEMORY_US = 4.0
# Mean latency of small reads below which no flash cell was read; guess: below Optane's.
FLASH_US = 8.0
# Mean latency of small buffered I/Os below which memory answered most; guess.
BUFFERED_US = 30.0
SMALL_BYTES = 16 * 1024
# Share of the I/Os that reached the disk if all did, as fio stops counting a quarter of a second
# early; guess.
KEPT_MOST = 0.9
SPAN_SHOWN, SPAN_LIKELY, SPAN_RANDOM, SPAN_LARGE = GIB, 2.2 * GIB, 4 * GIB, 64 * GIB
LISTS = documents.beside(__file__, "lists.toml")
NO_DRIVE, POLLS = (frozenset(LISTS[key]) for key in ("no_drive", "polls"))
IN_MEMORY, VOLUMES, NETWORKS, STACKED = (
    tuple(LISTS[key]) for key in ("memory", "volumes", "networks", "stacked")
)
LINKS_MB: dict[str, list[tuple[float, float]]] = LISTS["links_mb"]
# Fewest bytes that fill an SLC cache; guess: the smallest known one has 3 GB (850 EVO).
SLC_BYTES_LEAST = 2 * GIB
# Shortest time of writes that alone is taken for steady; guess, SNIA's first rounds take it.
STEADY_S = 1800
# Shortest time that can show a steady state: five rounds of a minute (SNIA).
ROUNDS_S = 300
# Rate of large sequential writes, in bytes per second, that flash reaches in any state; guess.
FLASH_RATE = 150e6
PASSES = 2
# Fewest I/Os above a percentile; guess: its error is then about a third.
SAMPLES_LEAST = 10
# Shortest run in which heat can throttle a drive; guess.
HEAT_S = 20
# A link never carries more than its limit: highest sample of a run at it, as a share of the mean.
PEAK = 1.15
BUSY, NEARLY_BUSY, IDLE = 90.0, 80.0, 60.0


@dataclass(frozen=True)
class Finding:
    """Verdict of a rule for a job, its reason with the figure and the field that it comes from."""

    verdict: Verdict
    reason: str


shown, likely, unknown, excluded = (partial(Finding, verdict) for verdict in ORDER)


def precondition(case: Case) -> Finding:
    """The drive was not in the state that the load needs.

    Physics: A drive that was erased, or written only in part, has free blocks: it writes
    without garbage collection. Random writes become steady after the whole span was written
    about twice. A drive answers reads of addresses that were never written without its flash.
    Zones are written in order, without garbage collection.

    Source: SNIA Solid State Storage Performance Test Specification 2.0.1, preconditioning and
    steady state.

    False alarm: An earlier run that the file does not show may have prepared the drive.

    To settle it: write the whole drive twice with the load's pattern, then run it again with
    --write_bw_log --log_avg_msec=1000 and a longer runtime
    """
    us = case.mean_us("read")
    if case.engine in NO_DRIVE | {*REMOTE} or case.disk(IN_MEMORY + VOLUMES):
        return unknown("a network or a volume hides its drives")
    if "zonemode" in case.job.options:
        return unknown("zones are written without garbage collection")
    if case.reads_only:
        if case.prepared and case.span and case.prepared >= case.span:
            return excluded(f"earlier jobs wrote {size(case.prepared)} there")
        if us is None or us >= FLASH_US or not case.is_direct or case.block_bytes > SMALL_BYTES:
            return unknown("a read does not show what was written before it")
        told = f"reads took {us:.1f} us (lat_ns.mean)"
        if us < MEMORY_US or case.in_memory:
            return unknown(f"{told}: memory answered, not the drive")
        return likely(f"{told}, less than a flash cell needs")
    span, written = case.span, case.written
    if case.fall:
        return shown(f"{case.fall}: not steady")
    if span and case.followed and case.load == "write" and written >= span:
        return unknown(f"wrote {size(written)} for the jobs after it")
    if span and case.prepared >= PASSES * span:
        return excluded(f"earlier jobs wrote {size(case.prepared)} there")
    if case.load == "write" and case.block_bytes >= 2**16 and case.rate < FLASH_RATE:
        return unknown(f"{size(case.rate)}/s of large writes is less than flash writes at any time")
    if span and span < WHOLE:
        passes = f"wrote {size(written)} (io_bytes) of a span of {size(span)} (size)"
        if written < PASSES * span:
            return likely(f"{passes} in {case.job.duration_s:.0f} s, after no other job")
        return (excluded if case.job.duration_s >= STEADY_S else unknown)(passes)
    if case.job.duration_s >= ROUNDS_S:
        return unknown(f"wrote for {case.job.duration_s:.0f} s, its span is not told")
    return likely(f"wrote {size(written)} in {case.job.duration_s:.0f} s, after no other job")


def cache(case: Case) -> Finding:
    """Memory answered instead of the drive.

    Physics: Without direct=1 the page cache takes writes and keeps what was read, so that the
    disk counts fewer I/Os than fio. A read from memory takes 1 to 3 us; over PCIe from flash at
    least 20 us, from Optane about 10 us.

    Source: fio's HOWTO, direct, invalidate and disk_util; latencies: published figures of
    P4800X and Z-NAND drives.

    False alarm: Buffered reads of a file that is much larger than memory come from the drive.

    To settle it: run it again with --direct=1 on the block device
    """
    engine, direct, options = case.engine, case.is_direct, case.job.options
    if engine in NO_DRIVE or engine == "mmap":
        return shown(f"ioengine={engine}")
    if disk := case.disk(IN_MEMORY):
        return shown(f"{disk} is no drive")
    if disk := case.disk(("loop",)):
        return likely(f"{disk} has the page cache of its file")
    kept, small = case.on_disk, case.block_bytes <= SMALL_BYTES
    counted = "" if kept is None else f"the disk got {kept:.0%} of the I/Os (disk_util)"
    for way in case.ways:
        us = case.mean_us(way)
        if us is not None and us < MEMORY_US:
            return shown(f"{way}s took {us:.1f} us (lat_ns.mean): only memory answers as fast")
    way = "read" if case.reads_only or case.moved > 2 * case.written else "write"
    us = case.mean_us(way)
    told = "" if us is None else f"{way}s took {us:.1f} us (lat_ns.mean)"
    is_random = case.reads_only and case.load.startswith("rand")
    synced = any(options.get(key, "0") != "0" for key in ("fsync", "fdatasync", "sync"))
    if way == "write" and synced and direct is False:
        return excluded("direct=0, but the writes were synced")
    if case.in_memory:
        return shown(counted)
    if direct is False:
        if us is not None and small and us < BUFFERED_US:
            return shown(f"direct=0, and {told}")
        if is_random and kept is not None and kept >= KEPT_MOST:
            return excluded(f"direct=0, but {counted}")
        return likely(f"direct=0{', and ' + told if told else ''}")
    if us is not None and small and us < FLASH_US and (way == "read" or not direct):
        return likely(f"{told}, less than a flash cell needs")
    if direct:
        return excluded(f"direct=1{', and ' + told if told else ''}")
    if kept is not None:
        return (excluded if kept >= KEPT_MOST else likely)(f"direct is not told, {counted}")
    return unknown("the file does not tell direct=")


def slc(case: Case) -> Finding:
    """The SLC cache ran full within the run.

    Physics: TLC and QLC drives first write cells with one bit, 2 to 10 times as fast. When
    this cache is full, the rate falls to that of migration. A mean over both is neither.

    Source: Data sheets of client drives (TurboWrite, Dynamic Write Acceleration); the caches
    of drives/*.toml with their sources.

    False alarm: Garbage collection, heat or other users of the drive make a rate fall, too.

    To settle it: write with --write_bw_log --log_avg_msec=1000 until the rate stays the same,
    and state both plateaus
    """
    if case.written < SLC_BYTES_LEAST:
        return excluded(f"it wrote {size(case.written)} (io_bytes), too little")
    if case.fall and case.ways == ["write"]:
        return shown(case.fall)
    if case.even:
        return excluded(case.even)
    return unknown("no logs show the rate over time")


def throttle(case: Case) -> Finding:
    """The drive or the volume was throttled.

    Physics: A hot drive slows down after tens of seconds, for reads too. Volumes of clouds
    have limits in IOPS and MiB/s, which make reads and writes equally fast.

    Source: NVMe base specification 2.0, thermal management; limits of volumes: AWS gp3 (3,000
    IOPS, 125 MiB/s), Azure premium disks.

    False alarm: A network or a controller that reads and writes share limits both, too.

    To settle it: log the rate and the temperature per second (drivebay review --only
    thermal-write)
    """
    if case.fall:
        why = ": heat, an SLC cache or garbage collection"
        return shown(case.fall) if case.reads_only else unknown(f"{case.fall}{why}")
    if case.same_rate:
        return likely(f"{case.same_rate}: the limit of a volume")
    if case.even:
        return excluded(case.even)
    if case.job.duration_s < HEAT_S:
        return excluded(f"{case.job.duration_s:.1f} s are too short for heat")
    return unknown("no logs show the rate over time")


def span(case: Case) -> Finding:
    """The span was small enough for a cache.

    Physics: A map of 4 bytes per 4 KiB: 1 MB of it covers 1 GB. Host memory buffers have 16 to
    64 MB, so small spans never miss the map; the drive's DRAM or SLC cache may hold all data.

    Source: NVMe base specification 2.0, host memory buffer; SNIA's active range, which is the
    whole drive by default.

    False alarm: A drive with its whole map in DRAM reads small spans as fast as large ones.

    To settle it: run it again over the whole drive (no --size)
    """
    known, random = case.span, case.load.startswith("rand")
    if known is None:
        return unknown("the file does not tell size=")
    if known == WHOLE:
        return excluded("the job ran on the whole device")
    told = f"size is {size(known)}"
    if known < SPAN_SHOWN:
        return (shown if random else likely)(f"{told}: a cache can hold it")
    if known <= (SPAN_RANDOM if random else SPAN_LIKELY):
        return likely(f"{told}: a write buffer, SLC cache or map cache covers it")
    return (excluded if known >= SPAN_LARGE else unknown)(told)


def percentiles(case: Case) -> Finding:
    """Percentiles rest on too few I/Os, or on the last bin.

    Physics: A percentile with n I/Os above it has an error of about 1 / sqrt(n). fio's last
    bin ends at 17.2 s, so that longer latencies are counted there. A mean above p99 comes from
    a few outliers.

    Source: Binomial error of a quantile; fio's stat.h (FIO_IO_U_PLAT_GROUP_NR).

    False alarm: A run that is repeated often may state such a percentile of all runs together.

    To settle it: run longer: a percentile q needs 10 / (1 - q/100) I/Os, for p99.99 100,000
    """
    for where, latency, q, value, count, mean in case.percentiles():
        above = count * (100 - q) / 100
        place = f"{where}.percentile"
        last = LAST_BIN_NS if case.job.version >= (2, 99) or latency.endswith("ns") else 16.3e9
        if value >= last:
            return shown(f"p{q:g} is {value / 1e9:.1f} s, fio's last bin ({place})")
        if abs(q - 99) < 1e-6 and mean > value:
            return shown(f"the mean, {mean / 1e3:,.3g} us, is above p99, {value / 1e3:,.3g} us")
        if q < 100 and above < SAMPLES_LEAST:
            return shown(f"p{q:g} of {count:,} I/Os has {above:.2g} above it ({place})")
    return excluded("no percentile that is listed rests on too few I/Os")


def depth(case: Case) -> Finding:
    """The queue depth or the rate was not what was asked for.

    Physics: A synchronous engine has one I/O at a time whatever iodepth says. So has an
    asynchronous one whose submissions wait: each of N I/Os then takes N submissions. By
    Little's law the mean number outstanding is rate times mean latency. rate and thinktime
    limit the rate.

    Source: fio's HOWTO, iodepth, ioengine, rate; Little 1961.

    False alarm: Latency at a fixed rate may be just what was to be measured.

    To settle it: run it again with --ioengine=io_uring --direct=1 and without rate or
    thinktime
    """
    options, each = case.job.options, case.number("iodepth", 1)
    for key in ("rate", "rate_iops", "thinktime", "latency_target"):
        if options.get(key, "0").strip(",") not in ("", "0"):
            return shown(f"{key}={options[key]} limits the rate")
    if each is None:
        return unknown("the file does not tell iodepth=")
    if each == 1:
        return excluded("one I/O at a time was asked for")
    if case.engine in SYNCHRONOUS:
        return shown(f"iodepth={each} with ioengine={case.engine}, one at a time")
    single, mean = case.level("1"), case.job.outstanding
    if case.serial_us and (case.cpu() or 0) < NEARLY_BUSY:
        return shown(f"each of {each} I/Os ended in its submission, {case.serial_us:.0f} us")
    if single is not None and single >= 90:
        return shown(f"iodepth={each}, but {single:.0f} % at 1 (iodepth_level)")
    if case.engine == "libaio" and case.is_direct is False:
        return shown(f"iodepth={each} with libaio and direct=0, which has one I/O at a time")
    asked = each * case.job.threads
    level = ">=64" if each >= 64 else str(2 ** (each.bit_length() - 1))
    is_full = (case.level(level) or 0) >= 90
    if mean is None and is_full:
        return excluded(f"at least 90 % at {level} or more (iodepth_level)")
    if mean is None:
        return unknown("no latencies show how many I/Os were outstanding")
    told = f"{mean:.3g} I/Os were outstanding (lat_ns.mean times iops) of {asked:,} asked for"
    if is_full and mean < 0.75 * asked:
        return unknown(f"{told}, but at least 90 % at {level} or more (iodepth_level)")
    if mean < 0.5 * asked:
        return shown(told)
    return (unknown if mean < 0.75 * asked else excluded)(told)


def bound(case: Case) -> Finding:
    """The host or the link set the rate.

    Physics: A thread that uses its whole CPU cannot submit more. A link carries its bits less
    its coding and packets (of 128, 256 or 512 bytes), and never more. Drives with compression write
    zeros and patterns faster.

    Source: SATA 3.x and PCI Express base specifications; fio's usr_cpu and sys_cpu; SandForce
    controllers.

    False alarm: Engines that poll use a whole CPU by design; a drive may be as fast as its
    link.

    To settle it: run it again with more jobs, each on a CPU of its own, and with
    --refill_buffers
    """
    options, cpu = case.job.options, case.cpu()
    if case.engine in NO_DRIVE or case.disk(IN_MEMORY) or (case.reads_only and case.in_memory):
        return shown("no drive answered: the host sets the rate")
    polls = not POLLS.isdisjoint({*options, case.engine})
    if cpu is not None and cpu >= BUSY and not polls:
        return shown(f"usr_cpu + sys_cpu is {cpu:.0f} % of a CPU per thread")
    busy = (case.job.outstanding or BUSY) / case.job.threads
    waits = any(key in options for key in ("rate", "rate_iops", "thinktime", "fsync", "fdatasync"))
    if case.number("iodepth", 1) == 1 and busy < 0.5 and not waits and not polls:
        return shown(f"I/Os took {busy:.0%} of the time (lat_ns.mean), the host the rest")
    megabytes = case.rate / 1e6
    if (link := _link(case)) and case.block_bytes >= 2**16 and len(case.ways) == 1 and not waits:
        return likely(f"{megabytes:,.0f} MB/s is the limit of {link}")
    for key in ("zero_buffers", "buffer_compress_percentage", "dedupe_percentage", "verify"):
        if options.get(key, "0") not in ("0", "off", "null"):
            return likely(f"{key}={options[key]}".rstrip("="))
    if cpu is not None and cpu < IDLE:
        return excluded(f"CPU {cpu:.0f} %, {megabytes:,.0f} MB/s is no link's limit")
    return unknown("the file does not tell how busy the host was")


def _link(case: Case) -> str:
    """Name of the link that has this rate as its limit; empty if no link has. A link never carries
    more than its limit, serves one drive, and is of a kind that the disk's name tells."""
    samples, megabytes = case.samples(), case.rate / 1e6
    drives = [disk for disk in case.disks if not disk.startswith(STACKED)]
    if (samples and case.job.threads == 1 and samples[1] > PEAK) or len(drives) > 1:
        return ""
    kind = "SATA" if case.disks else ""
    for names, kind_of_names in ((("nvme",), "PCIe"), (NETWORKS, "Ethernet")):
        kind = kind_of_names if case.disk(names) else kind
    for link, ranges in LINKS_MB.items():
        if kind in link and any(low <= megabytes <= high for low, high in ranges):
            return link
    return ""


@dataclass(frozen=True)
class Rule:
    """A flaw, and what to run to settle it, in the words of the function's docstring, which also
    has the physics, its source, and an innocent case that looks like the flaw."""

    test: Callable[[Case], Finding]
    title: str
    settle: str

    @property
    def name(self) -> str:
        """Name in JSON."""
        return self.test.__name__


def _rule(test: Callable[[Case], Finding]) -> Rule:
    words = " ".join((test.__doc__ or "").split())
    return Rule(test, words.partition(".")[0], words.rpartition("To settle it: ")[2])


RULES = tuple(map(_rule, (precondition, cache, slc, throttle, span, percentiles, depth, bound)))
