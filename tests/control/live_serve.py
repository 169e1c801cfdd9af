"""The command serve as a process, and what it has recorded."""

import sqlite3
import time
from pathlib import Path

SETTINGS = """
[control]
policy = "drqn-cmdp-plus"
scenario = "paper"
[control.rails]
unit = "1 second"
longest = 3
[control.patience]
deadline = "2 seconds"
first_pause = "1 second"
[control.pace]
lease = "5 seconds"
[control.upkeep]
enrol = "1 second"
anchor = "2 seconds"
[control.web]
listen = "off"
"""


def count(home: Path, query: str = "SELECT count(*) FROM audits") -> int:
    path = home / "holdfast.db"
    if not path.exists():
        return 0
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return int(database.execute(query).fetchone()[0])
    except sqlite3.OperationalError:  # before its first migration
        return 0
    finally:
        database.close()


def wait_for(condition: str, home: Path, query: str, least: int) -> None:
    for _ in range(600):
        if count(home, query) >= least:
            return
        time.sleep(0.1)
    raise AssertionError(f"{condition} did not happen: {count(home, query)} of {least}")


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(each) for each in listed]
