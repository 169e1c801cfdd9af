"""A man in the middle without a key: what he can have signed, and what he can play again."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.adversaries.middle import Captured, ManInTheMiddle, Reply, man_in_the_middle
from tests.adversaries.stage import BLOCKS, SEGMENT, Stage, Turncoat

from holdfast.control.incidents.repair import Spot, repair_tags
from holdfast.errors import NodeError
from holdfast.evidence.leaf import Outcome
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.owner import (
    Holding,
    LocalCopy,
    Original,
    Replica,
    ReplicaSources,
    find_damage,
    put,
    repair_file,
)
from holdfast.owner.removal import remove
from holdfast.pdp import Location
from holdfast.pdp.spans import Spans

Harm = Callable[[Turncoat, Holding], None]


@pytest.fixture
def middle(stage: Stage) -> Iterator[tuple[ManInTheMiddle, Turncoat]]:
    """Return a man in the middle, and the honest node behind him."""
    node, url = stage.node()
    with man_in_the_middle(url) as between:
        yield between, node


def put_file(stage: Stage, holding: Holding, seed: int, name: str = "file") -> None:
    path = stage.folder / f"{name}-{seed}"
    path.write_bytes(stage.content(seed=seed))
    original = Original.of(Location(str(path)), SEGMENT)
    put(holding, name, original, replace_other=True, processes=1)


def damage(node: Turncoat, holding: Holding) -> None:
    kept = node.kept(holding)
    file = kept.record.files[0]
    kept.replace_blocks(file.file_id, [(7, 8)], bytes(len(kept.blocks(file.file_id, [(7, 8)])[0])))


def damage_tag(node: Turncoat, holding: Holding) -> None:
    kept = node.kept(holding)
    kept.replace_tags(kept.record.files[0].file_id, [(7, 8)], bytes(32))


def repair(stage: Stage, holding: Holding) -> None:
    """Put back what is damaged from the file that was put first."""
    (damaged,) = find_damage(holding)
    copy = LocalCopy(Location(str(stage.folder / f"{holding.name}.bin")))
    assert not repair_file(damaged, [copy])


def replaces(request: Captured) -> bool:
    return request.method == "PUT" and "/files/" in request.path


def deletes(request: Captured) -> bool:
    return request.method == "DELETE" and "/files/" in request.path


def agree(node: Turncoat, holding: Holding) -> bool:
    return node.kept(holding).record.inventory.hash == holding.inventory.hash


def clock_refusal(seconds: float) -> Reply:
    """Return what a node says of a wrong clock, without the node's signature."""
    refusal = {"error": {"code": Code.CLOCK, "message": "sign it again", "time": seconds}}
    return Reply(401, json.dumps(refusal).encode())


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [1, 3600, 86_000])
def test_a_time_that_the_node_did_not_sign_changes_no_signature(
    stage: Stage, middle: tuple[ManInTheMiddle, Turncoat], ahead: float
) -> None:
    """Before: the owner signed a repair dated ahead by whatever time the answer named.

    The repair of version 1, dated 3,600 s ahead, was played after version 2 was put: the node
    answered 204, and the honest node's next audit gave `failed`.
    """
    between, node = middle
    holding = stage.holding(node, between.url, stage.content())
    damage(node, holding)
    dated_ahead: list[Captured] = []

    def tactic(request: Captured) -> Reply:
        if request.created > stage.time:
            dated_ahead.append(request)
            return Reply(204)
        answer = between.forward(request)
        return clock_refusal(stage.time + ahead) if replaces(request) else answer

    between.tactic = tactic
    with pytest.raises(NodeError, match="did not sign the refusal"):
        repair(stage, holding)
    assert dated_ahead == []
    between.tactic = None
    put_file(stage, holding, 2)
    assert stage.audit(holding, BLOCKS).outcome is Outcome.PASSED


@pytest.mark.slow
def test_a_time_that_the_node_signed_for_another_request_is_not_believed(
    stage: Stage, middle: tuple[ManInTheMiddle, Turncoat]
) -> None:
    between, node = middle
    holding = stage.holding(node, between.url, stage.content())
    signed: list[Reply] = []

    def tactic(request: Captured) -> Reply:
        if not signed:
            stage.time += 50  # the request expires on its way
            signed.append(between.forward(request))
        return signed[0]

    between.tactic = tactic
    with pytest.raises(NodeRefusedError):  # it signs again by the first answer, and only once
        holding.node.holdings()
    assert signed[0].code == Code.CLOCK
    with pytest.raises(NodeError, match="did not sign the refusal"):
        holding.node.holdings()
    assert max(request.created for request in between.seen) <= stage.time


@pytest.mark.slow
def test_a_signed_time_can_not_be_changed_on_its_way(
    stage: Stage, middle: tuple[ManInTheMiddle, Turncoat]
) -> None:
    between, node = middle
    holding = stage.holding(node, between.url, stage.content())

    def tactic(request: Captured) -> Reply:
        stage.time += 50  # the request expires on its way
        refusal = json.loads(between.forward(request).body)
        assert refusal["error"]["code"] == Code.CLOCK
        refusal["error"]["time"] += 30
        return Reply(401, json.dumps(refusal).encode())

    between.tactic = tactic
    with pytest.raises(NodeError, match="did not sign the refusal"):
        holding.node.holdings()


@pytest.mark.slow
@pytest.mark.parametrize("harm", [damage, damage_tag])
def test_a_repair_held_back_until_the_next_version_is_refused(
    stage: Stage, middle: tuple[ManInTheMiddle, Turncoat], harm: Harm
) -> None:
    """Before: it was answered by 204, and the honest node's next audit gave `failed`."""
    between, node = middle
    holding = stage.holding(node, between.url, stage.content())
    harm(node, holding)
    held_back = between.withhold_first(replaces)
    repair(stage, holding)
    assert len(held_back) == 1
    put_file(stage, holding, 2)
    assert [between.forward(request).code for request in held_back] == [Code.CONFLICT]
    assert stage.audit(holding, BLOCKS).outcome is Outcome.PASSED


@pytest.mark.slow
def test_a_repair_held_back_until_another_file_is_put_is_refused(
    stage: Stage, middle: tuple[ManInTheMiddle, Turncoat]
) -> None:
    between, node = middle
    holding = stage.holding(node, between.url, stage.content())
    damage(node, holding)
    held_back = between.withhold_first(replaces)
    repair(stage, holding)
    put_file(stage, holding, 2, "another file")
    assert [between.forward(request).code for request in held_back] == [Code.INVENTORY]
    assert stage.audit(holding, 2 * BLOCKS).outcome is Outcome.PASSED


@pytest.mark.slow
def test_a_deletion_held_back_until_the_next_version_is_refused(
    stage: Stage, middle: tuple[ManInTheMiddle, Turncoat]
) -> None:
    """Before: it was answered by 204, and version 2 was gone from the node."""
    between, node = middle
    holding = stage.holding(node, between.url, stage.content())
    held_back: list[Captured] = []

    def tactic(request: Captured) -> Reply | None:
        if deletes(request):
            held_back.append(request)
            return None
        return between.forward(request)

    between.tactic = tactic
    with pytest.raises(NodeError):
        remove(holding, "file")
    put_file(stage, holding, 2)
    assert len(held_back) == 2, "the client tries twice"
    assert [between.forward(request).code for request in held_back] == [Code.INVENTORY] * 2
    assert agree(node, holding)
    assert stage.audit(holding, BLOCKS).outcome is Outcome.PASSED


def put_in_attempts(stage: Stage, holding: Holding, name: str) -> None:
    """Put a file over a connection that breaks; each attempt resumes the one before."""
    for _ in range(99):
        try:
            return put_file(stage, holding, 2, name)
        except NodeError:
            continue
    raise AssertionError("it never came through")


@pytest.mark.slow
def test_an_upload_held_back_does_not_bring_a_deleted_file_back(
    stage: Stage, middle: tuple[ManInTheMiddle, Turncoat]
) -> None:
    """Before: announcement, 27 segments and commit were taken again after the file was deleted.

    The node then had a file that its owner did not, and refused the next audit for its inventory.
    """
    between, node = middle
    holding = stage.holding(node, between.url, stage.content())
    held_back = between.withhold_first(lambda request: "/uploads" in request.path)
    put_in_attempts(stage, holding, "another file")
    between.tactic = None
    remove(holding, "another file")
    assert len(held_back) > 2
    replies = [between.forward(request) for request in held_back]
    assert replies[0].code == Code.BUSY, "it was announced before the deletion"
    assert {reply.code for reply in replies[1:]} == {Code.NOT_FOUND}
    assert agree(node, holding)
    assert stage.audit(holding, BLOCKS).outcome is Outcome.PASSED
    stage.time += 1
    put_file(stage, holding, 2, "another file")
    assert agree(node, holding), "an upload announced later is welcome"


@pytest.mark.slow
def test_an_upload_held_back_is_not_committed_after_it_was_given_up(
    stage: Stage, middle: tuple[ManInTheMiddle, Turncoat]
) -> None:
    """Before: all of it was taken again, and owner and node disagreed on the inventory."""
    between, node = middle
    holding = stage.holding(node, between.url, stage.content())
    held_back: list[Captured] = []
    known: set[str] = set()

    def tactic(request: Captured) -> Reply | None:
        if "/uploads" not in request.path or request.method == "DELETE":
            return between.forward(request)
        if request.path not in known or request.path.endswith("/commit"):
            known.add(request.path)
            held_back.append(request)
            return None
        return between.forward(request)

    between.tactic = tactic
    with pytest.raises(NodeError):
        put_file(stage, holding, 2, "another file")
    remove(holding, "another file")
    assert {between.forward(request).code for request in held_back} == {Code.BUSY, Code.NOT_FOUND}
    assert agree(node, holding)
    assert stage.audit(holding, BLOCKS).outcome is Outcome.PASSED


@pytest.mark.slow
def test_an_owner_whose_clock_is_behind_can_put_after_a_deletion(
    stage: Stage, middle: tuple[ManInTheMiddle, Turncoat]
) -> None:
    between, node = middle
    holding = stage.holding(node, between.url, stage.content())
    stage.time += 60  # so that a clock behind by 20 s is not behind the start of the node
    holding = replace(holding, node=stage.client(between.url, node.key.address, behind=20))
    put_file(stage, holding, 2, "another file")
    remove(holding, "another file")
    stage.time += 2
    put_file(stage, holding, 2, "another file")
    assert agree(node, holding), "it was signed again, by the clock of the node"


@pytest.mark.slow
def test_a_refusal_in_the_name_of_the_node_loses_no_block(
    stage: Stage, middle: tuple[ManInTheMiddle, Turncoat]
) -> None:
    """Before: a repair whose last step was refused by anybody recorded its blocks as lost."""
    between, node = middle
    holding = stage.holding(node, between.url, stage.content())
    replica_node, replica_url = stage.node()
    copy = stage.holding(replica_node, replica_url, stage.content())
    damage_tag(node, holding)
    refusal = Reply(409, json.dumps({"error": {"code": "conflict", "message": "no"}}).encode())
    between.tactic = lambda r: refusal if replaces(r) else between.forward(r)
    replica, others = (Replica(one, one.file("file")) for one in (holding, copy))
    spot = Spot(
        (replica.file.file_id.hex(), 1), 0, Spans(((7, 8),)), handled=8, untagged=Spans(((7, 8),))
    )
    with pytest.raises(NodeRefusedError):
        repair_tags(spot, replica, ReplicaSources([others], {}))
    between.tactic = None
    assert repair_tags(spot, replica, ReplicaSources([others], {})).lost == Spans()
    assert stage.audit(holding, BLOCKS).outcome is Outcome.PASSED
