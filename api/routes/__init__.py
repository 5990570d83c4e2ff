"""Routes of the HTTP API: one noun a file, each with a ``router``. ``people`` has the pages."""
