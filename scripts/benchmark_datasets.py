"""Conversations with questions and the turns that answer them, read from files.

Two formats are known by their keys:
{"conversations": [{id, sessions {n: date}, turns [{id, s, sp, text, img?}],
qa [{q, cat, ev [ids of turns]}]}]}, where questions of category 5 have no answer; and
{"users": [{id, user, turns [{id, day, u, r}], qa [{q, cat, ev}]}]}.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import _root  # noqa: F401 - makes the modules one folder up importable


class Refused(Exception):
    """What was asked for cannot be measured; the text says why in one line."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What becomes one memory."""

    key: str
    text: str
    session: str
    when: str
    speaker: str


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    evidence: tuple[str, ...]  # keys of the turns that hold the answer
    category: str


@dataclass(frozen=True, slots=True)
class Pool:
    """What is asked of one store: the turns of one conversation or user, and their questions."""

    id: str
    turns: list[Turn]
    questions: list[Question]
    unanswerable: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dataset:
    name: str
    kind: str  # the key of its format: "conversations" or "users"
    pools: list[Pool]


CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
NO_ANSWER = 5


def read_dataset(path: Path, *, bare: bool = False, limit: int | None = None) -> Dataset:
    """The pools of a file; `bare` leaves the date and the speaker out of the texts.

    `limit` keeps so many questions of each pool, from all over its list.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Refused(f"{path} cannot be read: {error}") from None
    kinds = [kind for kind in READERS if isinstance(data, dict) and kind in data]
    if not kinds:
        raise Refused(f'{path} is of no known format: it has neither "conversations" nor "users".')
    try:
        pools = [READERS[kinds[0]](each, bare) for each in data[kinds[0]]]
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{path} is not whole: {type(error).__name__}: {error}") from None
    if not any(pool.questions for pool in pools):
        raise Refused(f"{path} has no question with evidence.")
    return Dataset(path.stem, kinds[0], [_with_limit(pool, limit) for pool in pools])


def _conversation(data: Mapping[str, Any], bare: bool) -> Pool:
    pool, sessions, questions = str(data["id"]), data["sessions"], data["qa"]
    turns = []
    for each in data["turns"]:
        date = sessions[str(each["s"])]
        shown = f" [shared image: {each['img']}]" if each.get("img") else ""
        text = ("" if bare else f"[{date}] {each['sp']}: ") + each["text"] + shown
        when = datetime.strptime(date, "%I:%M %p on %d %B, %Y").isoformat()
        turns.append(_turn(pool, each["id"], text, each["s"], when, each["sp"]))
    answerable = [each for each in questions if each["ev"] and each["cat"] != NO_ANSWER]
    return Pool(
        pool,
        turns,
        [_question(pool, each) for each in answerable],
        [each["q"] for each in questions if each["cat"] == NO_ANSWER],
    )


def _user(data: Mapping[str, Any], bare: bool) -> Pool:
    pool, user = str(data["id"]), data["user"]
    turns = []
    for each in data["turns"]:
        text = ("" if bare else f"[{each['day']}] {user}: ") + f"{each['u']}\nAI: {each['r']}"
        turns.append(_turn(pool, each["id"], text, each["day"], each["day"], user))
    return Pool(pool, turns, [_question(pool, each) for each in data["qa"] if each["ev"]])


READERS: dict[str, Callable[[Mapping[str, Any], bool], Pool]] = {
    "conversations": _conversation,
    "users": _user,
}


def _turn(pool: str, key: str, text: str, session: object, when: str, speaker: str) -> Turn:
    return Turn(f"{pool}/{key}", text, f"{pool}/{session}", when, speaker)


def _question(pool: str, data: Mapping[str, Any]) -> Question:
    evidence = tuple(dict.fromkeys(f"{pool}/{key}" for key in data["ev"]))
    return Question(data["q"], evidence, CATEGORIES.get(data["cat"], str(data["cat"])))


def _with_limit(pool: Pool, limit: int | None) -> Pool:
    return replace(
        pool,
        questions=limited(pool.questions, limit),
        unanswerable=limited(pool.unanswerable, limit),
    )


def limited(items: list[Any], limit: int | None) -> list[Any]:
    """So many of a list, evenly from all over it.

    >>> limited([1, 2, 3, 4, 5, 6], 3), limited([1, 2], 3)
    ([1, 3, 5], [1, 2])
    """
    if limit is None or len(items) <= limit:
        return items
    return [items[number * len(items) // limit] for number in range(limit)]


def together(dataset: Dataset) -> list[Pool]:
    """Everything of a file in one store."""
    turns = [turn for pool in dataset.pools for turn in pool.turns]
    questions = [question for pool in dataset.pools for question in pool.questions]
    return [Pool("all", turns, questions)]


def crossed(asking: Dataset, asked: Dataset) -> Dataset:
    """The questions of one file with the turns of the other, which hold the same exchanges."""
    others = {pool.id: pool for pool in asked.pools}
    pools = []
    for pool in asking.pools:
        turns = others[pool.id].turns if pool.id in others else []
        there = {turn.key for turn in turns}
        questions = [each for each in pool.questions if there.issuperset(each.evidence)]
        if questions:
            pools.append(Pool(pool.id, turns, questions))
    if not pools:
        raise Refused(f"{asking.name} and {asked.name} have no users and turns in common.")
    return Dataset(f"{asking.name} asks {asked.name}", asking.kind, pools)


OFF_TOPIC = {
    "en": (
        "What does the colour charge of a gluon mean in quantum chromodynamics?",
        "Which tax class did I choose for the income tax in Luxembourg?",
        "Which hydration did we settle on for the rye sourdough?",
        "When are the keel bolts of the catamaran due for a torque check?",
        "At what temperature does tungsten carbide melt?",
        "Who commanded the fleet at Lepanto?",
        "How does a Raft cluster elect its leader?",
        "What did the auditor say about our Basel III leverage ratio?",
        "Which enzyme unwinds the double helix before replication?",
        "How many grammatical cases does Finnish have?",
        "What is the Chandrasekhar limit of a white dwarf?",
        "When did I last replace the injectors of the two-stroke diesel?",
        "How much anhydrous ammonia may be stored on the farm?",
        "Which meridian did the Treaty of Tordesillas agree on?",
        "How does a Francis turbine differ from a Pelton wheel?",
        "Which escapement does the marine chronometer have?",
        "What is the half-life of caesium-137?",
        "Which covenant of the leveraged buyout did the lender waive?",
        "What does the Laplace transform do to a derivative?",
        "How thick must the concrete cover of rebar be in seawater?",
    ),
    "zh": (
        "量子色动力学里胶子的色荷是什么意思？",
        "我在卢森堡报所得税时选了哪个税级？",
        "黑麦酸面团的含水率我们最后定了多少？",
        "双体帆船的龙骨螺栓什么时候该检查扭矩？",
        "碳化钨的熔点是多少度？",
        "勒班陀海战中谁指挥联合舰队？",
        "Raft 集群怎样选出主节点？",
        "审计师对我们的巴塞尔协议杠杆率说了什么？",
        "复制之前由哪种酶解开双螺旋？",
        "芬兰语的名词有多少个格？",
        "白矮星的钱德拉塞卡极限是多少？",
        "我上次更换二冲程柴油机的喷油嘴是什么时候？",
        "农场最多可以储存多少液氨？",
        "托德西利亚斯条约划定的是哪条子午线？",
        "混流式水轮机和冲击式水轮机有什么区别？",
        "这台航海钟用的是哪种擒纵机构？",
        "铯-137 的半衰期有多长？",
        "贷款方豁免了杠杆收购的哪一项契约条款？",
        "拉普拉斯变换把导数变成什么？",
        "海水环境中钢筋的混凝土保护层要多厚？",
    ),
}
"""Questions about nothing that people tell each other in conversations."""
