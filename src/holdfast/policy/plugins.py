"""Code that is not ours, by name: a class in a Python file, in a module or behind an entry point.

`mine.py:Agent`, `package.module:Agent`, or a name in the entry point group `holdfast.policies`.
It runs with all rights of the process that loads it.
"""

import hashlib
import inspect
import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast import atomic
from holdfast.errors import InputError, StorageError
from holdfast.model.scenario import Scenario
from holdfast.policy.interface import AnyPolicy

GROUP = "holdfast.policies"
MAX_BYTES = 1 << 20
_IN_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")
_IN_MODULE = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")


def is_in_file(name: str) -> bool:
    """Return whether the name means a class in a Python file."""
    return _IN_FILE.fullmatch(name) is not None


def is_in_module(name: str) -> bool:
    """Return whether the name means a class in a module."""
    return not is_in_file(name) and _IN_MODULE.fullmatch(name) is not None


def is_policy_plugin(name: str) -> bool:
    """Return whether the name, which is none of ours, means a policy of somebody else."""
    return is_in_file(name) or bool(entry_points(group=GROUP, name=name))


def absolute_name(name: str) -> str:
    """Return the name with the whole path of its file, so that it means the same everywhere."""
    if (parts := _IN_FILE.fullmatch(name)) is None:
        return name
    return f"{Path(parts['file']).absolute()}:{parts['name']}"


def load_policy(name: str, scenario: Scenario) -> AnyPolicy:
    """Return a policy made for the scenario: the class is called with it if it has a parameter."""
    factory = load_object(name)
    if not callable(factory):
        raise InputError(f"{name} is no class and no function that returns a policy")
    try:
        policy: Any = factory(scenario) if _takes_argument(factory) else factory()
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{name} can't be made: {_describe(error)}") from error
    for method in ("initial_state", "act"):
        if not callable(getattr(policy, method, None)):
            raise InputError(f"{name} is no policy: it has no method {method}")
    made: AnyPolicy = policy
    return made


def load_object(name: str) -> Any:
    """Return the class or function with this name."""
    if parts := _IN_FILE.fullmatch(name):
        return _member(_run_file(Path(parts["file"])), parts["name"], parts["file"])
    if parts := _IN_MODULE.fullmatch(name):
        return _member(_import(parts["module"]), parts["name"], parts["module"])
    point = _entry_point(name)
    try:
        return point.load()
    except Exception as error:
        raise InputError(
            f"the policy {name!r} of {_package(point)} can't be loaded: {_describe(error)}"
        ) from error


def digest_of(name: str) -> str:
    """Return a SHA-256 of the file in which the class is defined."""
    if parts := _IN_FILE.fullmatch(name):
        return hashlib.sha256(_read(Path(parts["file"]))).hexdigest()
    member = load_object(name)
    file = inspect.getsourcefile(inspect.unwrap(member)) or ""
    return hashlib.sha256(_read(Path(file))).hexdigest()


def _run_file(path: Path) -> ModuleType:
    """Return the module that a file defines. Each load runs the file anew."""
    source = _read(path)
    module = ModuleType(f"holdfast_plugin_{hashlib.sha256(source).hexdigest()[:16]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 - what was asked for
    except Exception as error:
        del sys.modules[module.__name__]
        raise InputError(f"{path} can't be run: {_describe(error)}") from error
    return module


def _read(path: Path) -> bytes:
    try:
        return atomic.read(path, at_most=MAX_BYTES)
    except (InputError, StorageError) as error:
        raise InputError(f"{path} can't be read as a Python file: {error}") from error


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except Exception as error:
        raise InputError(
            f"the module {name} can't be imported: {_describe(error)}. Install it, or name its file"
        ) from error


def _member(module: ModuleType, name: str, where: str) -> Any:
    if not hasattr(module, name):
        own = [
            key
            for key, value in vars(module).items()
            if inspect.isclass(value) and value.__module__ == module.__name__
        ]
        known = f"its classes are {', '.join(own)}" if own else "it defines no class"
        raise InputError(f"{where} has no {name}: {known}")
    return getattr(module, name)


def _entry_point(name: str) -> EntryPoint:
    points = entry_points(group=GROUP, name=name)
    if not points:
        raise InputError(f"no installed package offers a policy {name!r}")
    if len({point.value for point in points}) > 1:
        offers = ", ".join(sorted(map(_package, points)))
        raise InputError(f"several packages offer a policy {name!r}: {offers}. Uninstall one")
    return next(iter(points))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value


def _takes_argument(factory: Callable[..., Any]) -> bool:
    try:
        return bool(inspect.signature(factory).parameters)
    except (TypeError, ValueError):
        return True


def _describe(error: Exception) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
