"""Columns from the environment to the loss: Batch, EnvBatch, Timestep."""

from dicore.data.batch import Batch, EnvBatch, Timestep, TimestepBatch
from dicore.data.tree import tree_len, tree_map, tree_paths, tree_row, tree_stack
from dicore.values import Columns, Info, Row, State, StateDict, Tree

__all__ = [
    "Batch", "Columns", "EnvBatch", "Info", "Row", "State", "StateDict", "Timestep",
    "TimestepBatch", "Tree", "tree_len", "tree_map", "tree_paths", "tree_row", "tree_stack",
]  # fmt: skip
