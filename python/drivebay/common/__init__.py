"""What every room may use: errors, units, the place of the project's data, signals, memory.

This room must not know any other room.
"""
