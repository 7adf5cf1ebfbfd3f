"""Training in several processes on Ray: roles, versioned parameters, collectors, evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.distributed.collectors import CollectorGroup
    from dicore_plugins.distributed.config import ParallelConfig, SystemConfig
    from dicore_plugins.distributed.crew import Crew, StalledError
    from dicore_plugins.distributed.entry import parallel_pipeline
    from dicore_plugins.distributed.evaluation import ParallelEvaluation, RemoteEvaluator
    from dicore_plugins.distributed.gradients import (
        average_gradients,
        join_group,
        leave_group,
        sync_gradients,
    )
    from dicore_plugins.distributed.learners import LearnerGroup, LearnerRole
    from dicore_plugins.distributed.pipeline import ParallelParts, ParallelPipeline
    from dicore_plugins.distributed.processes import RoleProcess
    from dicore_plugins.distributed.roles import CollectorRole, EvaluatorRole, RoleSpec
    from dicore_plugins.distributed.runtime import RayRuntime
    from dicore_plugins.distributed.status import StatusFile, status_writer
    from dicore_plugins.distributed.weights import Publisher, Versioned

__all__ = [
    "CollectorGroup",
    "CollectorRole",
    "Crew",
    "EvaluatorRole",
    "LearnerGroup",
    "LearnerRole",
    "ParallelConfig",
    "ParallelEvaluation",
    "ParallelParts",
    "ParallelPipeline",
    "Publisher",
    "RayRuntime",
    "RemoteEvaluator",
    "RoleProcess",
    "RoleSpec",
    "StalledError",
    "StatusFile",
    "SystemConfig",
    "Versioned",
    "average_gradients",
    "join_group",
    "leave_group",
    "parallel_pipeline",
    "status_writer",
    "sync_gradients",
]

_HOMES = {
    ".collectors": ("CollectorGroup",),
    ".config": ("ParallelConfig", "SystemConfig"),
    ".crew": ("Crew", "StalledError"),
    ".entry": ("parallel_pipeline",),
    ".evaluation": ("ParallelEvaluation", "RemoteEvaluator"),
    ".gradients": ("average_gradients", "join_group", "leave_group", "sync_gradients"),
    ".learners": ("LearnerGroup", "LearnerRole"),
    ".pipeline": ("ParallelParts", "ParallelPipeline"),
    ".processes": ("RoleProcess",),
    ".roles": ("CollectorRole", "EvaluatorRole", "RoleSpec"),
    ".runtime": ("RayRuntime",),
    ".status": ("StatusFile", "status_writer"),
    ".weights": ("Publisher", "Versioned"),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
