"""A DQN of Stable-Baselines3 becomes a checkpoint that decides the same."""

import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from tests.support import parts

from holdfast.cli.app import run
from holdfast.policy import checkpoint
from holdfast.policy.serving import serve_checkpoint
from holdfast.sim.environment import AuditEnv


def saved(path: Path, env: Any = None, **policy: Any) -> Any:
    sb3 = parts.package("stable_baselines3")
    model = sb3.DQN("MlpPolicy", env or AuditEnv(), policy_kwargs=policy, seed=1, buffer_size=10)
    model.save(path)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("layers", [[16, 16], [8], []])
def test_the_checkpoint_decides_as_the_model_does(tmp_path: Path, layers: list[int]) -> None:
    model = saved(tmp_path / "dqn.zip", net_arch=layers)
    out = tmp_path / "run"
    words = ["policy", "import-sb3", str(tmp_path / "dqn.zip"), "--out", str(out), "--json"]
    assert run(words) == 0
    loaded = checkpoint.load(out)
    policy = loaded.policy()
    observations: Any = np.random.default_rng(0).random((200, 5)).astype(np.float32)
    expected, _ = model.predict(observations, deterministic=True)
    actions, _ = policy.act(policy.initial_state(200), observations)
    assert actions.tolist() == expected.tolist()
    assert loaded.manifest.method == "sb3-dqn"
    assert loaded.manifest.evaluation["episodes"] == 2000
    assert serve_checkpoint("it", "", loaded).in_envelope(observations).sum() < 200
    assert run(["policy", "import-sb3", str(tmp_path / "dqn.zip"), "--out", str(out)]) == 2


@pytest.mark.slow
def test_another_network_or_environment_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = parts.package("torch")
    file, out = tmp_path / "dqn.zip", tmp_path / "run"
    words = ["policy", "import-sb3", str(file), "--out", str(out)]
    cases: list[tuple[Any, str]] = [
        (lambda: saved(file, net_arch=[4], activation_fn=torch.nn.Tanh), "than ReLU"),
        (lambda: saved(file, gymnasium.make("CartPole-v1")), "it has 4 inputs and 2 actions"),
        (lambda: file.write_bytes(b"PK no zip"), "is not a model that Stable-Baselines3 saved"),
        (file.unlink, "can't be read"),
    ]
    for make, sentence in cases:
        make()
        assert run(words) == 2
        assert sentence in " ".join(capsys.readouterr().err.split())
        assert not out.exists()


@pytest.mark.slow
def test_nothing_in_the_file_is_unpickled(tmp_path: Path) -> None:
    torch = parts.package("torch")
    file, mark = tmp_path / "evil.zip", tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> Any:
            return open, (str(mark), "w")

    torch.save({"q_net.q_net.0.weight": Evil()}, tmp_path / "policy.pth")
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(tmp_path / "policy.pth", "policy.pth")
        archive.writestr("data", "{}")
    assert run(["policy", "import-sb3", str(file), "--out", str(tmp_path / "run")]) == 2
    assert not mark.exists()
