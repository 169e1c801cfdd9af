"""The belief that a holding's node is malicious, which nobody can observe."""

from fastapi import APIRouter

from holdfast.web.context import RequestContext
from holdfast.web.pagination import Id
from holdfast.web.services.posterior import Belief, observe

router = APIRouter(prefix="/holdings", tags=["holdings"])


@router.get("/{holding}/belief", summary="The belief of malice, audit by audit")
def get_belief(context: RequestContext, holding: Id) -> Belief:
    with context.read() as connection:
        observations = observe(connection, context.settings, holding)
    return context.posteriors.infer(observations)
