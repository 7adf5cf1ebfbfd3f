"""Columns of blocks [T, N, ...] and of batches [B, ...]: one table, and how others are declared.

A component may write columns with names of its own; one in the table has its dtype and shape. It is
imported by the conformance suites, the documentation and components that declare columns.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COLUMNS", "Column"]


@dataclass(frozen=True)
class Column:
    """A column.

    Args:
        name: Its key.
        shape: Shape of an item, after the leading axes: "" is one number, "..." any shape or tree,
            "?" one number or a vector.
        dtype: `float`, `int`, `bool`, `flag` (bool, or float 0 and 1), `number`, or `any`.
        meaning: What it holds.
        written: Who writes it.
        read: Who reads it.
    """

    name: str
    shape: str
    dtype: str
    meaning: str
    written: str
    read: str


_POLICY, _COLLECTOR, _BUFFER, _LEARNER = "policy", "collector", "buffer", "learn mode"

COLUMNS = (
    Column("obs", "...", "any", "observation before the step", _POLICY, _LEARNER),
    Column("next_obs", "...", "any", "observation after the step", _POLICY, _LEARNER),
    Column("action", "...", "any", "action sent to the environment", _POLICY, _LEARNER),
    Column("raw_action", "...", "any", "action before it was clipped", _POLICY, _LEARNER),
    Column("reward", "...", "number", "reward of the step, or of n steps", _POLICY, _LEARNER),
    Column("alive", "...", "flag", "the agents that act, a leaf of obs", "environment", _LEARNER),
    Column("action_mask", "...", "flag", "actions allowed, a leaf of obs", "environment", _LEARNER),
    Column("state", "...", "number", "state of all agents, a leaf of obs", "environment", _LEARNER),
    Column("done", "", "flag", "the step ended in a terminal state", _POLICY, _LEARNER),
    Column("demo", "", "flag", "the step was shown by an expert", _POLICY, _LEARNER),
    Column("logit", "...", "any", "unnormalised log-probabilities", _POLICY, _LEARNER),
    Column("mean", "...", "float", "mean of a continuous action", _POLICY, _LEARNER),
    Column("log_std", "...", "float", "log of its standard deviation", _POLICY, _LEARNER),
    Column("log_prob", "?", "float", "log-probability of the action", _POLICY, _LEARNER),
    Column("value", "?", "float", "V(s) when the action was chosen", _POLICY, _LEARNER),
    Column("advantage", "?", "float", "advantage of the action", _POLICY, _LEARNER),
    Column("target", "?", "float", "what the value is to become", _POLICY, _LEARNER),
    Column("value_gamma", "", "float", "discount of the bootstrap value", _POLICY, _LEARNER),
    Column("prev_state", "...", "any", "recurrent state before the step", _POLICY, _LEARNER),
    Column("end", "", "bool", "last row of an episode", _COLLECTOR, "policy, buffer"),
    Column("valid", "", "bool", "the row may be in a sample", _COLLECTOR, "policy, buffer"),
    Column("env_id", "", "int", "number of the environment", _COLLECTOR, "policy, buffer"),
    Column("collect_iter", "", "int", "gradient updates before it", _COLLECTOR, "buffer"),
    Column("replay_unique_id", "", "int", "id of the sample", _BUFFER, "buffer, by `update`"),
    Column("replay_buffer_idx", "", "int", "slot of the sample", _BUFFER, "buffer, by `update`"),
    Column("use", "", "int", "draws of the sample so far", _BUFFER, "logs"),
    Column("staleness", "", "int", "gradient updates since it was collected", _BUFFER, "logs"),
    Column("priority", "", "float", "priority of the sample", _BUFFER, "logs"),
    Column("IS", "", "float", "importance-sampling weight of the draw", _BUFFER, _LEARNER),
    Column("weight", "", "float", "factor of the loss, in place of IS", "data set", _LEARNER),
)
