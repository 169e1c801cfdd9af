"""What computed a training: the code, the versions and the processor that its weights depend on."""

import json
import platform
import subprocess
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, version
from pathlib import Path

import numpy as np

import holdfast

Provenance = dict[str, str | None]

PACKAGE = Path(holdfast.__file__).parent
_CPUINFO = Path("/proc/cpuinfo")
_GIT_TIMEOUT_SECONDS = 10.0


@cache
def provenance() -> Provenance:
    """Return commit, versions and processor; None for what can't be known."""
    return {
        "holdfast": holdfast.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "jax": _version("jax"),
        "jaxlib": _version("jaxlib"),
        "processor": _processor(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Return the commit of the source, or that the installed package was made from.

    `+changes` follows if files of the package differ from the commit.
    """
    if _git("ls-files", "--error-unmatch", "__init__.py") is None:
        return _installed_commit()
    commit = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", ".")
    return f"{commit}+changes" if commit and changes else commit


def _git(*words: str) -> str | None:
    """Return what git says in the folder of the package, or None if it fails or is missing."""
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            ["git", *words],  # noqa: S607 - wherever git is
            cwd=PACKAGE,
            capture_output=True,
            text=True,
            check=True,
            timeout=_GIT_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _installed_commit() -> str | None:
    """Return the commit that pip recorded if it installed the package from a repository."""
    try:
        recorded = Distribution.from_name("holdfast").read_text("direct_url.json")
        return str(json.loads(recorded)["vcs_info"]["commit_id"]) if recorded else None
    except (PackageNotFoundError, ValueError, KeyError, TypeError):
        return None


def _processor() -> str | None:
    if _CPUINFO.exists():
        for line in _CPUINFO.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine() or None
