"""Workers that are at work, and all devices that were ever seen."""
