"""What runs in the guest; there this package is called `inside`."""
