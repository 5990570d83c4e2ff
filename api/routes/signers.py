"""Route of the public keys with which libraries are signed."""

from __future__ import annotations

from fastapi import APIRouter

from api.dependencies import EngineDep
from api.route_helpers.strict_query import StrictQuery
from api.schemas.common import Listing
from api.schemas.signers import SignerView
from db.results import signers

router = APIRouter(tags=["artifacts"], dependencies=[StrictQuery])


@router.get("/signers", summary="The public keys that libraries are signed with")
def list_signers(engine: EngineDep) -> Listing[SignerView]:
    """Return the public keys of the workers' hosts, oldest first. Several hosts may share one.

    A client pins the keys that it is sent first. It accepts another only once its user agrees."""
    return Listing(
        items=[SignerView.model_validate(signer) for signer in signers.list_signers(engine)]
    )
