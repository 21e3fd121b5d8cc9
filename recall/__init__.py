"""How memories are found and ordered: lanes, their fusion, the evidence, the hits with reasons.

A question goes through `query.py`, `lanes.py`, `fusion.py`, `reranking.py`, `answerability.py`
and `hits.py`, in this order. `neighbourhood.py` answers for the graph, `turns.py` is the memory of
conversations by itself, `log.py` keeps how recalls went.
May import: access, config, core, embedding, index, mnelo_locale, store, text.
"""
