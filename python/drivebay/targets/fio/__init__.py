"""Files and block devices as targets, tested with fio."""
