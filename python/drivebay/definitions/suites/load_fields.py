"""Fields of a load with types and defaults: generated from the core by scripts/load_fields.py."""

from __future__ import annotations

from typing import Literal

from drivebay.definitions.suites.parts import Data, Share


class LoadFields(Data):
    """Fields of a load, as the core defines them.

    Attributes
    ----------
    pattern
        Order of addresses. Sequential ones begin at the start of the span, and wrap around at its
        end.
    offsets
        Distribution of random addresses: "uniform" (drawn with replacement, as in Iometer);
        "permutation" (each address once per pass over the span, each pass in a new order, as fio's
        random map); "permutation-repeated" (all passes in the same order, as fio's
        `random_generator=lfsr`); "zipf:0.9" (Zipf's law with this exponent, the popular blocks
        scattered over the span); "zipf:1.0/64" (on a drive scaled to a 64th, as skewed as
        "zipf:1.0" on the whole drive: each block stands for 64 ranks); "zoned:80/20:20/80" (80 % of
        the accesses to the first 20 % of the span, as fio's `random_distribution`);
        "zoned-scattered:80/20:20/80" (the same, with the blocks of each zone scattered over the
        span, as in SSD-iq); or "open-zones:4/93" (the span is 93 zones; each write goes to a random
        one of four open zones, in order inside of it; a random other zone replaces a full one, and
        is trimmed before its first write). The same blocks are popular in every load on a span.
        Allowed: uniform for a sequential workload; open zones only for random writes of one size in
        one queue.
    percentage_random
        Share of random addresses, in per cent, as fio's `percentage_random`. The other requests are
        sequential: a read follows the previous read and a write the previous write, or it begins
        again at the start of the span. Allowed: 0 to 100; below 100 only for random, uniform
        offsets without trims in one queue.
    streams
        Streams of a mixed sequential load: one of reads and one of writes ("each", as in fio), or
        one whose requests are reads or writes at random ("shared", as in Iometer). Allowed: each,
        except for mixed sequential workloads.
    read_percent
        Share of reads, in per cent. All requests that are neither reads nor trims are writes.
        Allowed: 0 to 100.
    trim_percent
        Share of trims, in per cent. They take a queue slot and the drive's time, and count in no
        figure of reads and writes. Allowed: 0 to below 100, at most 100 with read_percent, for
        random offsets and one queue.
    fsync
        Number of writes between two flushes, as fio's `fsync`. A flush completes when all
        acknowledged data is safe. It takes a queue slot, waits for no other request, and counts in
        no figure of reads and writes. Allowed: at least 1, with writes, one queue and no rate.
    block_bytes
        Size of a request, in bytes. Allowed: a multiple of 512 up to 64 MiB.
    queue_depth
        Outstanding requests in each of the `queues`. Allowed: 1 to 1024, 10 bits for a command's
        slot; at most zones, unless zone_op is append or zrwa; 1 if it writes nothing.
    queues
        Submission queues (NVMe), each with its own processor of the host. Allowed: at least 1;
        above 1 only for random, uniform offsets.
    block_bytes_max
        Size of the largest request, in bytes: sizes are uniform multiples of `block_bytes` up to
        it. Allowed: a multiple of block_bytes up to 64 MiB, for random offsets other than
        permutations, without bssplit.
    bssplit
        Sizes with their shares of the requests in per cent, as in fio: "4k/40:64k/60"; addresses
        are multiples of `block_bytes`. Allowed: multiples of 512 up to 64 MiB, with whole
        percentages that add up to 100, for random offsets other than permutations.
    rate_iops
        Most requests per second over all queues, as far as the queue depth allows; late requests
        are caught up. Allowed: above 0, up to 1e9; so that the bytes take at most 115 days, unless
        there is a duration_s.
    rate_process
        Due times of requests under `rate_iops`: at equal intervals ("linear"), or at random ones
        ("poisson"). Allowed: linear without a rate_iops.
    rate_mb_per_s
        Most megabytes per second of reads and writes over all queues, as far as the queue depth
        allows; late requests are caught up, and trims do not count. Allowed: above 0, up to 1e6; so
        that the bytes take at most 115 days, unless there is a duration_s.
    thinktime_us
        Pause of the host in microseconds, once `thinktime_blocks` requests were made and all of
        them are completed, as in fio with `thinktime_blocks_type=issue`. Allowed: 1 to 1e9, with
        one queue; so that the bytes take at most 115 days, unless there is a duration_s.
    thinktime_blocks
        Requests between two pauses. Allowed: at least 1, and 1 without a thinktime_us.
    handle
        Placement handle of the writes (Flexible Data Placement), on a drive that has several.
    reclaim_group
        Reclaim group of the writes, on a drive that has several.
    zones
        On a drive with zones: number of zones that are used at a time in turns, each reset first
        and then used in sequence, before the next ones of the span. Allowed: 0; above 0 only for a
        sequential workload without reads in one queue.
    zone_op
        Operation on zones: "write" at the write pointer, of which a zone has one at a time;
        "append"; "zrwa" (writes to random write areas); or "reset", "finish", "open" or "close" of
        one zone after another, of which only the operation itself counts in any figure. Resets and
        finishes follow writes of `zone_fill_percent`; an open or close follows a reset. An end by
        bytes counts a reset or a finish as one block. Allowed: write without zones.
    zone_fill_percent
        Share of each zone that is written, in per cent. Allowed: above 0, up to 100, or 0 for
        resets and finishes; 0 for opens and closes; 100 without zones.
    """

    pattern: Literal["random", "sequential"] = "random"
    offsets: str = "uniform"
    percentage_random: int = 100
    streams: Literal["each", "shared"] = "each"
    read_percent: Share = 0
    trim_percent: Share = 0
    fsync: int | None = None
    block_bytes: int = 4096
    queue_depth: int = 32
    queues: int = 1
    block_bytes_max: int | None = None
    bssplit: str | None = None
    rate_iops: float | None = None
    rate_process: Literal["linear", "poisson"] = "linear"
    rate_mb_per_s: float | None = None
    thinktime_us: int | None = None
    thinktime_blocks: int = 1
    handle: int = 0
    reclaim_group: int = 0
    zones: int = 0
    zone_op: Literal["write", "append", "zrwa", "reset", "finish", "open", "close"] = "write"
    zone_fill_percent: float = 100
