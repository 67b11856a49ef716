"""Charts of runs, as data; the modules of this package build them, none draws."""
