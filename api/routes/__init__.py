"""Routes of the HTTP API: one noun a file, each with a ``router``. ``html`` has the pages."""
