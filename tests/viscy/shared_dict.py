"""Runs VisCy's own script viscy/scripts/shared_dict.py as it is, with a ddpcache.SharedDict where it makes a dict.

Lightning starts this file again for the other ranks.
"""

import importlib.util
import os
from pathlib import Path

import torch.multiprocessing
from ddpcache import SharedDict


class SharedManager:
    def dict(self):
        return SharedDict(os.environ["DICT_NAME"], length=1000, capacity="8MiB")


torch.multiprocessing.Manager = SharedManager
script = Path(importlib.util.find_spec("viscy").origin).parent / "scripts" / "shared_dict.py"
exec(compile(script.read_text(), script, "exec"))
