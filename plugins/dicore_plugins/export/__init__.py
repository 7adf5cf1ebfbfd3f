"""Trained policies as files that run without dicore: ONNX, torch.export and TorchScript."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
