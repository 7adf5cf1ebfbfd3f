"""A cluster of several nodes on this machine: a node that is lost costs what it was collecting."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dicore.config import bind, compile_config
from dicore.run.env_factory import spec_of
from dicore_dist import ParallelParts, RayRuntime
from tests.dist.test_parallel import SMALL, Run, collect


@pytest.mark.slow
def test_a_lost_node(tmp_path: Path) -> None:
    RayRuntime().close()  # sets the variables of Ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    node = cluster.add_node(num_cpus=2)
    options = [f"pipeline.system.address={cluster.address}", "pipeline.system.collector_num=3"]
    compiled = compile_config(SMALL, overrides=options)
    parts = ParallelParts(bind(compiled, spec_of(compiled.env, 0)).cfg, Run(tmp_path))
    parts._log = None
    try:
        group = parts.collector
        for _ in range(6):
            assert len(collect(group)) == 32
        cluster.remove_node(node)
        cluster.add_node(num_cpus=2)
        until = time.monotonic() + 90
        workers = group.crew.workers
        while not (sum(each.restarts for each in workers) and all(w.calls for w in workers)):
            assert time.monotonic() < until
            assert len(collect(group, version=2)) == 32
    finally:
        parts.close()
        cluster.shutdown()
