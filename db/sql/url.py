"""A database's URL as it may be shown."""

from sqlalchemy import URL

SECRETS = ("password", "sslpassword")
"""Of a URL's query, which PostgreSQL's library reads as it does the rest."""


def without_passwords(url: URL) -> str:
    return url.difference_update_query(SECRETS).render_as_string(hide_password=True)
