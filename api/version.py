"""The release that is running."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("convtune")
except PackageNotFoundError:  # run from a checkout that was not installed
    VERSION = "0+unknown"
