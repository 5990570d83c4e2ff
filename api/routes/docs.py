"""Swagger UI over the OpenAPI document, from this service's own files."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import Response

from api.web import assets

router = APIRouter(include_in_schema=False)

# Whatever the page would like to load: no request leaves this service.
_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data:; "
    "script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'"
)


@router.get("/docs")
def docs(request: Request) -> Response:
    page = get_swagger_ui_html(
        openapi_url=str(request.app.openapi_url),
        title=request.app.title,
        swagger_js_url=assets.url("vendor/swagger-ui-bundle.js"),
        swagger_css_url=assets.url("vendor/swagger-ui.css"),
        swagger_favicon_url=assets.url("icon.svg"),
        swagger_ui_parameters={"validatorUrl": None},  # it would be sent the document
    )
    page.headers["Content-Security-Policy"] = _POLICY
    return page
