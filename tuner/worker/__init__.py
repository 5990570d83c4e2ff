"""The worker: claims jobs and runs them, as a separate process or in a user's process."""
