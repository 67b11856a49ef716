"""Text of CrystalDiskMark and of fio made into results: forms, recognition, and changed files.

The forms are those of the programs' sources; all figures are invented.
"""

from __future__ import annotations

import errno
import importlib
import math
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

import drivebay.report
from drivebay import results
from drivebay.cli.entry import run
from drivebay.common.errors import DrivebayError, EnvironmentProblem, UserError
from drivebay.lab.imports import AUTO, IMPORTERS, import_files, read_files
from drivebay.lab.query import query
from drivebay.results import files
from drivebay.results.records import PhaseResult

TIMES = int(os.environ.get("DRIVEBAY_MUTATIONS", 300))
CDM_8 = """\
------------------------------------------------------------------------------
CrystalDiskMark 8.0.4 x64 (C) 2007-2021 hiyohiyo
                                  Crystal Dew World: https://crystalmark.info/
------------------------------------------------------------------------------
* MB/s = 1,000,000 bytes/s [SATA/600 = 600,000,000 bytes/s]
* KB = 1000 bytes, KiB = 1024 bytes

[Read]
  SEQ    1MiB (Q=  8, T= 1):  3567.500 MB/s [   3402.2 IOPS] <  2350.10 us>
  RND    4KiB (Q= 32, T=16):   800.000 MB/s [ 195312.5 IOPS] <  2600.00 us>
  RND    4KiB (Q=  1, T= 1):     0.000 MB/s [      0.0 IOPS] <     0.00 us>

[Write]
  SEQ    1MiB (Q=  8, T= 1):  2000.000 MB/s [   1907.3 IOPS] <  4190.00 us>

[Mix] Read 70%/Write 30%
  RND    4KiB (Q=  1, T= 1):    50.000 MB/s [  12207.0 IOPS] <    81.60 us>

Profile: Default
   Test: 1 GiB (x5) [D: 12% (57/476GiB)]
   Mode: [Admin] <0Fill>
   Time: Measure 5 sec / Interval 5 sec
   Date: 2024/03/05 12:34:56
     OS: Windows 11 Pro [10.0 Build 22631] (x64)
"""
CDM_6 = """\
CrystalDiskMark 6.0.2 x64 (C) 2007-2018 hiyohiyo

   Sequential Read (Q= 32,T= 1) :   524.288 MB/s
  Random Read 4KiB (Q=  8,T= 8) :   409.600 MB/s [ 100000.0 IOPS]
         Sequential Write (T= 1) :   104.858 MB/s

  Test : 1024 MiB [C: 26.4% (122.8/465.2 GiB)] (x3)  [Interval=5 sec]
  Date : 2018/12/15 0:48:36
"""
CDM_3 = """\
CrystalDiskMark 3.0.1 x64 (C) 2007-2010 hiyohiyo
* MB/s = 1,000,000 byte/s [SATA/300 = 300,000,000 byte/s]

           Sequential Read :   105.123 MB/s
        Random Write 512KB :    52.429 MB/s
   Random Read 4KB (QD=32) :     1.024 MB/s [   250.0 IOPS]

  Test : 1000 MB [C: 33.0% (39.3/119.1 GB)] (x5)
"""
KDISKMARK = """\
                        KDiskMark (3.1.4): https://github.com/JonMagon/KDiskMark
                    Flexible I/O Tester (fio-3.35): https://github.com/axboe/fio
[Read]
Sequential   1 MiB (Q=  8, T= 1):   512.000 MB/s [    500.0 IOPS] < 15900.00 us>

[Write]
    Random   4 KiB (Q= 32, T= 1):   409.600 MB/s [ 100000.0 IOPS] <   310.25 us>

Profile: Default
   Test: 512 MiB (x2) [Measure: 1 min / Interval: 5 sec]
   Date: 2024-01-02 03:04:05
     OS: debian 12 [linux 6.1]
 Target: /home 10% (1.00/9.00 GiB)
"""
_AS_SSD = """\
AS SSD Benchmark 2.0.7316.34247
------------------------------
Name: ACME NVMe SSD
Firmware: 1
Offset: 283648 K - OK
Date: 2025/04/23 16:05:59
------------------------------
{0}
------------------------------
Read: {1}
Write: {2}
------------------------------
4K:
Read: {3}
Write: {4}
------------------------------
4K-64Threads:
Read: {5}
Write: {6}
------------------------------
{7}
Read: {8}
Write: {8}
------------------------------
Score:
------------------------------
Read: 753
Write: 489
Total: 1580
"""
_RATES = ("2500.00", "1000.00", "50.00", "100.00", "400.00", "0.00")
_IOPS = ("156.25", "62.5", "12800", "25600", "102400", "0")
AS_SSD = _AS_SSD.format(
    "Sequential:", *(f"{rate} MB/s" for rate in _RATES), "Access Times:", "0.098 ms"
)
AS_SSD_IOPS = _AS_SSD.format("16MB", *(f"{rate} iops" for rate in _IOPS), "512B", "10204 iops")
FIO_3 = """\
reads: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, \
ioengine=libaio, iodepth=8
...
mixed: (g=1): rw=randrw, bs=(R) 8192B-8192B, (W) 8192B-8192B, (T) 8192B-8192B, \
ioengine=psync, iodepth=1
fio-3.33
Starting 3 processes

reads: (groupid=0, jobs=2): err= 0: pid=11: Mon Sep  1 11:50:58 2025
  read: IOPS=40.0k, BW=156MiB/s (164MB/s)(1563MiB/10000msec)
    slat (nsec): min=900, max=21.6k, avg=1830.50, stdev=223.87
    clat (usec): min=41, max=30964, avg=396.25, stdev=202.27
     lat (usec): min=42, max=30965, avg=398.00, stdev=202.27
    clat percentiles (usec):
     |  1.00th=[   55], 50.00th=[  390], 99.00th=[  700], 99.90th=[  999],
     | 99.99th=[ 2999]
   bw (  KiB/s): min=150000, max=160000, per=100.00%, avg=156250.00, stdev=99.16, samples=20
   iops        : min=39000, max=41000, avg=40000.60, stdev=346.04, samples=20
  lat (usec)   : 50=0.19%, 500=82.81%, 1000=16.99%
  IO depths    : 1=0.1%, 2=0.1%, 4=0.1%, 8=99.9%, 16=0.0%, 32=0.0%, >=64=0.0%
     issued rwts: total=400000,0,0,0 short=0,0,0,0 dropped=0,0,0,0
     latency   : target=0, window=0, percentile=100.00%, depth=8
mixed: (groupid=1, jobs=1): err= 0: pid=13: Mon Sep  1 11:51:08 2025
  read: IOPS=700, BW=5600KiB/s (5734kB/s)(54.7MiB/10000msec)
    clat (usec): min=41, max=30964, avg=900.00, stdev=202.27
     lat (usec): min=42, max=30965, avg=901.00, stdev=202.27
    clat percentiles (usec):
     | 99.00th=[  950]
  write: IOPS=300, BW=2400KiB/s (2458kB/s)(23.4MiB/10000msec); 0 zone resets
    clat (msec): min=1, max=9, avg= 1.20, stdev= 0.27
     lat (msec): min=1, max=9, avg= 1.21, stdev= 0.27
  fsync/fdatasync/sync_file_range:
    sync (usec): min=1016, max=428101, avg=12114.42, stdev=42968.86
    sync percentiles (usec):
     | 99.00th=[429917]
  IO depths    : 1=100.0%, 2=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%
     issued rwts: total=7000,3000,0,98 short=0,0,0,0 dropped=0,0,0,0

Run status group 0 (all jobs):
   READ: bw=156MiB/s (164MB/s), 156MiB/s-156MiB/s (164MB/s-164MB/s), io=1563MiB (1638MB)
"""
FIO_2 = """\
old: (g=0): rw=write, bs=128K-128K/128K-128K/128K-128K, ioengine=libaio, iodepth=4
fio-2.2.10
old: (groupid=0, jobs=1): err= 0: pid=4760: Thu Mar  2 13:23:28 2017
  write: io=1000.0MB, bw=102400KB/s, iops=800, runt= 10000msec
    slat (usec): min=1, max=460, avg= 3.70, stdev= 2.38
    clat (msec): min=1, max=85, avg= 4.90, stdev= 1.38
     lat (msec): min=1, max=85, avg= 4.91, stdev= 1.38
    clat percentiles (msec):
     |  1.00th=[    2], 50.00th=[    5], 99.00th=[    9], 99.99th=[   80]
    bw (KB  /s): min=  114, max=123384, per=100.00%, avg=116276.58, stdev=11484.90
    lat (msec) : 2=0.41%, 10=99.59%
  IO depths    : 1=0.1%, 2=0.1%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%
     issued    : total=r=0/w=8000/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0
"""
LISTED = ";".join(f"{q}%={us}" for q, us in (("50.000000", 90), ("99.000000", 800)))
TERSE_SIDE = "8000;4000;1000;2000;1;9;2.5;1;50;900;100.5;7;" + LISTED + 18 * ";0%=0"
TERSE_SIDE += ";55;905;104.5;8;100;200;50%;150;9"
TERSE = f"3;fio-3.33;a;0;0;{TERSE_SIDE};{'0;' * 41}1%;2%;7;0;3\n"
DISKSPD = """\
<Results><System><Tool><Version>2.1</Version></Tool></System><Profile><TimeSpans><TimeSpan><Targets>
<Target><Path>D:\\t.dat</Path><BlockSize>4096</BlockSize><Random>4096</Random>
<DisableOSCache>true</DisableOSCache><WriteRatio>30</WriteRatio><RequestCount>8</RequestCount>
<ThreadsPerFile>2</ThreadsPerFile></Target></Targets></TimeSpan></TimeSpans></Profile>
<TimeSpan><TestTimeSeconds>10.00</TestTimeSeconds><ThreadCount>2</ThreadCount>
<Latency><AverageReadMilliseconds>0.1</AverageReadMilliseconds>
<AverageWriteMilliseconds>0.2</AverageWriteMilliseconds>
<AverageTotalMilliseconds>0.13</AverageTotalMilliseconds>
<Bucket><Percentile>99</Percentile><TotalMilliseconds>0.9</TotalMilliseconds></Bucket></Latency>
<Thread><Id>0</Id><Target><Path>D:\\t.dat</Path><BytesCount>409600000</BytesCount>
<IOCount>100000</IOCount><ReadCount>70000</ReadCount><WriteCount>30000</WriteCount></Target></Thread>
</TimeSpan></Results>
"""
ELBENCHO = """\
ISO date,label,path type,paths,hosts,threads,dirs,files,file size,block size,direct IO,random,\
random aligned,IO depth,shared paths,truncate,operation,time ms [first],time ms [last],\
IOPS [first],IOPS [last],MiB/s [first],MiB/s [last],IO lat us [min],IO lat us [avg],IO lat us [max]
2026-01-02T03:04:05,,dir,1,1,8,1,4,268435456,1048576,1,0,,4,1,0,MKDIRS,2,5,,,,,,,
2026-01-02T03:04:05,,dir,1,1,8,1,4,268435456,1048576,1,0,,4,1,0,WRITE,2000,2800,3494,2941,3494,\
2941,1661,9383,120903
2026-01-02T03:04:09,,file,1,2,8,1,4,268435456,4096,0,1,1,4,1,0,READ,800,900,9000,8192,35,32,5,\
320,6922
"""
VDBENCH = """\
* vdbench summary report, flatfile
tod Run Interval reqrate rate MB/sec bytes/io read% resp xfersize threads rdpct seekpct
12:00:01.000 rd1_for_threads=8 1 max 90000.0 351.56 4096 70.00 0.080 4096 8 70 100
12:00:09.000 rd1_for_threads=8 avg_2-5 max 80000.0 312.50 4096 70.01 0.100 4096 8 70 100
"""
# The columns of Iometer's ManagerList.cpp, with figures of our own.
IOMETER = """\
'Test Type,Test Description
0,
'Results
'Target Type,Target Name,Access Specification Name,# Managers,# Workers,# Disks,IOps,Read IOps,\
Write IOps,MBps (Binary),Read MBps (Binary),Write MBps (Binary),MBps (Decimal),Read MBps (Decimal),\
Write MBps (Decimal),Transactions per Second,Connections per Second,Average Response Time,\
Average Read Response Time,Average Write Response Time,Queue Depth,% CPU Utilization
ALL,All,4 KiB; 75% Read; 100% random,1,1,1,8000.00000,6000,2000,31.25,23.4375,7.8125,32.768,24.576,\
8.192,8000,0,0.4,0.5,0.1,4,12.5
MANAGER,BOX,4 KiB; 75% Read; 100% random,,1,1,8000,6000,2000,31.25,23.4375,7.8125,32.768,24.576,\
8.192,8000,0,0.4,0.5,0.1,4,12.5
'Time Stamp
2026-01-02 03:04:05:678
'Results
'Target Type,Target Name,Access Specification Name,# Managers,# Workers,# Disks,IOps,Read IOps,\
Write IOps,MBps,Read MBps,Write MBps,Average Read Response Time,Average Write Response Time
ALL,All,512 B; 100% Read,1,4,4,1.25e+06,1.25e+06,0,610.351562,610.351562,0,0.1,0
"""
IOSTAT = """\
Linux 6.1.0 (box)  01/02/2026  _x86_64_  (2 CPU)

01/02/2026 03:04:05 AM
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           1.00    0.00    1.00    0.00    0.00   98.00

Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s w_await aqu-sz %util
nvme0n1 9.00 36.00 0.00 0.00 0.50 4.00 1.00 4.00 0.10 0.01 1.00

01/02/2026 03:04:06 AM
Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s w_await aqu-sz %util
nvme0n1 3000.00 12000.00 0.00 0.00 0.20 4.00 1000.00 4000.00 0.10 0.70 99.00
sda 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00
"""
PHORONIX = """\
<?xml version="1.0"?><PhoronixTestSuite><Generated><TestClient>10.8.4</TestClient></Generated>
<System><Identifier>box</Identifier></System><Result><Identifier>pts/fio-2.1.0</Identifier>
<Title>Flexible IO Tester</Title><Description>Type: Random Read - Engine: IO_uring - Direct: Yes \
- Block Size: 4KB - Disk Target: Default Test Directory</Description><Scale>IOPS</Scale>
<Data><Entry><Identifier>box</Identifier><Value>100000</Value></Entry></Data></Result>
<Result><Identifier>pts/fio-2.1.0</Identifier><Description>Type: Random Read - Engine: IO_uring - \
Direct: Yes - Block Size: 4KB - Disk Target: Default Test Directory</Description>
<Scale>MB/s</Scale><Data><Entry><Value>391</Value></Entry></Data></Result></PhoronixTestSuite>
"""
SAMPLES = {
    "crystaldiskmark": (CDM_8, CDM_6, CDM_3, KDISKMARK),
    "as-ssd": (AS_SSD, AS_SSD_IOPS),
    "fio-text": (FIO_3, FIO_2),
    "fio-terse": (TERSE,),
    "diskspd": (DISKSPD,),
    "elbencho": (ELBENCHO,),
    "vdbench": (VDBENCH,),
    "iostat": (IOSTAT,),
    "iometer": (IOMETER,),
    "phoronix": (PHORONIX,),
}


def imported(text: str, tmp_path: Path, name: str = AUTO) -> tuple[results.Step, str]:
    """The step that a text becomes, and its warnings in one text."""
    (tmp_path / "a.txt").write_text(text)
    out = tmp_path / "imported"
    shutil.rmtree(out, ignore_errors=True)
    (step,) = results.load(import_files(name, [tmp_path / "a.txt"], out)).steps
    return step, "; ".join(step.conditions()["warnings"])


@pytest.mark.parametrize("before", ["nothing", "an empty folder"])
@pytest.mark.parametrize("failing_write", range(1, 6))
def test_an_import_is_whole_or_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing_write: int, before: str
) -> None:
    """From any write on, the disk is full; a review's hint to resume would be wrong."""
    (tmp_path / "a.txt").write_text(FIO_3)
    out = tmp_path / "here" / "imported"
    (out if before == "an empty folder" else out.parent).mkdir(parents=True)
    left = [failing_write]
    real = files.write_new

    def write_new(path: Path, raw: bytes) -> None:
        left[0] -= 1
        if left[0] <= 0:
            path.write_bytes(raw[:1])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        real(path, raw)

    monkeypatch.setattr(files, "write_new", write_new)
    with pytest.raises(EnvironmentProblem, match="disk is full") as caught:
        import_files(AUTO, [tmp_path / "a.txt"], out)
    assert "--resume" not in caught.value.hint
    assert [*out.parent.rglob("*")] == ([out] if before == "an empty folder" else [])
    monkeypatch.undo()
    assert results.load(import_files(AUTO, [tmp_path / "a.txt"], out)).missing == ()
    with pytest.raises(UserError, match="holds a result already") as refused:
        import_files(AUTO, [tmp_path / "a.txt"], out)
    assert "--resume" not in refused.value.hint


def figures(folder: Path) -> dict[str, float]:
    return dict(query("SELECT figure, value FROM figures WHERE value IS NOT NULL", [folder]).rows)


@pytest.mark.parametrize("row", ["Read", "Read:", "Read: 50.00 MB", "Read: fast"])
def test_a_damaged_row_of_as_ssd_is_refused(row: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"line 14 cannot be read: {row}$"):
        imported(AS_SSD.replace("Read: 50.00 MB/s", row), tmp_path)


def test_both_texts_of_as_ssd_have_the_same_rates(tmp_path: Path) -> None:
    for text in (AS_SSD, AS_SSD_IOPS, AS_SSD.replace(".", ",")):
        step, warnings = imported(text, tmp_path)
        loads = [phase.workload for phase in step.phases()]
        assert [load.read_percent for load in loads] == [100, 0, 100, 0, 100]
        assert [load.queue_depth for load in loads] == [1, 1, 1, 1, 64]
        assert [load.block_bytes for load in loads[1:3]] == [2**24, 4096]
        assert "4K-64Threads write was not run" in warnings
        rates = [phase.metrics["mb_per_s"] for phase in step.phases()]
        assert rates == pytest.approx([2621.4, 1048.6, 52.4, 104.9, 419.4], rel=1e-3)
        assert step.phases()[2].metrics["iops"] == pytest.approx(12800)
    target = results.load(tmp_path / "imported").target
    assert (
        target["drive"] == "ACME NVMe SSD" and target["imported"]["time"] == "2025/04/23 16:05:59"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Read: 50.00", "Read: 5O.00", "line 14 cannot be read"),
        ("Read: 50.00", "AS SSD Benchmark 2.0\nRead: 50.00", "holds several results"),
        ("MB/s", "KB/s", "line 10 cannot be read"),
    ],
)
def test_as_ssds_rows_that_cannot_be_read_are_refused(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        imported(AS_SSD.replace(old, new), tmp_path)
    assert not (tmp_path / "imported").exists()


# --- CrystalDiskMark ------------------------------------------------------------------------------


def test_rates_and_latencies_of_crystaldiskmark_are_kept(tmp_path: Path) -> None:
    step, warnings = imported(CDM_8, tmp_path)
    found = figures(tmp_path / "imported")
    assert found["rate_seq-1mib-q8-t1-read"] == 3567.5
    assert found["iops_seq-1mib-q8-t1-read"] == 3402.2
    assert found["latency_mean_seq-1mib-q8-t1-read"] == pytest.approx(2350.1)
    loads = {phase.label: phase.workload for phase in step.phases()}
    assert len(loads) == 4 and "RND 4KiB Q1 T1 read was not run" in warnings
    mix = loads["rnd-4kib-q1-t1-mix"]
    assert (mix.pattern, mix.read_percent, mix.block_bytes) == ("random", 70, 4096)
    threads = loads["rnd-4kib-q32-t16-read"]
    assert (threads.queue_depth, threads.span_bytes, threads.duration_s) == (512, 2**30, 5)
    assert not threads.unknown and threads.content.compressible_percent == 100
    target = results.load(tmp_path / "imported").target
    assert target["drive"] == "D:" and target["capacity_bytes"] == 0
    assert target["imported"] == {
        "program": "CrystalDiskMark 8.0.4",
        "time": "2024/03/05 12:34:56",
    }
    page = drivebay.report.write([tmp_path / "imported"]).read_text().replace("\u00a0", " ")
    assert "from 50 MB/s in rnd-4kib-q1-t1-mix to 3,568 MB/s in seq-1mib-q8-t1-read." in page


def test_older_forms_lack_latencies_and_lengths(tmp_path: Path) -> None:
    step, _ = imported(CDM_6, tmp_path)
    blocks = {phase.label: phase.workload.block_bytes for phase in step.phases()}
    assert blocks == {
        "sequential-read-q32-t1": 2**17,
        "random-read-4kib-q8-t8": 4096,
        "sequential-write-t1": 2**20,
    }
    step, _ = imported(CDM_3, tmp_path)
    found = {phase.label: phase for phase in step.phases()}
    assert found["random-write-512kb"].workload.block_bytes == 2**19
    deep = found["random-read-4kb-qd32"]
    assert deep.workload.queue_depth == 32 and "latency_ns_mean" not in deep.metrics
    # 1000 MB of version 3 are in a unit that it does not define.
    assert deep.workload.unknown == ("duration_s",) and deep.workload.span_bytes is None
    report = drivebay.report.write([tmp_path / "imported"]).read_text()
    assert "capacity not known" in report
    assert "length not known" in report and "I/Os not counted" in report
    unknown, warnings = imported(CDM_6.replace("6.0.2", "4.1.0"), tmp_path)
    assert len(unknown.phases()) == 2 and "Sequential Read Q32 T1 is left out" in warnings


def test_kdiskmarks_megabytes_are_told_from_its_iops(tmp_path: Path) -> None:
    step, warnings = imported(KDISKMARK, tmp_path)
    read, write = step.phases()
    assert read.metrics["mb_per_s"] == 512 and read.metrics["iops"] == 500
    assert "512 MB/s and 500 IOPS" in warnings and "409.6" not in warnings
    assert write.workload.queue_depth == 32 and write.workload.duration_s == 60
    assert results.load(tmp_path / "imported").target["drive"] == "/home"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("3567.500 MB/s", "3567,500 MB/s", "line 9 cannot be read"),
        ("[Write]", CDM_3, "holds several results"),
        ("[Read]", "", "line 9 does not tell its share of reads"),
        ("[Mix] Read 70%/Write 30%", "[Mix]", "does not tell its share of reads"),
        ("1MiB (Q=  8", "1MiB (Q=8000", "cannot be imported: queue_depth"),
        ("MB/s [", "MiB/s [", "is of no format that can be imported"),
    ],
)
def test_rows_that_cannot_be_read_are_refused(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        imported(CDM_8.replace(old, new), tmp_path)
    assert not (tmp_path / "imported").exists()


# --- fio's text -----------------------------------------------------------------------------------


def test_fios_text_has_counts_depths_and_its_own_words(tmp_path: Path) -> None:
    step, warnings = imported(FIO_3, tmp_path)
    reads, mixed = step.phases()
    assert (reads.reads, reads.read_bytes, reads.duration_s) == (400_000, 400_000 * 4096, 10)
    load = reads.workload
    assert (load.pattern, load.queue_depth, load.block_bytes) == ("random", 16, 4096)
    assert load.unknown == ("offsets",)
    assert reads.metrics["latency_ns_mean"] == pytest.approx(398_000)
    assert reads.metrics["read_slat_nsec_max"] == 21_600
    assert reads.metrics["read_clat_usec_p99.9"] == 999
    assert reads.metrics["latency_us_p99"] == 700 and reads.histogram.num_rows == 0
    assert "completion part" in warnings and "options 50 %" not in warnings
    assert (mixed.reads, mixed.writes, mixed.workload.read_percent) == (7000, 3000, 70)
    assert mixed.write_bytes == 3000 * 8192 and mixed.workload.queue_depth == 1
    assert mixed.metrics["latency_ns_mean"] == pytest.approx(0.7 * 901_000 + 0.3 * 1_210_000)
    assert not any(name.startswith("latency_us_p") for name in mixed.metrics)
    assert max(value for name, value in mixed.metrics.items() if "usec" in name) == 30_965
    suite = results.load(tmp_path / "imported").suite
    assert suite.title == "Imported from fio" and suite.source == "fio's text output"


def test_fio_2_has_kib_and_other_words(tmp_path: Path) -> None:
    step, _ = imported(FIO_2, tmp_path)
    (phase,) = step.phases()
    assert (phase.writes, phase.write_bytes) == (8000, 8000 * 2**17)
    assert phase.workload.queue_depth == 4 and phase.workload.pattern == "sequential"
    assert phase.metrics["latency_us_p99"] == 9000
    found = figures(tmp_path / "imported")
    assert found["latency_p99"] == 9000 and found["latency_mean"] == pytest.approx(4910)
    page = drivebay.report.write([tmp_path / "imported"]).read_text()
    assert "percentile" in page
    assert "data rate over time" not in page, "nothing is known of single seconds"


def test_what_fios_text_does_not_say_is_unknown(tmp_path: Path) -> None:
    without = FIO_3[FIO_3.index("reads: (groupid") :]
    step, warnings = imported("\n".join(f"> {line}" for line in without.split("\n")), tmp_path)
    reads, _ = step.phases()
    assert set(reads.workload.unknown) == {"pattern", "queue_depth"}
    assert step.test.title.endswith("(pattern and queue depth not known)")
    assert reads.workload.queue_depth == 16  # on average, by Little's law
    cut = FIO_2[: FIO_2.index("     issued")]
    (phase,), warnings = imported(cut, tmp_path)[0].phases(), imported(cut, tmp_path)[1]
    assert phase.writes == 8000 and "does not report the number of I/Os" in warnings
    # Two runs in one file are not clones of a job.
    step, _ = imported(FIO_2 + FIO_2, tmp_path)
    assert [phase.writes for phase in step.phases()] == [8000, 8000]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("err= 0: pid=11", "err= 5 (file:a.c, error=Input/output error): pid=11", "error 5"),
        ("  read: IOPS", "  trim: IOPS", "trims are not imported"),
        ("total=400000,0", "total=4000000000000000000,0", "not allowed"),
        ("(1563MiB/10000msec)", "", "a line of job reads: read: IOPS=40.0k"),
        ("groupid=", "grupid=", "is of no format"),
    ],
)
def test_fios_text_that_is_wrong_is_refused(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    text = FIO_3.replace(old, new)
    text = text.replace("total=400000,0,0", "total=0,0,4") if "trim" in new else text
    with pytest.raises(UserError, match=message):
        imported(text, tmp_path)
    assert not (tmp_path / "imported").exists()


def test_fios_text_and_its_json_of_one_run_agree(tmp_path: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    command = "fio --name=a --filename=disk --size=8m --rw=randrw --rwmixread=60 --bs=8k "
    command += "--ioengine=libaio --iodepth=4 --numjobs=2 --loops=2 --output=both "
    more = ("--group_reporting", "--output-format=normal,json")
    subprocess.run([*command.split(), *more], cwd=tmp_path, check=True, capture_output=True)
    both = (tmp_path / "both").read_text()
    begin, end = both.index("\n{") + 1, both.index("\n}\n") + 3
    (tmp_path / "a.json").write_text(both[begin:end])
    (tmp_path / "a.txt").write_text(both[:begin] + both[end:])
    with pytest.raises(UserError, match="both fits several formats: fio and fio-text"):
        read_files(AUTO, [tmp_path / "both"])
    (json,), (text,) = (
        read_files(AUTO, [tmp_path / name]).files[0].phases for name in ("a.json", "a.txt")
    )
    for name in ("reads", "writes", "read_bytes", "write_bytes", "duration_s"):
        assert getattr(json, name) == getattr(text, name)
    mean = text.metrics["latency_ns_mean"]
    assert mean == pytest.approx(json.metrics["latency_ns_mean"], rel=0.01)
    for name in ("pattern", "queue_depth", "block_bytes"):
        assert getattr(json.workload, name) == getattr(text.workload, name)


# --- Others ---------------------------------------------------------------------------------------


def test_terse_output_has_rates_and_the_listed_percentiles(tmp_path: Path) -> None:
    step, warnings = imported(TERSE, tmp_path)
    (phase,) = step.phases()
    assert (phase.reads, phase.read_bytes, phase.writes) == (2000, 8000 * 1024, 0)
    assert phase.metrics["latency_us_p99"] == 800 and phase.metrics["latency_ns_mean"] == 104_500
    assert set(phase.workload.unknown) == {"pattern", "queue_depth"}
    assert "it is the rate times the time" in warnings


def test_diskspds_counts_mix_and_depth_are_kept(tmp_path: Path) -> None:
    step, warnings = imported(DISKSPD, tmp_path)
    (phase,) = step.phases()
    load = phase.workload
    assert (load.pattern, load.read_percent, load.queue_depth) == ("random", 70, 16)
    assert phase.metrics["iops"] == 10_000 and phase.metrics["mb_per_s"] == pytest.approx(40.96)
    assert phase.metrics["latency_us_p99"] == 900 and not warnings
    alone = DISKSPD.replace("<ReadCount>70000</ReadCount><WriteCount>30000</WriteCount>", "")
    with pytest.raises(UserError, match="no share of reads"):
        imported(alone, tmp_path)
    with pytest.raises(UserError, match="it defines entities"):
        imported("<!DOCTYPE a><Results><!ENTITY a><TestTimeSeconds></Results>", tmp_path)


def test_tables_have_their_columns_units(tmp_path: Path) -> None:
    step, warnings = imported(ELBENCHO, tmp_path)
    write, read = step.phases()
    assert write.metrics["mb_per_s"] == pytest.approx(2941 * 1.048576)
    assert write.workload.queue_depth == 32 and write.duration_s == pytest.approx(2.8)
    assert (read.workload.pattern, read.workload.queue_depth) == ("random", 64)
    assert read.metrics["latency_ns_mean"] == 320_000 and "page cache" in warnings
    (phase,) = imported(VDBENCH, tmp_path)[0].phases()
    assert (phase.workload.read_percent, phase.workload.queue_depth) == (70, 8)
    assert phase.metrics["iops"] == 80_000 and phase.metrics["latency_ns_mean"] == 100_000
    step, warnings = imported(IOSTAT, tmp_path)
    (phase,) = step.phases()
    assert phase.label == "nvme0n1" and phase.workload.read_percent == 75
    assert phase.metrics["mb_per_s"] == pytest.approx(16.384)
    assert phase.metrics["latency_ns_mean"] == pytest.approx(175_000)
    assert "sda moved no data" in warnings and "pattern" in phase.workload.unknown


def test_both_scales_of_a_phoronix_result_are_one_phase(tmp_path: Path) -> None:
    step, warnings = imported(PHORONIX, tmp_path)
    (phase,) = step.phases()
    assert phase.metrics == {"iops": 100_000, "mb_per_s": pytest.approx(391 * 1.048576)}
    assert phase.workload.pattern == "random" and "queue depth" in warnings


# --- All ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_is_recognized_and_no_other_fits(name: str, tmp_path: Path) -> None:
    importer = next(one for one in IMPORTERS if one.name == name)
    assert callable(importlib.import_module(importer.module).read)
    for text in SAMPLES[name]:
        assert [one.name for one in IMPORTERS if one.mark.search(text)] == [name]
        (tmp_path / "a.txt").write_bytes(text.encode("utf-16"))
        assert read_files(AUTO, [tmp_path / "a.txt"]).name == name


def test_rows_of_all_managers_of_iometer_are_phases(tmp_path: Path) -> None:
    step, warnings = imported(IOMETER, tmp_path)
    mixed, small = step.phases()
    assert (mixed.metrics["iops"], mixed.metrics["mb_per_s"]) == (8000, 32.768)
    assert mixed.metrics["latency_ns_mean"] == pytest.approx(400_000)
    load = mixed.workload
    assert (load.read_percent, load.block_bytes) == (75, 4096)
    assert load.unknown == ("pattern", "queue_depth", "duration_s")
    assert (small.metrics["iops"], small.workload.block_bytes) == (1.25e6, 512)
    assert "pattern and queue depth are those of its access specification" in warnings


def test_files_of_several_programs_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text(CDM_8)
    (tmp_path / "b.txt").write_text(FIO_3)
    files, out = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")], str(tmp_path / "out")
    assert run(["import", "auto", *files, "--out", out]) == 2
    assert "b.txt is of another format than the files before it" in capsys.readouterr().err
    assert run(["import", "crystaldiskmark", files[1], "--out", out]) == 2
    assert "hint: it fits: drivebay import fio-text" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run(["import", "fio-text", files[1], "--out", out, "--time-scale", "1/2"]) == 0
    (step,) = results.load(tmp_path / "out").steps
    assert step.phases()[0].duration_s == 5


def changed(text: str, draw: random.Random) -> str:
    """The text with a few numbers, letters or lines replaced, left out or doubled."""
    tokens = ("", "0", "9" * 17, "9" * 400, "-1", "nan", "inf", "1e999", ":", "(", "[Mix]", "\0")
    for _ in range(draw.randint(1, 4)):
        text = text or " "
        at, length = draw.randrange(len(text)), draw.randint(0, 12)
        match draw.randrange(3):
            case 0:
                text = text[:at] + draw.choice(tokens) + text[at + length :]
            case 1:
                lines = text.split("\n")
                place = draw.randrange(len(lines))
                lines[place : place + 1] = [lines[place]] * draw.randint(0, 2)
                text = "\n".join(lines) or " "
            case _:
                digits = [place for place, letter in enumerate(text) if letter.isdigit()]
                place = draw.choice(digits or [0])
                text = text[:place] + draw.choice("0123456789.kM") + text[place + 1 :]
    return text


def check(phase: PhaseResult) -> None:
    counts = (phase.reads, phase.writes, phase.read_bytes, phase.write_bytes)
    for figure in (phase.duration_s, *counts, *phase.metrics.values()):
        assert math.isfinite(figure) and 0 <= figure < 2**63


@pytest.mark.parametrize("name", SAMPLES)
def test_a_changed_file_is_taken_or_refused_in_words(name: str, tmp_path: Path) -> None:
    draw, path, taken = random.Random(name), tmp_path / "a.txt", 0
    for turn in range(TIMES):
        path.write_text(changed(draw.choice(SAMPLES[name]), draw))
        try:
            foreign = read_files(name, [path])
            for phase in foreign.files[0].phases:
                check(phase)
            if turn % 10 == 0:
                results.load(foreign.write(tmp_path / str(turn)))
            taken += 1
        except DrivebayError as problem:
            assert problem.message and problem.hint
            assert "\n" not in problem.message + problem.hint
            assert not (tmp_path / str(turn)).exists()
    assert 0 < taken < TIMES
