"""Trainings in many folders as one table: a row per method, ceiling, scenario and settings."""

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import InputError, NotFoundError
from holdfast.model.estimate import finite
from holdfast.paper.summary import Summary, summarise
from holdfast.policy import checkpoint
from holdfast.policy.checkpoint import Manifest

RUN = "run.json"
MEASURES = {"gas": math.inf, "latency": math.inf, "miss_rate": 1.0}  # and the most each can be


@dataclass(frozen=True)
class Group:
    """Trainings that differ in nothing but the seed, and what they achieved."""

    method: str
    scenario: str
    rho: float | None
    units: int
    settings: str  # the start of the hash of settings and scenario: equal ones are comparable
    seeds: tuple[int, ...]
    refused: int  # seeds whose policy keeps no ceilings, and so has no figures
    measures: dict[str, Summary]


@dataclass(frozen=True)
class Aggregate:
    groups: tuple[Group, ...]
    unfinished: tuple[Path, ...]


@dataclass(frozen=True)
class _Trained:
    folder: Path
    manifest: Manifest

    @property
    def settings(self) -> str:
        manifest = self.manifest
        content = [manifest.training.get("settings"), manifest.scenario.__dict__]
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def key(self) -> tuple[Any, ...]:
        manifest = self.manifest
        units = manifest.training.get("units", 0)
        rho = -1.0 if manifest.rho is None else manifest.rho
        return manifest.method, manifest.scenario.name, rho, units, self.settings


def aggregate(folders: Sequence[Path]) -> Aggregate:
    """Return the finished trainings below these folders, summarised over their seeds."""
    trained: dict[tuple[Any, ...], dict[int, _Trained]] = {}
    unfinished = []
    for folder in _run_folders(folders):
        if not (folder / checkpoint.MANIFEST).exists():
            unfinished.append(folder)
            continue
        run = _Trained(folder, checkpoint.load(folder).manifest)
        by_seed = trained.setdefault(run.key, {})
        twin = by_seed.setdefault(run.manifest.seed, run)
        if twin.manifest.sha256 != run.manifest.sha256:
            raise InputError(
                f"{twin.folder} and {run.folder} hold the same training with other weights: they"
                " were made by other versions or processors, so aggregate them separately"
            )
    if not trained:
        raise NotFoundError(f"there is no finished training in {', '.join(map(str, folders))}")
    groups = tuple(_group(list(by_seed.values())) for _, by_seed in sorted(trained.items()))
    return Aggregate(groups, tuple(unfinished))


def _run_folders(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield every folder of a training once."""
    seen = set()
    for folder in folders:
        if not folder.is_dir():
            raise NotFoundError(f"{folder} is not a folder")
        files = [path for name in (checkpoint.MANIFEST, RUN) for path in folder.rglob(name)]
        for found in sorted({path.parent for path in files}):
            if found.resolve() not in seen:
                seen.add(found.resolve())
                yield found


def _group(runs: list[_Trained]) -> Group:
    runs.sort(key=lambda run: run.manifest.seed)
    first = runs[0].manifest
    reports = [run.manifest.evaluation for run in runs]
    return Group(
        method=first.method,
        scenario=first.scenario.name,
        rho=first.rho,
        units=first.training.get("units", 0),
        settings=runs[0].settings,
        seeds=tuple(run.manifest.seed for run in runs),
        refused=sum("refused" in report for report in reports),
        measures={
            name: summarise([report.get(name, {}).get("value") for report in reports], 0.0, most)
            for name, most in MEASURES.items()
        },
    )


def as_rows(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Return a flat row per group; all rows have the same columns."""
    rows = []
    for group in groups:
        row: dict[str, Any] = {
            "method": group.method,
            "scenario": group.scenario,
            "rho": group.rho,
            "units": group.units,
            "settings": group.settings,
            "seeds": len(group.seeds),
            "refused": group.refused,
        }
        for name, summary in group.measures.items():
            row |= {
                f"{name}_mean": summary.mean,
                f"{name}_iqm": summary.iqm,
                f"{name}_low": summary.low,
                f"{name}_high": summary.high,
                f"{name}_min": summary.min,
                f"{name}_max": summary.max,
            }
        rows.append(row)
    return rows


def as_csv(groups: Sequence[Group]) -> str:
    rows = as_rows(groups)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_json(result: Aggregate) -> dict[str, Any]:
    return {
        "groups": [
            row
            | {
                "seed_numbers": list(group.seeds),
                "by_seed": {
                    name: [None if value is None else finite(value) for value in summary.by_seed]
                    for name, summary in group.measures.items()
                },
            }
            for row, group in zip(as_rows(result.groups), result.groups, strict=True)
        ],
        "unfinished": [str(folder) for folder in result.unfinished],
    }
