"""`python -m drivebay`: the same program as `drivebay`."""

from drivebay.cli import main

if __name__ == "__main__":
    main()
