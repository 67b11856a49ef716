"""fio's job files: one per phase or fill.

Sources: fio's HOWTO; the options below behave alike from 3.25 to 3.41 (checked).
The job names its target by the environment variable DRIVEBAY_TARGET, so that a path with a colon
or a space needs no quoting, and so that a kept job file can be run again by hand:
`DRIVEBAY_TARGET=/dev/nvme0n1 fio qd4.fio`.

Leaves out: everything that does I/O. Nothing here lets fio create, extend or shrink a file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from drivebay.common.seeds import derived_seed
from drivebay.definitions.suites import Content, LoadFields, Workload

TARGET_VARIABLE = "DRIVEBAY_TARGET"
FILL_BLOCK_BYTES = 131_072
FILL_QUEUE_DEPTH = 32
RANDOM = Content()

# New random data for every write: nothing to compress or to deduplicate. fio generates it between
# one write and the next, 0.9 us per 4 KiB (measured): this limits one job to 4.6 GB/s, and takes a
# quarter off 128 KiB writes at queue depth 1 on a drive of 1.5 GB/s. So larger writes, where
# measured, reuse random buffers and only stamp each sector anew: no two sectors are equal, and 89 %
# cannot be compressed (measured). A load that also reads needs the refill: its buffers hold the
# data read.
_REFILL = "refill_buffers=1\n"
_STAMP = "scramble_buffers=1\n"
REFILL_UP_TO_BYTES = 16_384
# Chunk of which a share is zeros and the rest random; drives compress each chunk by itself.
COMPRESS_CHUNK_BYTES = 4096

_COMMON = f"""\
[global]
filename=${{{TARGET_VARIABLE}}}
# Past the page cache; the file must exist and keeps its size.
direct=1
allow_file_create=0
fallocate=none
# One process, so that stopping it stops everything.
thread=1
# Without this, fio before 3.39 ignores randseed and draws the same addresses in every phase.
randrepeat=0
# One latency, from submission to completion.
lat_percentiles=1
clat_percentiles=0
slat_percentiles=0
"""


# Generators of random addresses. fio's bitmap is emptied when a pass is over and the draws go on,
# so each pass has a different order; its shift register begins every pass at the same seed.
_OFFSETS = {
    "uniform": "norandommap=1\nrandom_generator=tausworthe64\n",
    "permutation": "norandommap=0\nrandom_generator=tausworthe64\n",
    "permutation-repeated": "norandommap=0\nrandom_generator=lfsr\n",
}


# Fields that are options of fio with the same name and meaning.
SAME = ("fsync", "percentage_random")
SCATTERED = "zoned-scattered:"
# fio rejects 1: with this exponent the most popular of a million blocks gets 0.07 % more.
NEXT_TO_1 = "zipf:1.0001"


def is_zipf_1(offsets: str) -> bool:
    """True if fio runs this distribution with `NEXT_TO_1`."""
    kind, _, theta = offsets.partition(":")
    return kind == "zipf" and float(theta) == 1


def _offsets(workload: Workload) -> str:
    if workload.offsets in _OFFSETS:
        return _OFFSETS[workload.offsets]
    # fio has no scattered zones: each zone is contiguous, and the run warns about it.
    own = workload.offsets.replace(SCATTERED, "zoned:")
    distribution = NEXT_TO_1 if is_zipf_1(workload.offsets) else own
    return _OFFSETS["uniform"] + f"random_distribution={distribution}\n"


def _rate(workload: Workload) -> str:
    """Returns the options for think time and rate; fio's rate is per direction and per thread."""
    think = ""
    if workload.thinktime_us is not None:
        # fio (3.33) does not shorten a think time: one beyond the job's end would make the job
        # longer.
        pause = min(workload.thinktime_us, round(workload.duration_s * 1e6))
        think = f"thinktime={pause}\nthinktime_blocks={workload.thinktime_blocks}\n"
        # Both block types are equal at queue depth 1, and fio before 3.29 has no such option.
        think += "thinktime_blocks_type=issue\n" if workload.queue_depth > 1 else ""
    share = workload.read_percent / 100
    shares = (share, 1 - share) if 0 < share < 1 else (1.0,)

    def each(rate: float) -> str:
        return ",".join(str(max(1, round(rate / workload.queues * one))) for one in shares)

    if workload.rate_mb_per_s is not None:
        think += f"rate={each(workload.rate_mb_per_s * 1e6)}\n"
    if workload.rate_iops is None:
        return think
    return think + f"rate_iops={each(workload.rate_iops)}\nrate_process={workload.rate_process}\n"


def phase_seed(seed: int, label: str) -> int:
    """Returns a separate seed per phase, so that no two draw the same addresses; 0 to 2**62."""
    return derived_seed(seed, label, bits=62)


def jobs_together(jobs: Sequence[tuple[str, Workload, int, int]], *, engine: str, seed: int) -> str:
    """Returns the job file of phases that run at the same time: label, load, and span of each in
    bytes.
    """
    return _COMMON + f"ioengine={engine}\n" + "".join(_section(*job, seed) for job in jobs)


def _section(label: str, workload: Workload, start: int, length: int, seed: int) -> str:
    milliseconds = max(1, round(workload.duration_s * 1000))
    return (
        f"\n[{label}]\n"
        + f"randseed={phase_seed(seed, label)}\n"
        + _direction(workload)
        + _offsets(workload)
        + _sizes(workload)
        + _same(workload)
        + _rate(workload)
        + f"iodepth={workload.queue_depth}\n"
        + _queues(workload)
        + f"offset={start}\n"
        + f"size={length}\n"
        + f"time_based=1\nruntime={milliseconds}ms\n"
    )


def _same(workload: Workload) -> str:
    return "".join(
        f"{name}={getattr(workload, name)}\n"
        for name in SAME
        if getattr(workload, name) != LoadFields.model_fields[name].default
    )


def _queues(workload: Workload) -> str:
    """Returns the options for several threads, each pinned to different processors, so that each
    uses its own queue of the kernel. Without a new group fio would count them as part of the job
    before.
    """
    if workload.queues == 1:
        return ""
    processors = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    return (
        f"numjobs={workload.queues}\nnew_group=1\ngroup_reporting=1\n"
        f"cpus_allowed={processors}\ncpus_allowed_policy=split\n"
    )


def fill_job(
    *, label: str, start: int, length: int, engine: str, seed: int, content: Content = RANDOM
) -> str:
    """Returns the job file that writes each byte from `start` on once, in sequence, and flushes."""
    load = "rw=write\n" + _data(content, refill=True) + f"bs={FILL_BLOCK_BYTES}\n"
    return _whole(label, load, start=start, length=length, engine=engine, seed=seed)


def sprandom_job(*, length: int, spare: float, engine: str, seed: int) -> str:
    """Returns the job file of fio's sprandom over the first `length` bytes: each 4 KiB once in
    random order, and `spare` (over the capacity) as many again; fio ends it by itself.
    """
    load = "rw=randwrite\n" + _data(RANDOM, refill=True) + "bs=4096\n"
    load += f"sprandom=1\nspr_op={spare:g}\n"
    return _whole("sprandom", load, start=0, length=length, engine=engine, seed=seed)


def _whole(label: str, load: str, *, start: int, length: int, engine: str, seed: int) -> str:
    """Returns the job file of writes that end by themselves, and a flush."""
    return (
        _COMMON
        + f"ioengine={engine}\nrandseed={phase_seed(seed, label)}\n\n[{label}]\n"
        + load
        + f"iodepth={FILL_QUEUE_DEPTH}\noffset={start}\nsize={length}\nend_fsync=1\n"
    )


def probe_job(*, engine: str) -> str:
    """Returns the job file of a single read, which tests if this engine works on this target."""
    return _COMMON + f"ioengine={engine}\n\n[probe]\nrw=read\nbs=4096\niodepth=1\nsize=4096\n"


def _direction(workload: Workload) -> str:
    order = "rand" if workload.pattern == "random" else ""
    if workload.read_percent == 100:
        return f"rw={order}read\n"
    if workload.read_percent == 0:
        small = workload.block_bytes <= REFILL_UP_TO_BYTES
        return f"rw={order}write\n" + _data(workload.content, refill=small)
    mix = "randrw" if order else "readwrite"
    data = _data(workload.content, refill=True)
    return f"rw={mix}\nrwmixread={workload.read_percent}\n" + data


def _sizes(workload: Workload) -> str:
    """Returns the options for one size, for uniform multiples of the smaller up to the larger, or
    for sizes with a share each; aligned to the smallest.
    """
    if workload.bssplit:
        return f"bssplit={workload.bssplit}\nblockalign={workload.block_bytes}\n"
    if workload.block_bytes_max is None:
        return f"bs={workload.block_bytes}\n"
    return f"bsrange={workload.block_bytes}-{workload.block_bytes_max}\n"


def _data(content: Content, *, refill: bool) -> str:
    """Returns the options for the written data; `refill` generates all of it for every write."""
    percent = content.compressible_percent
    if percent == 100:
        return "zero_buffers=1\n" + _REFILL
    if percent > 0:
        chunks = f"buffer_compress_chunk={COMPRESS_CHUNK_BYTES}\n"
        return f"buffer_compress_percentage={percent}\n" + chunks + _REFILL
    return _REFILL if refill else _STAMP
