"""The standard components of dicore; each is asked for by its registered name."""

import sys

from dicore_plugins.lazy import FormerPaths

sys.meta_path.append(FormerPaths)
