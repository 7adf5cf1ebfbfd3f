"""Env managers: they step many environments as one.

`get_vec_env_setting` turns an env's config into the factories of a hand-written main.
"""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
