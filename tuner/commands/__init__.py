"""The command line's commands, one file each. ``add_to(app)`` of a file adds what it has."""
