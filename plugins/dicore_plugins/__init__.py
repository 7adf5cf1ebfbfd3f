"""The standard components of dicore; each is asked for by its registered name."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class FormerPaths:
    """Finds modules by the paths that they had; it is asked when there is none of the name."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how to import the module in its present place; None: it is none of ours."""
        if not name.startswith("dicore_plugins."):
            return None
        from dicore_plugins.former import spec_of

        return spec_of(name)


sys.meta_path.append(FormerPaths)
