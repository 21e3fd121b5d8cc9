"""What can go wrong, named for the fault. `str(error)` is fit to show to a person."""

from mnelo_locale import message


class MneloError(Exception):
    """Any failure that a caller can act on; its sentence comes from i18n_messages."""

    def __init__(self, msg_id: str, /, **values: object) -> None:
        self.msg_id = msg_id
        super().__init__(message(msg_id, **values))


class InvalidInput(MneloError):
    """An argument is not what its tool allows; the sentence names it and the bound."""


class NotFound(MneloError):
    """No memory, entity or relation has that id."""


class ConfigError(MneloError):
    """A setting has a value that mnelo cannot use."""


class StoreError(MneloError):
    """The database file cannot be used; the sentence names the file and why."""


class StoreBusy(StoreError):
    """Another process held the write lock for longer than the configured time."""


class BackupError(MneloError):
    """A backup cannot be made or restored; the sentence says why and what is left as it was."""


class ModelError(MneloError):
    """An embedding model cannot be loaded; the sentence says which and why."""


class AuthError(MneloError):
    """The token file that was named cannot be used."""
