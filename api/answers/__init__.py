"""From a request to its answer."""
