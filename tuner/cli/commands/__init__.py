"""The commands of ``tuner``, one file each; its function ``add_to`` adds them to an app.

The docstring of a command is its help. Lists of commands show its first paragraph.
"""
