"""Whose signatures there are."""

from __future__ import annotations

from fastapi import APIRouter

from api.answers.given_once import GIVEN_ONCE
from api.dependencies import EngineDep
from api.schemas.common import Listing
from api.schemas.signers import SignerView
from db.results import signers

router = APIRouter(tags=["artifacts"], dependencies=[GIVEN_ONCE])


@router.get("/signers", summary="The public keys that libraries are signed with")
def list_signers(engine: EngineDep) -> Listing[SignerView]:
    """One for each worker host, or shared by them. A client keeps those that it met first, and asks
    before it takes another."""
    return Listing(
        items=[SignerView.model_validate(signer) for signer in signers.list_signers(engine)]
    )
