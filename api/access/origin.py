"""Checks of the site from which a request comes, as the browser says."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request


def is_same_origin(request: Request) -> bool:
    """Return whether a browser says that a page of this service sent the request."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    return _is_own_host(request, request.headers.get("origin", ""))


def is_cross_origin(request: Request) -> bool:
    """Return whether a browser says that a page of another site sent the request.

    Programs other than browsers say nothing, so their requests are not cross-origin."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site not in ("same-origin", "none")
    return origin is not None and not _is_own_host(request, origin)


def _is_own_host(request: Request, origin: str) -> bool:
    """Return whether an Origin header names the host that the request was sent to."""
    try:
        return urlsplit(origin).netloc == request.headers.get("host") != ""
    except ValueError:
        return False
