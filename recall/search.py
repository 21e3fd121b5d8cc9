"""A recall from a checked question to its hits: which lanes run, how, and what is said of them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, cast

from config import LANES, Config
from core import timestamps
from core.errors import ConfigError, InvalidInput
from core.results import Hit, Lane
from embedding.vectors import Embedding
from index.chunks import Index
from mnelo_locale import message
from recall.answerability import has_answer
from recall.hits import Fused, Fusion, fuse, hits, seeds
from recall.lanes import INDEPENDENT_LANES, MAX_SEEDS, cue_lane, graph_lane
from recall.query import Bounds, Query, Question, Ranking
from store import Store, View
from store.types import CueSettings

log = logging.getLogger("mnelo")

READER_SETS = 4  # recalls that may run at a time, each with a connection for every lane
MAX_IN_TURN = 500_000  # memories; only with more do lanes gain by threads of their own
CUES_SECONDS = 2.0  # that a recall spends on memories whose cues were never read

Outcome = Ranking | Exception
"""A lane's ranking, or what it failed with: the other lanes still answer."""


class Searcher:
    """Answers checked questions. Safe for use by many threads."""

    def __init__(self, config: Config, store: Store, embedding: Embedding, cues_off: str) -> None:
        """`cues_off` says why cues cannot be read, though the settings ask for that."""
        self._config, self._store, self._embedding = config, store, embedding
        zone = timestamps.zone(config.timezone)
        self._bounds = Bounds(zone, config.recall_lane_depth, config.limits_fan_out)
        self._fusion = _fusion(config)
        self._cues_off = cues_off
        self._by_cues = _cue_lane(config) if "cue" in config.recall_lanes and not cues_off else {}
        workers = READER_SETS * len(INDEPENDENT_LANES)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="mnelo-lane")

    def close(self) -> None:
        self._pool.shutdown()

    def lane_states(self) -> dict[Lane, str]:
        """Of every lane `on`, or why it is off."""
        lanes, on = all_lanes(self._config), self._config.recall_lanes
        off: dict[Lane, str] = {"vector": self._embedding.why_off(), "cue": self._cues_off}
        off |= {lane: message("lane.switched_off") for lane in lanes if lane not in on}
        return {
            lane: message("lane.state_off", reason=off[lane]) if off.get(lane) else "on"
            for lane in lanes
        }

    def search(self, question: Question, asked: str) -> tuple[list[Hit], list[str]]:
        """The hits, best first, and what is to be said with them; `asked` is the moment."""
        lanes = self._lanes_of(question.strategy)
        vector, why_none = None, ""
        if "vector" in lanes:
            vector, why_none = self._embedding.of_question(question.query)
        uncued = self._read_cues() if "cue" in lanes else 0
        with self._store.views() as views:
            view = views["graph"]
            with view.reading():
                query = Query(view, question, vector, asked=asked, bounds=self._bounds)
                outcomes = self._run(views, query, lanes)
            fused = self._fuse(query, outcomes, question.strategy)
            with view.reading():  # anew: what was changed meanwhile is shown as it is now
                found = hits(view, query, fused, top_k=question.top_k, explain=question.explain)
                has_model = "vector" in lanes and not self._embedding.is_off()
                waiting = view.pending_count() if has_model else 0
        notices = [] if found else [message("notice.nothing")]
        if "vector" in lanes and query.vector is None:
            self._embedding.follow()  # the file may have another model since the question
            notices.append(why_none or self._embedding.why_none())
        notices += self._faults(lanes, outcomes)
        if found and not has_answer(query, fused.rankings, fused.rows):
            notices.append(message("notice.weak"))
            for hit in found:
                hit["weak"] = True
        if waiting:
            notices.append(message("notice.pending", count=waiting))
        if uncued:
            notices.append(message("cues.left", count=uncued))
        return found, notices

    def _lanes_of(self, strategy: str) -> Sequence[str]:
        """The lanes that a strategy runs: the graph needs all, since it starts from their finds.

        Raises where no lane can answer, whatever is asked.
        """
        on, only = self._config.recall_lanes, strategy.removesuffix("_only")
        if strategy != "rrf" and only not in on:
            raise InvalidInput("lane.off", lane=only)
        if self._cues_off and (only == "cue" or on == ("cue",)):
            raise ConfigError("notice.cues_off", reason=self._cues_off)
        return on if strategy in ("rrf", "graph_only") else (only,)

    def _read_cues(self) -> int:
        """Read what cues there is time for; how many memories are left without."""
        if not self._by_cues:
            return 0
        try:
            return self._store.cues.index(CUES_SECONDS)
        except Exception:  # the other lanes still answer, and this one with the cues it has
            log.exception("cues cannot be read")
            with self._store.view() as view:
                return view.cues.waiting_count()

    def _run(
        self, views: Mapping[str, View], query: Query, lanes: Sequence[str]
    ) -> dict[Lane, Outcome]:
        """The outcome of each lane; raises only where all of them fail."""
        outcomes = self._run_independent(views, query, lanes)
        if "graph" in lanes:
            starts = seeds(_rankings(outcomes), query, self._fusion, MAX_SEEDS)
            outcomes["graph"] = _attempt("graph", graph_lane, views["graph"], query, starts)
        faults = [each for each in outcomes.values() if isinstance(each, Exception)]
        if faults and len(faults) == len(outcomes):
            raise faults[0]
        return outcomes

    def _run_independent(
        self, views: Mapping[str, View], query: Query, lanes: Sequence[str]
    ) -> dict[Lane, Outcome]:
        """The lanes one after another on one connection, or side by side, each on its own."""
        run = {
            lane: partial(_attempt, lane, function)
            for lane, function in (INDEPENDENT_LANES | self._by_cues).items()
            if lane in lanes
        }
        if not self._side_by_side(query.index):
            return {lane: attempt(views["graph"], query) for lane, attempt in run.items()}
        first, others = list(run)[:1], list(run)[1:]
        running = {lane: self._pool.submit(run[lane], views[lane], query) for lane in others}
        try:
            outcomes = {lane: run[lane](views[lane], query) for lane in first}
        finally:  # also after a signal: whoever borrows these views next must have them alone
            wait(running.values())
        return outcomes | {lane: future.result() for lane, future in running.items()}

    def _side_by_side(self, index: Index) -> bool:
        setting = self._config.recall_concurrent
        return setting == "on" or (setting == "auto" and index.size > MAX_IN_TURN)

    def _fuse(self, query: Query, outcomes: Mapping[Lane, Outcome], strategy: str) -> Fused:
        rankings = _rankings(outcomes)
        if strategy == "rrf":
            return fuse(query, rankings, self._fusion)
        only = {lane: each for lane, each in rankings.items() if strategy == f"{lane}_only"}
        return fuse(query, only, self._fusion.of_one_lane())

    def _faults(self, lanes: Sequence[str], outcomes: Mapping[Lane, Outcome]) -> list[str]:
        """Which lanes have failed, or cannot be used."""
        failed = [lane for lane, each in outcomes.items() if isinstance(each, Exception)]
        said = [message("notice.lane_failed", lane=lane) for lane in failed]
        if self._cues_off and "cue" in lanes:
            said.append(message("notice.cues_off", reason=self._cues_off))
        return said


def _rankings(outcomes: Mapping[Lane, Outcome]) -> dict[Lane, Ranking]:
    return {lane: each for lane, each in outcomes.items() if isinstance(each, Ranking)}


def _attempt(lane: Lane, function: Callable[..., Ranking], view: View, *arguments: Any) -> Outcome:
    try:
        with view.reading():
            return function(view, *arguments)
    except Exception as error:
        log.exception("the %s lane failed", lane)
        return error


# --- What the settings say -------------------------------------------------------------


def all_lanes(config: Config) -> tuple[Lane, ...]:
    """The four lanes, on or off, and the one that is there only for who asks for it."""
    return cast("tuple[Lane, ...]", tuple(dict.fromkeys((*LANES, *config.recall_lanes))))


def cue_settings(config: Config) -> tuple[CueSettings | None, str]:
    """How memories are found by cues, where the settings ask for that; or why they cannot be."""
    if "cue" not in config.recall_lanes:
        return None, ""
    from text.cues import extractor

    try:
        return CueSettings(extractor(config), config.cues_pause_minutes), ""
    except ConfigError as error:
        log.warning("%s", error)
        return None, str(error)


def _cue_lane(config: Config) -> dict[Lane, Callable[[View, Query], Ranking]]:
    from index.cue_index import Edges

    edges = Edges(config.cues_associative, config.cues_discourse)
    return {"cue": partial(cue_lane, edges=edges)}


def _fusion(config: Config) -> Fusion:
    return Fusion(
        k=config.recall_rrf_k,
        weights={
            "vector": config.recall_vector_weight,
            "graph": config.recall_graph_weight,
            "meta": config.recall_meta_weight,
            "entity": config.recall_entity_weight,
            "cue": config.recall_cue_weight,
        },
        boost=config.recall_stock_boost,
        reranks=config.recall_rerank == "evidence",
    )
