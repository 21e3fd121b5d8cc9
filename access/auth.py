"""The bearer token: where it is found, and whether a request carries it.

Where a token exists every request needs it; where none exists none is needed. The server
only reads tokens and never makes one, so a start cannot lock anybody out.
"""

import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path

from config import Config
from core.errors import AuthError

VARIABLES = ("MNELO_AUTH_TOKEN", "MNEOLO_AUTH_TOKEN")
"""The variable, and the spelling of it that older installations use."""

DEFAULT_FILE = "~/.config/mnelo/auth_token"


def load_token(config: Config, file: Path | None, env: Mapping[str, str]) -> str | None:
    """The token to ask for: of `file`, else of the settings, the environment, the default file.

    Raises AuthError for a file that was named but is not there, and for one that holds no token.
    """
    if named := file or config.auth_token_file:
        return _read(named, required=True)
    for variable in VARIABLES:
        if text := env.get(variable, "").strip():
            return _checked(text, variable)
    return _read(Path(DEFAULT_FILE), required=False)


def verify_bearer(headers: Sequence[str], token: str) -> bool:
    """Whether the request's Authorization headers are exactly one, and it bears the token."""
    if len(headers) != 1:
        return False
    scheme, _, given = headers[0].partition(" ")
    # Compared in constant time, so that the delay of the answer does not give the token away.
    same = hmac.compare_digest(given.strip().encode(), token.encode())
    return scheme.lower() == "bearer" and same


def _read(file: Path, *, required: bool) -> str | None:
    try:
        text = file.expanduser().read_text("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, FileNotFoundError) and not required:
            return None
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise AuthError("auth.unreadable", file=file, reason=reason) from None
    return _checked(text, str(file))


def _checked(text: str, place: str) -> str:
    """The token itself, if there is one and an HTTP header can carry it."""
    if not text:
        raise AuthError("auth.empty", place=place)
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise AuthError("auth.malformed", place=place)
    return text
