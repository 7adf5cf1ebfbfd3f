"""Trained policies as files that run without dicore: ONNX, torch.export and TorchScript."""
