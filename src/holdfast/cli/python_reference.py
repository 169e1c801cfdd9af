"""The reference page of the Python API, made from signatures and docstrings."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import holdfast

HEAD = """# Python

Made from the code by `make reference`. The names of `holdfast` itself are the public API, and keep
their meaning from version to version. The others are what you meet when you extend Holdfast
([extending.md](../extending.md)): they may change, and the changelog says so.

Examples (`>>>`) are run by the tests.
"""
# What the public names return, and what people who extend Holdfast use.
OTHERS = {
    "Simulation": (
        "holdfast.model.scenario:Scenario",
        "holdfast.sim.measures:Measures",
        "holdfast.model.estimate:Estimate",
        "holdfast.sim.environment:AuditEnv",
        "holdfast.sim.vector:AuditVectorEnv",
    ),
    "Policies": (
        "holdfast.policy.interface:Policy",
        "holdfast.policy.interface:PrivilegedPolicy",
        "holdfast.model.truth:Truth",
        "holdfast.model.action:ActionGrid",
        "holdfast.policy.network:Architecture",
        "holdfast.policy.learned:Inputs",
        "holdfast.policy.checkpoint:Manifest",
        "holdfast.policy.checkpoint:load",
        "holdfast.policy.checkpoint:save",
    ),
    "Learners": ("holdfast.learn.learner:Learner", "holdfast.learn.learner:TrainerState"),
    "A home": ("holdfast.api.home:Home",),
}


def python_page() -> str:
    """Return the page: the public API, then the rest by subject."""
    return "\n".join([HEAD, *_public(), *_others()])


def _public() -> Iterator[str]:
    yield "## holdfast\n"
    for name in sorted(holdfast.__all__):
        member = getattr(holdfast, name)
        if inspect.ismodule(member):
            yield f"### holdfast.{name}\n\n{_fenced(inspect.getdoc(member) or '')}"
        elif name != "__version__":
            yield from _entry(f"holdfast.{name}", member)


def _others() -> Iterator[str]:
    for subject, names in OTHERS.items():
        yield f"## {subject}\n"
        for name in names:
            module, _, member = name.partition(":")
            yield from _entry(f"{module}.{member}", getattr(import_module(module), member))


def _entry(name: str, member: Any) -> Iterator[str]:
    """Yield the section of a function, or of a class with its methods."""
    yield f"### {name}\n"
    if inspect.isclass(member):
        yield from _class(member)
    else:
        yield f"```python\n{member.__name__}{_signature(member)}\n```\n"
        yield _text(member)


def _class(member: type) -> Iterator[str]:
    yield _text(member)
    if is_dataclass(member):
        rows = [f"| `{field.name}` | {_type(field.type)} |" for field in fields(member)]
        yield "\n".join(["| field | type |\n|---|---|", *rows, ""])
    for name, method in vars(member).items():
        if name.startswith("_") or not (inspect.isfunction(method) or isinstance(method, property)):
            continue
        if isinstance(method, property):
            yield f"`{name}`\n"
        else:
            yield f"```python\n{name}{_signature(method)}\n```\n"
        if text := _text(method):
            yield text


def _signature(function: Any) -> str:
    signature = str(inspect.signature(function))
    # Defaults that are functions print their address.
    signature = re.sub(r"<function [^>]*<lambda> at 0x[0-9a-f]+>", "...", signature)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", signature)


def _type(kind: Any) -> str:
    text = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    return f"`{text}`".replace("|", "\\|")


def _text(member: Any) -> str:
    """Return a docstring with its examples as a block."""
    text, arrow, example = (inspect.getdoc(member) or "").partition(">>> ")
    block = f"\n```python\n{arrow}{example}\n```\n" if arrow else ""
    return f"{text.strip()}\n{block}" if text else ""


def _fenced(text: str) -> str:
    return f"```\n{text.strip()}\n```\n"
