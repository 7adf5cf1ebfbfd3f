"""Small tasks, registered with gymnasium: `dicore_contrib_envs.tasks:BitFlip-v0`."""

from __future__ import annotations

import gymnasium

_CLASSES = {
    "BitFlip-v0": "bit_flip:BitFlip",
    "Chain-v0": "chain:Chain",
    "MiniBreakout-v0": "mini_breakout:MiniBreakout",
    "Moving-v0": "moving:Moving",
    "Nim-v0": "nim:Nim",
    "TMaze-v0": "t_maze:TMaze",
    "TwoStep-v0": "two_step:TwoStep",
}

for _id, _target in _CLASSES.items():
    gymnasium.register(_id, f"{__name__}.{_target}", disable_env_checker=True)
