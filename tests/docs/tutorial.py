"""`python -m tests.docs.tutorial`: the tutorial's blocks as one program, with its figures."""

from pathlib import Path

from tests.docs.blocks import blocks_of

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"


def program() -> str:
    return "\n".join(block.text for block in blocks_of(TUTORIAL) if block.language == "python")


if __name__ == "__main__":
    exec(compile(program(), str(TUTORIAL), "exec"), {"__name__": "tutorial"})  # noqa: S102
