"""nvme-cli's own end-to-end tests against a served drive, in a guest.

The suite comes with nvme-cli's source package, and needs Namespace Management in every test. It is
run as it is; nothing of it is kept here. `eval "$(scripts/guest.sh)"` fetches it with the nvme-cli
and the Python of Debian's unstable, which the guest runs from a root of their own: they need a
newer C library than this machine may have. Not run where DRIVEBAY_GUEST_SUITE names no such folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import served_guest

pytestmark = served_guest.SUITE_MARKS
# What these ask for is left out: Get LBA Status, whose tests name no namespace that there is.
SKIPPED = {"nvme_get_lba_status_test", "nvme_lba_status_log_test"}
CONFIG = (
    '{"controller": "/dev/nvme0", "ns1": "/dev/nvme0n1", "log_dir": "/tmp/logs/", '
    '"do_validate_pci_device": false}'
)
# The limit is that of the suite's own build; a skipped test is told as such.
JOB = """\
cd /suite
for test in NAMES; do
  timeout 500 python3 -m nose2 --verbose --start-dir tests $test >/tmp/log 2>&1; code=$?
  grep -q skipped= /tmp/log && code=skipped
  echo "SAID $test $code"; [ $code = 0 ] || sed 's/^/   /' /tmp/log
done
"""


def test_nvme_clis_own_tests_pass(tmp_path: Path) -> None:
    root = served_guest.suite_root(tmp_path)
    tests = root / "suite/tests"
    shutil.copytree(next(Path(served_guest.SUITE).glob("nvme-cli-*/tests")), tests)
    (tests / "config.json").write_text(CONFIG)
    names = sorted(
        path.stem for path in tests.glob("nvme_*_test.py") if "template" not in path.stem
    )
    assert len(names) >= 20
    with served_guest.server("--nvme-tcp", "127.0.0.1:0", "--nqn", served_guest.NQN) as lines:
        said = served_guest.boot_suite(root, JOB.replace("NAMES", " ".join(names)), lines)
    results = {name: said.get(name, "not run") for name in names}
    assert results == {name: "skipped" if name in SKIPPED else "0" for name in names}
