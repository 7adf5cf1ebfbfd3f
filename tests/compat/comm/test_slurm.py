"""What the variables of Slurm say to `ditask`."""

from __future__ import annotations

import pytest

from dicore.errors import UsageError
from dicore_compat.comm.slurm import ditask_options


def test_tasks_of_a_job_step_find_each_other() -> None:
    job = {"SLURM_STEP_NODELIST": "n[1-2]", "SLURM_NODEID": "0", "SLURM_PROCID": "0"}
    first = ditask_options(job)
    job |= {"SLURM_NODEID": "1", "SLURM_PROCID": "2", "SLURM_TASKS_PER_NODE": "2(x2)"}
    third = ditask_options(job, [4000])
    assert (first["address"], first["ports"], first["attach_to"]) == ("n1", [50515], None)
    assert (third["address"], third["ports"], third["node_ids"]) == ("n2", [4002], [2])
    assert third["attach_to"] == ["tcp://n1:4000", "tcp://n1:4001"]
    assert ditask_options(job, [4000], "star")["attach_to"] == ["tcp://n1:4000"]
    assert ditask_options(job, [4000], "alone")["attach_to"] is None


@pytest.mark.parametrize(
    ("per_node", "distribution", "nodes"),
    [
        ("2(x2),1", "block", [0, 0, 1, 1, 2]),
        ("2(x2),1", "cyclic", [0, 1, 2, 0, 1]),
        ("1(x3)", "", [0, 1, 2]),
        ("3,1,1", "block:cyclic", [0, 0, 0, 1, 2]),
    ],
)
def test_tasks_of_a_mesh_attach_to_all_before_them(
    per_node: str, distribution: str, nodes: list[int]
) -> None:
    job = {"SLURM_JOB_NODELIST": "n[0-2]", "SLURM_STEP_TASKS_PER_NODE": per_node}
    job |= {"SLURM_DISTRIBUTION": distribution} if distribution else {}
    for task, node in enumerate(nodes):
        mine = {**job, "SLURM_PROCID": str(task), "SLURM_NODEID": str(node)}
        found = ditask_options(mine, [4000])
        wanted = [f"tcp://n{nodes[each]}:{4000 + each}" for each in range(task)]
        assert (found["attach_to"] or []) == wanted
        assert found["address"] == f"n{node}"


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"SLURM_TASKS_PER_NODE": "9"},
        {"SLURM_TASKS_PER_NODE": "x,y"},
        {"SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_NODEID": "0"},
    ],
)
def test_a_mesh_of_tasks_on_unknown_nodes_is_refused(more: dict[str, str]) -> None:
    job = {"SLURM_STEP_NODELIST": "n[1-2]", "SLURM_NODEID": "1", "SLURM_PROCID": "2", **more}
    with pytest.raises(UsageError, match="on which nodes the tasks before 2 are") as caught:
        ditask_options(job)
    assert "--topology star" in caught.value.hint


def test_outside_of_a_job_is_an_error_with_the_remedy() -> None:
    with pytest.raises(UsageError, match="SLURM_PROCID") as caught:
        ditask_options({})
    assert "--platform local" in caught.value.hint


@pytest.mark.parametrize(
    ("more", "text"),
    [({"SLURM_NODEID": "2"}, "the job has 2 nodes"), ({"SLURM_PROCID": "9"}, "65536 > 65535")],
)
def test_variables_that_contradict_each_other_are_refused(more: dict[str, str], text: str) -> None:
    job = {"SLURM_STEP_NODELIST": "n[1-2]", "SLURM_NODEID": "0", "SLURM_PROCID": "0", **more}
    with pytest.raises(UsageError, match=text):
        ditask_options(job, [65527])
