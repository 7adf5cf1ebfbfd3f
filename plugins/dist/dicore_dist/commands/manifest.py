"""Kubernetes: a RayJob for the KubeRay operator (https://docs.ray.io/en/latest/cluster/kubernetes)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from dicore.errors import UsageError

__all__ = ["ray_job", "to_yaml"]


def ray_job(
    command: Sequence[str], *, image: str, workers: int, gpus: int = 0, namespace: str = "default"
) -> dict[str, Any]:
    """Returns a RayJob: a Ray cluster with a head, where the learner runs, and workers.

    Args:
        command: What the job runs.
        image: Container image with dicore and Ray.
        workers: Number of worker pods, with one CPU core each.
        gpus: GPUs of the head pod.
        namespace: Kubernetes namespace.
    """
    if not image.strip() or any(letter.isspace() for letter in image):
        raise UsageError(f"--image {image!r} is not the name of an image")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", namespace):
        raise UsageError(
            f"--namespace {namespace!r}: expected at most 63 lower-case letters, digits and '-'"
        )
    head = {"cpu": "2", "memory": "4Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "dicore", "namespace": namespace},
        "spec": {
            "entrypoint": shlex.join(command),
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {
                "headGroupSpec": {
                    "rayStartParams": {"dashboard-host": "0.0.0.0"},  # noqa: S104 - of the pod
                    "template": _pod("ray-head", image, head),
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "collectors",
                        "replicas": workers,
                        "minReplicas": workers,
                        "maxReplicas": workers,
                        "rayStartParams": {},
                        "template": _pod("ray-worker", image, {"cpu": "1", "memory": "2Gi"}),
                    }
                ],
            },
        },
    }


def _pod(name: str, image: str, resources: Mapping[str, str]) -> dict[str, object]:
    limits = dict(resources)
    container = {"name": name, "image": image, "resources": {"limits": limits, "requests": limits}}
    return {"spec": {"containers": [container]}}


def to_yaml(value: Any, indent: int = 0) -> str:
    """Writes nested dicts and lists as YAML; strings are quoted where YAML would read them else."""
    pad, lines = "  " * indent, []
    if isinstance(value, Mapping):
        for key, each in value.items():
            if isinstance(each, Mapping | list) and each:
                lines.append(f"{pad}{_scalar(key)}:\n{to_yaml(each, indent + 1)}")
            else:
                lines.append(f"{pad}{_scalar(key)}: {_scalar(each)}\n")
    else:
        for each in value:
            text = to_yaml(each, indent + 1)
            lines.append(f"{pad}- {text[len(pad) + 2 :]}")
    return "".join(lines)


def _scalar(value: object) -> str:
    words = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./-]*", value):
        return value if value.lower() not in words else json.dumps(value)
    return json.dumps(value)
