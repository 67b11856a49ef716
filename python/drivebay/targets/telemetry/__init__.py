"""Records of the environment of a test on a real drive: sensors, SMART, host, power meter,
warnings.
"""
