"""Route of the files that pages load. A missing file is answered with a problem, not a page."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from api.dependencies import IfNoneMatch
from api.problems.problems import Problem
from api.route_helpers.conditional import matches, weak_etag
from api.web import assets

router = APIRouter(include_in_schema=False)


@router.get("/static/{name:path}")
def static(name: str, if_none_match: IfNoneMatch = None, v: str = "") -> Response:
    asset = assets.assets().get(name)
    if asset is None:
        raise Problem("route-not-found", f"there is no file {name[:80]!r} here")
    kept = "public, max-age=31536000, immutable" if v == asset.digest else "no-cache"
    headers = {"ETag": weak_etag(asset.digest), "Cache-Control": kept}
    if matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)
