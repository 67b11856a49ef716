"""Runs in the guest of test_truth_faults.py, by drivebay's own Python: a drive's erase commands.

usage: erases_job.py DEVICE [METHOD]     prints them as JSON; sends the one of that name
"""

import json
import sys

from drivebay.targets.safety import blockdev, erase

if __name__ == "__main__":
    methods = erase.erase_methods(blockdev.inspect(sys.argv[1]))
    print(json.dumps({one.name: one.refused or "offered" for one in methods}))
    for one in methods:
        if one.name in sys.argv[2:] and not one.refused:
            one.erase(sys.argv[1], lambda _: None)
