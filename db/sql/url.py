"""Showing a database's URL without its passwords."""

from sqlalchemy import URL

SECRETS = ("password", "sslpassword")
"""Parameters of a URL's query in which libpq accepts passwords."""


def without_passwords(url: URL) -> str:
    """Return the URL as text, with ``***`` for its password and without SECRETS in its query."""
    return url.difference_update_query(SECRETS).render_as_string(hide_password=True)
