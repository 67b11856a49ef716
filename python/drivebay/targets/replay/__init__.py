"""Replay of block traces on virtual and real targets."""
