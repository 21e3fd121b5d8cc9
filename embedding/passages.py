"""What is embedded of a memory."""

from datetime import tzinfo

from core import timestamps
from core.types import TIMELINE
from index.names import NOBODY
from text import words


def passage(content: str, source: str, timestamp: str, zone: tzinfo) -> str:
    """A memory's text with its day and who said it; those two are embedded, but never shown.

    A text that begins with a time or a speaker of its own is not given another one. A summary of
    the timeline is embedded as it is, since summaries are compared with each other.
    """
    if source == TIMELINE:
        return content
    when = "" if words.begins_with_time(content) else f"[{timestamps.day(timestamp, zone)}] "
    who = "" if source == NOBODY or words.speaker(content) else f"{source}: "
    return f"{when}{who}{content}"
