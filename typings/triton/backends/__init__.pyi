# So that the types that are checked do not depend on whether, or in which version, it is installed.
from typing import Any

def __getattr__(name: str) -> Any: ...
