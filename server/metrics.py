"""What /metrics tells Prometheus: calls since the start, and what is stored at this moment."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

LATENCIES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0, 10.0)
"""Upper bounds in seconds: most recalls take some milliseconds, one that waits for a model 3 s."""
KINDS = ("chunks", "entities", "relations")


class Metrics:
    """The counters of one server, and the sizes of its memory, in a registry of their own.

    `stats` is Memory.stats; it is asked once for each time that somebody looks.
    """

    def __init__(self, stats: Callable[[], Mapping[str, Any]]) -> None:
        own = self._registry = CollectorRegistry()
        self._recalls = Counter("mnelo_recall", "Recalls, by strategy.", ["method"], registry=own)
        self._seconds = Histogram(
            "mnelo_recall_latency_seconds",
            "How long recalls took, by strategy.",
            ["method"],
            registry=own,
            buckets=LATENCIES,
        )
        self._hits = Counter(
            "mnelo_recall_hits",
            "Recalls that found something, or nothing.",
            ["result"],
            registry=own,
        )
        self._forgets = Counter("mnelo_forget", "Calls of forget, by kind.", ["kind"], registry=own)
        self._plain = {
            f"memory_{name}": Counter(f"mnelo_{name}", f"Calls of {name}.", registry=own)
            for name in ("remember", "relate", "update")
        }
        own.register(_Sizes(stats))

    def count(
        self, tool: str, arguments: Mapping[str, Any], result: Mapping[str, Any], seconds: float
    ) -> None:
        """Count a call that was answered; its arguments have been checked, so labels are few."""
        if tool == "memory_recall":
            method = arguments.get("strategy") or "rrf"
            self._recalls.labels(method).inc()
            self._seconds.labels(method).observe(seconds)
            self._hits.labels("found" if result["hits"] else "empty").inc()
        elif tool == "memory_forget":
            self._forgets.labels(arguments.get("target_kind") or "chunk").inc()
        elif tool in self._plain:
            self._plain[tool].inc()

    def page(self) -> tuple[bytes, str]:
        """The text that Prometheus reads, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST


class _Sizes(Collector):
    """What there is now, asked for when somebody looks."""

    def __init__(self, stats: Callable[[], Mapping[str, Any]]) -> None:
        self._stats = stats
        self._started = time.monotonic()

    def describe(self) -> list[Metric]:
        # Or the registry would collect once just to learn the names.
        return []

    def collect(self) -> Iterator[Metric]:
        stats = self._stats()
        sizes, resident = stats["db"], resident_bytes()
        gauges = {f"db_{name}": (f"Live {name}.", stats[name]["active"]) for name in KINDS}
        gauges |= {
            "db_vectors": ("Vectors of live chunks.", stats["vectors"]),
            "pending_vectors": ("Chunks that wait for vectors.", stats["pending"]),
            "db_size_bytes": ("Size of the database file.", sizes["db_bytes"]),
            "db_wal_bytes": ("Size of its write-ahead log.", sizes["wal_bytes"]),
            "uptime_seconds": ("Time since the server's start.", time.monotonic() - self._started),
        }
        if resident is not None:
            gauges["process_rss_bytes"] = ("Memory of the server's process.", resident)
        for name, (about, value) in gauges.items():
            yield GaugeMetricFamily(f"mnelo_{name}", about, value=value)


def resident_bytes() -> int | None:
    """The memory that this process holds at the moment; None where it is unknown."""
    if sys.platform == "linux":
        pages = Path("/proc/self/statm").read_text("ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    if sys.platform == "darwin":
        # The standard library only knows the highest value ever; ps counts in kibibytes.
        command = ["/bin/ps", "-o", "rss=", "-p", str(os.getpid())]
        done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
        return int(done.stdout) * 1024 if done.stdout.strip() else None
    return None
