"""The page on which people give their key, which becomes a cookie that no script can read."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from api.access.access import COOKIE, KEY_PAGE, Access
from api.web.pages import PageRoute, render, sent_form
from db.access import keys

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(KEY_PAGE)
def key_page(request: Request, back: str = "/") -> Response:
    return render(request, "key.html", problem=None, wrong=False, back=_here(back))


@router.post(KEY_PAGE)
async def give_key(
    request: Request, sent: Annotated[dict[str, str], Depends(sent_form)]
) -> Response:
    """Set the cookie to the key that was sent; if the key is empty, delete the cookie."""
    access: Access = request.app.state.access
    back, given = _here(sent.get("back", "/")), sent.get("key", "").strip()
    answer = RedirectResponse(back, 303)
    if not given:
        answer.delete_cookie(COOKIE)
        return answer
    key = (await access.keyring.current()).get(keys.digest(given))
    if key is None or key.expired:
        return render(request, "key.html", 422, problem=None, back=back, wrong=True)
    answer.set_cookie(
        COOKIE, given, httponly=True, samesite="lax", secure=request.url.scheme == "https"
    )
    return answer


def _here(back: str) -> str:
    """Return ``back`` if it is a path of this service, otherwise the path of the first page."""
    ours = back.startswith("/") and not back.startswith(("//", "/\\"))
    return back if ours and back.isprintable() else "/"
