"""The worker: claims jobs and runs them, as a process of its own or in somebody else's."""
