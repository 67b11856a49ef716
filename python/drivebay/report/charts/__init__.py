"""Charts of the runs of tests, as data; the modules beside this one build them, none draws."""
