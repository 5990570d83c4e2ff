"""The reader of an order's body: one JSON value, no part of which is dropped silently.

FastAPI would keep only the last of two members with the same name. If a body is compressed or is
not text, FastAPI would say only that it can't parse the body."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from api.problems.messages import FieldError, shortened, summary
from api.problems.problems import Problem
from templates.records.members import DuplicateMember, unique_members


class JsonRoute(APIRoute):
    """A route that reads its body, if there is one, by the rules of this module."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return handled


class _JsonRequest(Request):
    async def json(self) -> Any:
        """Return the body's JSON value.

        Raise Problem if the body is compressed, is no text, or gives a name twice in one object.
        Raise JSONDecodeError if it is no JSON."""
        refuse_compressed(self)
        try:
            return json.loads(await self.body(), object_pairs_hook=unique_members)
        except UnicodeDecodeError as error:
            raise Problem(
                "body-not-json",
                f"the body is no {error.encoding.upper()} text: {error.reason} at byte "
                f"{error.start}; send JSON in UTF-8",
            ) from error
        except DuplicateMember as error:
            field = next(_repeated(json.loads(await self.body(), object_pairs_hook=tuple)))
            wrong = FieldError(field=field, message="is given more than once; give it once")
            raise Problem("invalid-request", summary([wrong]), errors=[wrong]) from error


def _repeated(value: Any) -> Iterator[str]:
    """Yield the path of each member that an object has more than once, as in ``workload.M``.

    ``value`` is a list, or an object as a tuple of its members."""
    left = [("", value)]
    for path, inside in left:
        seen = set[Any]()
        for name, member in inside if isinstance(inside, tuple) else enumerate(inside):
            here = shortened(f"{path}{name}")
            if name in seen:
                yield here
            seen.add(name)
            if isinstance(member, list | tuple):
                left.append((f"{here}.", member))


def refuse_compressed(request: Request) -> None:
    """Raise Problem if the request says that its body is compressed."""
    coding = request.headers.get("content-encoding", "")
    if coding.lower() not in ("", "identity"):
        raise Problem(
            "unsupported-media-type",
            f"content-encoding {coding[:40]} is not taken; send the body as it is, without that "
            "header",
        )
