"""What is recorded beside a test on a real drive: sensors, SMART, host, power meter, warnings."""
