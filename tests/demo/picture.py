"""Draws docs/demo.svg: the demo's live view as it is when the first node is quarantined."""

import io
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from holdfast import atomic
from holdfast.demo.environment import open_environment
from holdfast.demo.faults import SPAN, plan_faults
from holdfast.demo.story import Story
from holdfast.demo.view import Caption

if TYPE_CHECKING:
    from holdfast.demo.frame import Frame

PICTURE = Path(__file__).parents[2] / "docs" / "demo.svg"
WIDTH = 116
# Fonts that another host would be asked for, and who made the picture.
FOREIGN = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", re.DOTALL)


def draw(path: Path) -> None:
    frames: list[Frame] = []
    with tempfile.TemporaryDirectory() as folder, open_environment(Path(folder), 0) as environment:
        Story(environment, plan_faults(environment.blocks, 0), SPAN, 5, frames.append).run()
        caption = Caption.of(environment)
    shown = next((f for f in frames if any(row.quarantined for row in f.rows)), frames[-1])
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(caption.render(shown))
    picture = console.export_svg(title="holdfast demo")
    atomic.write(path, FOREIGN.sub("", picture).encode())


if __name__ == "__main__":
    draw(PICTURE)
