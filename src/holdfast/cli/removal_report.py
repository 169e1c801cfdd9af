"""What `holdfast holding rm` says: what becomes of the files first, and what it did at its end."""

from collections.abc import Iterator
from typing import Any

from holdfast.owner import RemovalPlan
from holdfast.owner.direct.address import is_direct

MAX_NAMES_SHOWN = 20


def describe_plan(plan: RemovalPlan) -> Iterator[str]:
    name, url = plan.holding.name, plan.holding.url
    files = f"{len(plan.files)} file{'' if len(plan.files) == 1 else 's'} of {plan.bytes:,} bytes"
    if not plan.files:
        yield f"holding {name} has no files"
    elif is_direct(url):
        yield f"holding {name} has {files}: they stay where they are, and only their tags go"
    elif plan.unknown:
        yield (
            f"holding {name} has {files}: the node at {url} no longer knows it, so there is "
            "nothing to delete"
        )
    elif plan.delete_files:
        yield f"holding {name} has {files}: they are deleted on the node at {url}"
    else:
        why = f", because it can't be asked to delete them ({plan.unreachable})"
        yield (
            f"holding {name} has {files}: they stay on the node at {url}"
            f"{why if plan.unreachable else ''}, and Holdfast can't get them back from there"
        )
    if plan.unfinished:
        yield f"unfinished uploads are given up: {_names(plan.unfinished)}"
    if plan.last_replicas:
        yield f"no other holding has: {_names(plan.last_replicas)}"


def _names(names: tuple[str, ...]) -> str:
    more = len(names) - MAX_NAMES_SHOWN
    return ", ".join(names[:MAX_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def removal_facts(name: str, plan: RemovalPlan | None, failure: str | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"holding": name, "removed": True, "still_to_delete": failure}
    if plan is not None:
        url = plan.holding.url
        facts |= {
            "url": url,
            "files": list(plan.files),
            "files_deleted": (
                plan.delete_files and failure is None and not (plan.unknown or is_direct(url))
            ),
            "unreachable": plan.unreachable or None,
            "unfinished": list(plan.unfinished),
            "last_replicas": list(plan.last_replicas),
        }
    return facts


def describe_removal(facts: dict[str, Any]) -> Iterator[str]:
    yield f"holding {facts['holding']} is removed"
    if facts["still_to_delete"] is not None:
        yield (
            f"its files are still to be deleted on the node: {facts['still_to_delete']}; give the "
            "command again, or let `holdfast serve` do it"
        )
