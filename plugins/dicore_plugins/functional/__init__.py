"""Pure functions to process samples and to compute targets and losses.

They have no state and do not change their inputs. Public names import their module on first use.
"""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
