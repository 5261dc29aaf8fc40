"""A checksum inside a JSON object, against accidents: whoever changes the object on purpose can leave it out."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

NAME = "checksum"


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The object with a checksum of all its entries.

    >>> sealed({"loss": 0.5})
    {'loss': 0.5, 'checksum': 'cedc306d005cd589'}
    """
    return {**content, NAME: _checksum(content)}


def unsealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The object without its checksum; ValueError if that is not its own. Objects of 0.1.0 have none."""
    plain = {name: value for name, value in content.items() if name != NAME}
    if NAME in content and content[NAME] != _checksum(plain):
        raise ValueError("it changed since it was written")
    return plain


def _checksum(content: Mapping[str, Any]) -> str:
    as_read = json.loads(json.dumps(content))  # tuples are lists there, and all names text
    return hashlib.blake2b(json.dumps(as_read, sort_keys=True).encode(), digest_size=8).hexdigest()
