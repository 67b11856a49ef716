"""What forbids a test on a file or block device, exclusive access to it, and erasing it."""
