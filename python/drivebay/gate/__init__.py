"""I/O cost of a program without the noise of the machine.

`record` runs a program on a served drive and keeps its requests, `timing` runs the requests again
on a virtual drive, `compare` compares two sets of recordings. This package must not know how
anything is printed.
"""
