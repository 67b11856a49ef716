"""Import of fio's JSON output and logs as a result folder."""
