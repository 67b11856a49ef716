"""Workload from fio's options, as far as they are known and the counts agree.

Sources: fio's HOWTO and options.c. Options about a mix or a depth are used unless the counts
contradict them; unknown fields are named in `Workload.unknown`, and have the measured value, or the
simplest one, in their place.
"""

from __future__ import annotations

from drivebay._core import QUEUE_DEPTH_MAX
from drivebay.definitions.fio_options import SYNC_OFF, SYNCHRONOUS, number_of
from drivebay.definitions.suites import Workload
from drivebay.definitions.suites.loads import checked
from drivebay.definitions.suites.model import Unknown
from drivebay.lab.fio_import.jobs import Job, Options

SECTOR = 512
# Largest difference between the measured and the requested mix, in per cent of the I/Os; guess.
MIX_WITHIN = 2.0
# If more I/Os are outstanding than this factor times the options' limit, the options are not
# those of all threads; guess, as a latency may extend beyond the end.
DEEPER = 1.25
# Version of fio whose JSON first has options without a value (commit 4a1f2a5b).
FLAGS_SINCE = (3, 39)
HELD_BACK = ("rate", "rate_iops", "rate_min", "thinktime", "latency_target")


def workload_of(job: Job) -> Workload:
    """Makes the workload of a job; of mixed sizes the measured mean, rounded to 512 bytes.
    Raises Unreadable if an option is impossible; ValidationError if a suite cannot have the
    workload.
    """
    kind = job.options.get("rw", "read").partition(":")[0]
    writes, measured = job.sides["write"].ios, 100 * job.sides["read"].ios / job.ios
    asked = _reads_asked(job, kind)
    agrees = asked is not None and abs(asked - measured) <= MIX_WITHIN
    if job.options_hold and asked is not None and not agrees:
        job.warnings.add(f"{measured:.1f} % of the I/Os are reads, by the options {asked:g} %")
        # A verify reads in the order of its writes.
        job.options_hold = asked not in (0, 100) or "verify" in job.options
    mix = round(asked if asked is not None and agrees else measured)
    depth, known = _depth(job)
    unknown: list[Unknown] = [] if job.options_hold else ["pattern"]
    unknown += [] if known else ["queue_depth"]
    is_random = not job.options_hold or kind.startswith("rand")
    offsets = _offsets(job) if is_random and job.options_hold else "uniform"
    if offsets is None:
        unknown.append("offsets")
    if "pattern" in unknown:
        job.warnings.add("fio does not report whether offsets were random or sequential")
    mean = (job.sides["read"].bytes + job.sides["write"].bytes) / job.ios
    return Workload(
        pattern="random" if is_random else "sequential",
        offsets=offsets or "uniform",
        percentage_random=_random_share(job, offsets, is_random=is_random),
        read_percent=mix,
        span_bytes=_span(job),
        fsync=_syncs(job) if writes and mix < 100 else None,
        block_bytes=round(mean / SECTOR) * SECTOR,
        queue_depth=depth,
        duration_s=job.duration_s,
        unknown=tuple(unknown),
    )


def _syncs(job: Job) -> int | None:
    """Number of writes per sync. fdatasync and sync are kept as fsync: a block device gets the same
    flush."""
    if (sync := job.options.get("sync", "0")) not in SYNC_OFF:
        job.warnings.add(f"sync={sync} is kept as fsync=1; the latencies of writes have the syncs")
        return 1
    every = job.setting("fsync", 0, most=2**32 - 1)
    if not every and (every := job.setting("fdatasync", 0, most=2**32 - 1)):
        job.warnings.add(f"fdatasync={every} is kept as fsync")
    if mean := job.sync_ns_mean if every else 0.0:
        job.warnings.add(
            f"a sync came after every {every:,} writes and took {mean / 1e3:,.1f} us on average, "
            "which the latencies of writes lack"
        )
    return every or None


def _span(job: Job) -> int | None:
    """Bytes that the job may touch, if the file or device is larger; None if it may touch all."""
    options, base = job.options, number_of(job.options.get("kb_base", "")) or 1024
    is_part = "offset" in options or options.get("filename", "").startswith("/dev/")
    size = number_of(options.get("size", ""), kb_base=base) if is_part else None
    return size if job.options_hold and size and size >= SECTOR else None


def _reads_asked(job: Job, kind: str) -> int | None:
    """Requested share of reads in per cent; None if it is not given as a number."""
    if kind.removeprefix("rand") in ("read", "write"):
        return 100 if kind.endswith("read") else 0
    if "rwmixread" in job.options or "rwmixwrite" not in job.options:
        return job.setting("rwmixread", 50, most=100)
    other = job.setting("rwmixwrite", 50, most=100)
    return None if other is None else 100 - other


def _depth(job: Job) -> tuple[int, bool]:
    """Queue depth of all threads together, and True if it is known; otherwise the mean and
    False.
    """
    iodepth = job.setting("iodepth", 1, most=2**32)
    each = 1 if job.options.get("ioengine", "psync") in SYNCHRONOUS else iodepth
    if "latency_target" in job.options and job.entries:
        each = job.entries[-1].count("latency_depth", each) if each else each
    held_back = any(name in job.options for name in HELD_BACK)
    if job.one_at_a_time and not held_back:
        if job.options_hold and each is not None and each > 1:
            job.warnings.add(f"each thread had one I/O at a time, not the {each:,} of iodepth")
        return min(QUEUE_DEPTH_MAX, job.threads), job.threads <= QUEUE_DEPTH_MAX
    total, mean = (each or 0) * job.threads, job.outstanding
    if each is not None and mean is not None and mean > DEEPER * total + 1:
        job.options_hold = False
    measured = "" if mean is None else f"; on average {mean:.3g} I/Os were outstanding"
    if each is None or not job.options_hold:
        job.warnings.add(f"fio does not report the queue depth{measured}")
    elif total > QUEUE_DEPTH_MAX:
        job.warnings.add(f"a queue depth of {total:,} is beyond {QUEUE_DEPTH_MAX:,}{measured}")
    else:
        if mean is not None and 2 * mean < total and not held_back:
            job.warnings.add(f"queue depth {total:,} was not reached{measured}")
        return total, True
    return min(QUEUE_DEPTH_MAX, max(1, round(mean or job.threads))), False


def _offsets(job: Job) -> str | None:
    """Order of random offsets; None if it is unknown."""
    options = job.options
    skew = options.get("random_distribution", "random").partition(",")[0]
    if skew != "random":
        kind, _, rest = skew.partition(":")
        try:
            # The second field of Zipf's parameters is the place of the popular blocks.
            offsets = f"zipf:{rest.partition(':')[0]}" if kind == "zipf" else skew
            checked({"offsets": offsets})
            return offsets
        except ValueError:
            job.warnings.add(f"offsets were skewed, which is not kept: random_distribution={skew}")
            return None
    if "norandommap" in options:
        return "permutation" if options["norandommap"] == "0" else "uniform"
    if job.version < FLAGS_SINCE:
        job.warnings.add(
            "whether each address came once per pass is not known: fio does not tell norandommap"
        )
        return None
    lfsr = options.get("random_generator") == "lfsr"
    return "permutation-repeated" if lfsr else "permutation"


def _random_share(job: Job, offsets: str | None, *, is_random: bool) -> int:
    """Share of random offsets in per cent. A sequential job has none: fio (3.33) ignores the option
    there.
    """
    given = job.options.get("percentage_random", "100")
    if not is_random and given != "100":
        job.warnings.add(f"percentage_random={given} has no effect: the offsets are sequential")
    if not is_random:
        return 100
    shares = set(given.split(","))  # of reads, writes and trims
    only = shares.pop()
    share = int(only) if not shares and only.isdecimal() else 101
    if share > 100 or (share < 100 and offsets not in (None, "uniform")):
        job.warnings.add(f"the load that is shown lacks percentage_random={given}")
        return 100
    return share


def options_in_words(options: Options) -> str:
    """Formats options as in a job file, on one line."""
    return " ".join(f"{key}={value}" if value else key for key, value in options.items())
