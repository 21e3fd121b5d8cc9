"""Which language to speak, and the sentence for a message id in it."""

import os
from collections.abc import Mapping

from i18n_messages import MESSAGES

VARIABLES = ("MNELO_MEMORY_LANG", "LC_ALL", "LANG")


def language(env: Mapping[str, str] = os.environ) -> str:
    """The first language that the environment names, as its two letters; else English.

    >>> language({"LANG": "zh_CN.UTF-8"}), language({"MNELO_MEMORY_LANG": "ja", "LANG": "zh_CN"})
    ('zh', 'ja')
    >>> language({"LC_ALL": "C.UTF-8"}), language({})
    ('en', 'en')
    """
    for variable in VARIABLES:
        if name := env.get(variable, "").strip():
            code = name.replace("-", "_").split("_")[0].split(".")[0].lower()
            return "en" if code in ("c", "posix") else code
    return "en"


def message(msg_id: str, /, **values: object) -> str:
    """The sentence in the reader's language, else in English, else the id itself."""
    texts = MESSAGES.get(msg_id, {})
    text = texts.get(language()) or texts.get("en") or msg_id
    return text.format(**values) if values else text
