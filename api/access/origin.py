"""Where a browser says that a request comes from."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request


def own(request: Request) -> bool:
    """Whether a browser says that a page of this service sent it."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    return _is_here(request, request.headers.get("origin", ""))


def foreign(request: Request) -> bool:
    """Whether a browser says that a page of another site sent it. Programs say nothing."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site not in ("same-origin", "none")
    return origin is not None and not _is_here(request, origin)


def _is_here(request: Request, origin: str) -> bool:
    try:
        return urlsplit(origin).netloc == request.headers.get("host") != ""
    except ValueError:
        return False
