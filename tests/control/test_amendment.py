"""The policy is set in a file that its owner wrote, and nothing else in it changes."""

from pathlib import Path

import pytest

from holdfast.control.amendment import set_policy
from holdfast.control.settings import read_control
from holdfast.errors import InputError

OURS = "drqn-cmdp-plus@field:dial=7"


def amended(folder: Path, text: str, policy: str = OURS) -> str:
    path = folder / "holdfast.toml"
    path.write_bytes(text.encode())
    set_policy(folder, policy)
    assert read_control(folder).policy == policy
    return path.read_bytes().decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f'[control]\npolicy = "{OURS}"\n'),
        (
            '# mine\n[control]\npolicy="belief"   # for now\nscenario = "field"\n',
            f'# mine\n[control]\npolicy="{OURS}"   # for now\nscenario = "field"\n',
        ),
        (
            "[ control ] # here\r\nscenario = 'field'\r\n",
            f"[ control ] # here\r\npolicy = \"{OURS}\"\nscenario = 'field'\r\n",
        ),
        (
            '[ledger]\nkind = "local"\n[control]\n[control.rails]\nlongest = 7',
            f'[ledger]\nkind = "local"\n[control]\npolicy = "{OURS}"\n[control.rails]\nlongest = 7',
        ),
        (
            "[control.rails]\nlongest = 7\n",
            f'[control.rails]\nlongest = 7\n\n[control]\npolicy = "{OURS}"\n',
        ),
    ],
)
def test_the_policy_changes_and_every_other_line_stays(
    tmp_path: Path, before: str, after: str
) -> None:
    assert amended(tmp_path, before) == after


def test_a_home_without_settings_gets_some(tmp_path: Path) -> None:
    set_policy(tmp_path, OURS)
    assert read_control(tmp_path).policy == OURS


def test_a_name_is_written_so_that_it_is_read_back(tmp_path: Path) -> None:
    amended(tmp_path, '[control]\npolicy = "a \\"b\\" # c"\n', policy='/runs/"ä" \\ 1:dial=2')


@pytest.mark.parametrize(
    "text",
    [
        'control = { policy = "belief" }\n',
        'control.policy = "belief"\n',
        '[control]\n"policy" = "belief"\n',
        '[control]\npolicy = """\nbelief"""\n',
    ],
)
def test_a_file_in_another_form_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="set it there by hand"):
        set_policy(tmp_path, OURS)
    assert path.read_text() == text
