"""Route of artifacts, which are named by their SHA-256."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Response

from api.dependencies import EngineDep, IfNoneMatch
from api.problems.problems import problem_responses
from api.route_helpers.conditional import byte_range, matches
from api.route_helpers.strict_query import StrictQuery
from api.schemas.common import SHA256
from db.results import artifacts, signers
from db.results.artifacts import ArtifactInfo

router = APIRouter(tags=["artifacts"], dependencies=[StrictQuery])

_SUFFIXES = {"library": ".so", "manifest": ".json", "record": ".json", "signature": ".sig"}
_SOURCE_SUFFIXES = {
    "text/x-cuda": ".cu",
    "text/x-llvm": ".ll",
    "text/x-asm": ".s",
    "text/x-c": ".c",
}
_BYTES: dict[str, Any] = {"*/*": {}}  # of the artifact's own type
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The bytes", "content": _BYTES},
    206: {"description": "The range asked for", "content": _BYTES},
    304: {"description": "The caller has it"},
    **problem_responses(404, 416),
}


@router.get(
    "/artifacts/{sha256}",
    summary="The bytes of an artifact",
    response_class=Response,
    responses=_ANSWERS,
)
def get_artifact(
    sha256: Annotated[
        str,
        Path(
            pattern="^[0-9a-f]{64}$",
            description="64 hexadecimal digits, lower case",
            examples=[SHA256],
        ),
    ],
    engine: EngineDep,
    wanted: Annotated[
        str | None, Header(alias="Range", description="one range of bytes", examples=["bytes=0-99"])
    ] = None,
    if_range: Annotated[
        str | None, Header(alias="If-Range", description="ETag the range is for")
    ] = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Return the bytes of an artifact, or one range of them.

    Before the service sends the bytes, it checks them against their SHA-256. It checks a signature
    against the manifest that it signs and against the keys of `GET /signers`, too. Check both again
    on arrival."""
    etag = f'"{sha256}"'
    info = artifacts.info(engine, sha256)
    withdrawable = info.kind == "signature"  # its signer's key may be withdrawn
    headers = {
        "ETag": etag,
        "Cache-Control": "no-cache" if withdrawable else "public, max-age=31536000, immutable",
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{_filename(info)}"',
    }
    if withdrawable:
        signers.check_signature(engine, sha256, artifacts.get(engine, sha256).content)
    if matches(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    part = byte_range(wanted, info.size) if if_range in {None, etag} else None
    content = artifacts.get(engine, sha256).content
    if part is None:
        return Response(content, media_type=info.media_type, headers=headers)
    start, stop = part
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{info.size}"
    return Response(content[start:stop], 206, headers, info.media_type)


def _filename(info: ArtifactInfo) -> str:
    """Return the name under which a browser saves the artifact."""
    suffix = _SUFFIXES.get(info.kind) or _SOURCE_SUFFIXES.get(info.media_type, ".txt")
    return f"convtune-{info.kind}-{info.sha256[:12]}{suffix}"
