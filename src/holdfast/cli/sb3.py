"""`holdfast policy import-sb3`: a policy of Stable-Baselines3 as a checkpoint."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.completion import complete_scenario
from holdfast.cli.terminal import Json, report
from holdfast.learn.sb3_import import import_sb3 as convert
from holdfast.sim.scenario_file import load_scenario


def import_sb3(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL.zip", help="What DQN.save of Stable-Baselines3 wrote.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of the checkpoint to write.")
    ],
    scenario: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE.toml",
            autocompletion=complete_scenario,
            help="The world that it was trained in.",
        ),
    ] = "paper",
    as_json: Json = False,
) -> None:
    """Make a checkpoint from a DQN of Stable-Baselines3.

    Its policy must be an MlpPolicy with ReLU layers, trained on holdfast/Audit-v0. Nothing in the
    file is unpickled. It needs the extra crosscheck.

    Example: holdfast policy import-sb3 dqn.zip --out runs/dqn
    """
    manifest = convert(model, out, load_scenario(scenario))
    data = {"checkpoint": str(out), "evaluation": manifest.evaluation}
    sentence = f"{model} is the checkpoint {out}: try holdfast evaluate --policy {out}"
    report(data, sentence, as_json=as_json)
