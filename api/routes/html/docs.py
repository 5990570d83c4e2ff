"""Routes of the OpenAPI document, and of a Swagger UI that is served from our own files."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from api.access.access import Access
from api.web.pages import render

router = APIRouter(include_in_schema=False)

DOCUMENT = "/openapi.json"

# Swagger UI draws its arrows from data: URLs
_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data:; script-src 'self'; "
    "style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/docs")
def docs(request: Request) -> Response:
    page = render(request, "docs.html", title=request.app.title, document=DOCUMENT)
    page.headers["Content-Security-Policy"] = _POLICY
    return page


@router.get(DOCUMENT)
async def document(request: Request) -> Response:
    access: Access = request.app.state.access
    await access.keyring.current()  # so that the document says which routes need a key
    return JSONResponse(request.app.openapi())
