"""`python -m drivebay`: the same program as `drivebay`."""

from drivebay.cli import main

main()
