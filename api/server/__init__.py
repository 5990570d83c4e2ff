"""The server process: connections, startup and shutdown, logs, memory, signals, the port."""
