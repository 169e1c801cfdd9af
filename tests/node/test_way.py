"""The way of a file: brought, proved, fetched, repaired, deleted."""

from tests.node.conftest import Site, put
from tests.pdp.holding import Holding

from holdfast.node.place import Part
from holdfast.pdp import draw_challenge, verify_with_key


def test_a_proof_over_http_verifies(site: Site) -> None:
    kept = Holding.of(5000, 0, 62 * 40, 777)
    with site.client() as client:
        inventory = put(client, kept)
        assert inventory == kept.inventory == client.inventory(kept.key.public.id)
        challenge = draw_challenge(inventory, inventory.blocks)
        answer = client.prove(kept.key.public.id, challenge)
        assert verify_with_key(kept.key, inventory, challenge, answer.proof)
        data = b"".join(client.pieces(kept.key.public.id, kept.ids[0], Part.DATA))
        assert data == kept.contents[0]
