"""The version, compiled into the native module from pyproject.toml."""

from isinglass import _core

__version__: str = _core.__version__
