"""Kinds of figures follow from the load, the same for published rows, reviews and results."""

from __future__ import annotations

from collections import Counter

import pytest

from drivebay.analysis import fidelity, likeness
from drivebay.analysis.likeness import BEHIND, BLOCKS, HEAT, LOW, MIXED, OTHER, SATURATED, TAILS
from drivebay.definitions import suites


def kind(suite: str, test: str, key: str, unit: str = "IOPS", unit_kib: int = 4) -> str:
    found = next(one for one in suites.load(suite).tests if one.id == test)
    return likeness.kind_of(found, key, unit, 1024 * unit_kib)


@pytest.mark.parametrize(
    ("suite", "test", "key", "unit", "expected"),
    [
        ("anandtech-2015", "random-read", "iops_qd32", "IOPS", SATURATED),
        ("anandtech-2015", "random-read", "mean_rate", "MB/s", LOW),
        ("anandtech-2015", "sequential-read", "mean_rate", "MB/s", SATURATED),
        ("anandtech-2015", "mixed-random", "rate_r100", "MB/s", LOW),
        ("anandtech-2015", "mixed-random", "mean_rate", "MB/s", MIXED),
        ("anandtech-2015", "heavy-empty", "rate", "MB/s", MIXED),
        ("anandtech-2015", "thermal-write", "throttled_rate", "MB/s", HEAT),
        ("anandtech-2015", "consistency-default", "burst_iops", "IOPS", SATURATED),
        ("anandtech-2015", "consistency-default", "mean_iops", "IOPS", BEHIND),
        ("anandtech-2015", "consistency-default", "sd_iops", "IOPS", OTHER),
        ("anandtech-2015", "random-write", "power_mean", "W", HEAT),
        ("client-2024", "full-write", "rate_cache", "MB/s", SATURATED),
        ("client-2024", "full-write", "rate_behind", "MB/s", BEHIND),
        ("client-2024", "aged-random", "mean@read-8k", "us", BLOCKS),
        ("client-2024", "aged-random", "latency_mean_read-4k", "µs", LOW),
        ("client-2024", "aged-random", "iops@write-4k-16x32", "IOPS", BEHIND),
        ("client-2024", "aged-random", "mean@reader-beside-reads-256", "us", SATURATED),
        ("client-2024", "aged-random", "mean@reader-beside-writes-16", "us", MIXED),
        ("datacenter", "write-rates", "p99_read@latency-10k", "us", TAILS),
        ("datacenter", "write-rates", "latency_p99.9_read_latency-10k", "µs", TAILS),
        ("datacenter", "write-rates", "iops_write@writer-60k&latency-60k", "IOPS", MIXED),
        ("zones", "zone-reset", "mean@full", "ms", LOW),
    ],
)
def test_a_figure_is_of_the_kind_of_its_load(
    suite: str, test: str, key: str, unit: str, expected: str
) -> None:
    assert kind(suite, test, key, unit) == expected


def test_blocks_are_large_compared_with_the_mapping_unit() -> None:
    small, large = (
        kind("client-2024", "aged-random", "mean@read-8k", "us", kib) for kib in (4, 16)
    )
    assert (small, large) == (BLOCKS, LOW)


def test_a_publication_is_one_source_with_all_its_articles() -> None:
    sources = {row["source"] for row in fidelity.recorded()["rows"]}
    assert {"AnandTech", "SSD-iq", "ICPE'24 artifact", "NVMeBenchmarks", "WARP"} <= sources
    assert not [name for name in sources if "http" in name or "," in name]


def test_every_row_of_a_run_has_a_kind() -> None:
    rows = fidelity.recorded()["rows"]
    counts = Counter(row["kind"] for row in rows if row["off"] is not None)
    assert set(counts) <= set(likeness.KINDS) and min(counts.values()) > 0
