"""dicore: reinforcement learning assembled by name.

The core holds contracts, the compiled config, the task loop and the run; every concrete part is a
plugin. Importing this package imports neither numpy nor torch.
"""

__version__ = "0.1.0"
