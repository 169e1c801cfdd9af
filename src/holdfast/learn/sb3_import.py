"""A DQN that Stable-Baselines3 saved, as a checkpoint of ours.

Only its tensors are read, and its settings as JSON: nothing in the file is unpickled.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

import holdfast
from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.arrays import Float32Array, FloatArray, IntArray
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import Scenario
from holdfast.policy import checkpoint
from holdfast.policy.checkpoint import Manifest
from holdfast.policy.learned import Inputs, Learned, Memory
from holdfast.policy.network import Architecture, Parameters
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import main_figures, measure

METHOD = "sb3-dqn"
EPISODES, SEED = 2000, 1_000_003  # of the report in the manifest, as for what we train
MAX_BYTES = 16 << 20
_NETWORK, _TARGET = "q_net.q_net.", "q_net_target."


def import_sb3(model: Path, out: Path, scenario: Scenario) -> Manifest:
    """Write the checkpoint of a saved DQN with an MlpPolicy of ReLU layers; return its manifest.

    The envelope and the report come from episodes in the scenario, for which it was trained.
    """
    if (out / checkpoint.MANIFEST).exists():
        raise InputError(f"{out} holds a checkpoint already: choose another folder")
    settings, tensors, digest = _read(model)
    _check_settings(model, settings)
    parameters = _parameters(model, tensors)
    count = len(parameters) // 2 - 1
    features = tuple(len(parameters[f"features.{index}.bias"]) for index in range(count))
    architecture = Architecture(inputs=len(OBSERVATION), features=features)
    watched = _Watched(Learned(architecture, parameters))
    tally = evaluate(watched, scenario, episodes=EPISODES, seed=SEED)
    manifest = Manifest(
        method=METHOD,
        scenario=scenario,
        architecture=architecture,
        inputs=Inputs(),
        rho=None,
        multiplier=None,
        seed=int(settings.get("seed") or 0),
        training={"units": int(settings.get("num_timesteps") or 0), "sha256": digest},
        envelope={
            name: (float(low), float(high))
            for name, low, high in zip(OBSERVATION, watched.low, watched.high, strict=True)
        },
        evaluation={"episodes": EPISODES, "seed": SEED, **main_figures(measure(tally))},
        code_version=holdfast.__version__,
    )
    checkpoint.save(out, manifest, parameters)
    return manifest


class _Watched:
    """A policy that remembers which signals it met."""

    privileged: ClassVar[Literal[False]] = False

    def __init__(self, policy: Learned) -> None:
        self._policy = policy
        self.low = np.ones(len(OBSERVATION), np.float32)
        self.high = np.zeros(len(OBSERVATION), np.float32)

    def initial_state(self, batch: int) -> Memory:
        return self._policy.initial_state(batch)

    def act(self, state: Memory, observations: FloatArray) -> tuple[IntArray, Memory]:
        np.minimum(self.low, observations.min(axis=0), out=self.low, casting="same_kind")
        np.maximum(self.high, observations.max(axis=0), out=self.high, casting="same_kind")
        return self._policy.act(state, observations)


def _read(model: Path) -> tuple[dict[str, Any], Mapping[str, Any], str]:
    """Return the settings, the tensors by name, and the hash of the file."""
    if find_spec("torch") is None:
        raise InputError("this needs torch: install it with pip install 'holdfast[crosscheck]'")
    import torch  # noqa: PLC0415 - an optional extra

    try:
        content = model.read_bytes()
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            settings, weights = (_entry(archive, name) for name in ("data", "policy.pth"))
        parsed = json.loads(settings)
        tensors = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"{model} can't be read: {error.strerror or error}") from error
    except Exception as error:
        raise InputError(
            f"{model} is not a model that Stable-Baselines3 saved: {type(error).__name__}"
        ) from error
    if not isinstance(parsed, dict) or not isinstance(tensors, Mapping):
        raise InputError(f"{model} is not a model that Stable-Baselines3 saved")
    return parsed, tensors, hashlib.sha256(content).hexdigest()


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > MAX_BYTES:
        raise ValueError("too large")
    return archive.read(name)


def _check_settings(model: Path, settings: Mapping[str, Any]) -> None:
    """Refuse a network whose weights fit ours but whose function does not."""
    options = settings.get("policy_kwargs")
    chosen = options if isinstance(options, dict) else {}
    activation = str(chosen.get("activation_fn", "ReLU"))
    if not activation.removesuffix("'>").endswith("ReLU"):
        raise InputError(f"{model} has another activation than ReLU: {activation}")
    for name in ("features_extractor_class", "features_extractor_kwargs"):
        if chosen.get(name):
            raise InputError(f"{model} has a features extractor of its own: it can't be imported")


def _parameters(model: Path, tensors: Mapping[str, Any]) -> Parameters:
    """Return the network's weights by our names: (in, out), where PyTorch has (out, in)."""
    foreign = [name for name in tensors if not name.startswith((_NETWORK, _TARGET))]
    layers = sorted(
        {int(name.removeprefix(_NETWORK).split(".")[0]) for name in tensors if _is_layer(name)}
    )
    if foreign or not layers or layers != list(range(0, 2 * len(layers), 2)):
        raise InputError(f"{model} is no DQN with an MlpPolicy: its network is of another kind")
    parameters: dict[str, Float32Array] = {}
    for number, layer in enumerate(layers):
        name = "action" if layer == layers[-1] else f"features.{number}"
        weight, bias = (
            np.asarray(tensors[f"{_NETWORK}{layer}.{part}"], np.float32)
            for part in ("weight", "bias")
        )
        parameters[f"{name}.weight"], parameters[f"{name}.bias"] = weight.T, bias
    first = "features.0.weight" if len(layers) > 1 else "action.weight"
    sizes = parameters[first].shape[0], len(parameters["action.bias"])
    if sizes != (len(OBSERVATION), GRID.size):
        raise InputError(
            f"{model} was made for another environment: it has {sizes[0]} inputs and {sizes[1]}"
            f" actions, not {len(OBSERVATION)} and {GRID.size}"
        )
    return parameters


def _is_layer(name: str) -> bool:
    parts = name.removeprefix(_NETWORK).split(".")
    return name.startswith(_NETWORK) and len(parts) == 2 and parts[0].isdecimal()
