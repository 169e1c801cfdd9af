"""Proves, again and again and at the lowest cost, that remote data is still intact.

The names in `__all__` are the public API. Each is imported when it is first used, so that
`import holdfast` takes milliseconds. Everything else may change from version to version.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import errors, pdp
    from holdfast.api.client import Client
    from holdfast.api.evidence import verify_evidence
    from holdfast.api.home import open_home
    from holdfast.api.simulation import evaluate, policy, scenario, train

__version__ = "0.1.0"

__all__ = [
    "Client",
    "__version__",
    "errors",
    "evaluate",
    "open_home",
    "pdp",
    "policy",
    "scenario",
    "train",
    "verify_evidence",
]

_MODULES = {
    "Client": "client",
    "evaluate": "simulation",
    "open_home": "home",
    "scenario": "simulation",
    "train": "simulation",
    "verify_evidence": "evidence",
}


class _Holdfast(ModuleType):
    """A module that imports its names late.

    Importing the package `holdfast.policy` does not hide the function of that name, so modules of
    the package are imported by `from holdfast.policy.… import …` alone.
    """

    @property
    def policy(self) -> Any:
        return import_module("holdfast.api.simulation").policy

    @policy.setter
    def policy(self, _package: ModuleType) -> None:
        """Ignore the package."""

    def __getattr__(self, name: str) -> Any:
        if name in {"errors", "pdp"}:
            return import_module(f"holdfast.{name}")
        if name in _MODULES:
            return getattr(import_module(f"holdfast.api.{_MODULES[name]}"), name)
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted(__all__)


sys.modules[__name__].__class__ = _Holdfast
if "gymnasium" in sys.modules:
    import_module("holdfast.sim")  # it registers `holdfast/Audit-v0`
