"""Workers, and all devices that were ever seen."""
