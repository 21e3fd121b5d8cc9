"""The bearer token: where it is found, and whether a request carries it.

Where a token exists every request needs it; where none exists none is needed. The server
only reads tokens and never makes one, so a start cannot lock anybody out.
"""

import hmac
import os
import shlex
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from config import Config
from core.errors import AuthError
from mnelo_locale import message

VARIABLES = ("MNELO_AUTH_TOKEN", "MNEOLO_AUTH_TOKEN")
"""The variable, and the spelling of it that older installations use."""

DEFAULT_FILE = "~/.config/mnelo/auth_token"

LEAST, LEAST_DIFFERENT = 16, 6  # characters of a token, all and different ones
MAX_BYTES = 4096
NO_WAIT = getattr(os, "O_NONBLOCK", 0)


def load_token(config: Config, file: Path | None, env: Mapping[str, str]) -> str | None:
    """The token to ask for: of `file`, else of the settings, the environment, the default file.

    Raises AuthError for a file that was named but is not there, for one that holds no token, or
    a weak one, and for one that others on this machine can read.
    """
    if named := file or config.auth_token_file:
        return _read(named, required=True)
    for variable in VARIABLES:
        if text := env.get(variable, "").strip():
            return _checked(text, variable, "")
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
        # Not waited for: a pipe without a writer would hold up the start for ever.
        with open(os.open(file.expanduser(), os.O_RDONLY | NO_WAIT), "rb") as opened:
            about = os.fstat(opened.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise AuthError("auth.unreadable", file=file, reason=message("auth.no_file"))
            _refuse_shared(file, about)
            text = opened.read(MAX_BYTES + 1).decode("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, FileNotFoundError) and not required:
            return None
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise AuthError("auth.unreadable", file=file, reason=reason) from None
    return _checked(text, str(file), f" > {shlex.quote(str(file.expanduser()))}")


def _refuse_shared(file: Path, about: os.stat_result) -> None:
    """Raise AuthError where others on this machine can read the token, or write one of theirs."""
    if sys.platform == "win32":
        return
    place = shlex.quote(str(file.expanduser()))
    if about.st_uid not in (0, os.geteuid()):
        raise AuthError("auth.foreign", file=file, command=f"sudo chown $(id -u) {place}")
    if about.st_mode & 0o077:
        mode = about.st_mode & 0o777
        raise AuthError("auth.shared", file=file, mode=f"{mode:03o}", command=f"chmod 600 {place}")


def _checked(text: str, place: str, into: str) -> str:
    """The token itself, if there is one that an HTTP header can carry and nobody guesses."""
    command = f"(umask 077; python3 -c 'import secrets; print(secrets.token_urlsafe(32))'{into})"
    if not text:
        raise AuthError("auth.empty", place=place, command=command)
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise AuthError("auth.malformed", place=place, command=command)
    if len(text) > MAX_BYTES:
        raise AuthError("auth.long", place=place, most=MAX_BYTES, command=command)
    if len(text) < LEAST or len(set(text)) < LEAST_DIFFERENT:
        raise AuthError("auth.weak", place=place, least=LEAST, command=command)
    return text
