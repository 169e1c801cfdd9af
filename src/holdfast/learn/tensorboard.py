"""What tensorboardX has to write the files that TensorBoard reads.

It imports PyTorch where that is installed, which takes a second and which nothing here uses: so it
is imported as if PyTorch were not there.
"""

import sys
from typing import Any

_modules: dict[str, Any] = sys.modules
_hidden = "torch" not in _modules
if _hidden:
    _modules["torch"] = None
try:
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary
    from tensorboardX.summary import hparams
finally:
    if _hidden:
        del _modules["torch"]

__all__ = ["Event", "EventsWriter", "Summary", "hparams"]
