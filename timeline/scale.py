"""Where a model puts entries that have nothing to do with each other: the zeros of their scores.

An entry's vector is the mean of a summary's and five tags', and tags lie nearer to each other than
sentences do. So the zeros are measured on built-in entries, question with entry and entry with
entry, when they are first needed.
"""

from dataclasses import dataclass

import numpy as np

from core.types import Vectors
from index.calibration import UNRELATED, MakesVectors, Zeros, scripts, zeros

TAGS = (
    "ferry island summer timetable harbour",
    "grandmother knitting socks wool needles",
    "revenue quarter analysts forecast earnings",
    "driver installation restart computer graphics",
    "recipe flour salt baking dough",
    "volcano tectonics plates geology magma",
    "football penalty match goalkeeper defeat",
    "lease signature deadline tenant flat",
    "桥梁 明朝 石拱 重修 历史",
    "跑步 早晨 五公里 习惯 体育",
    "新版本 登录 错误 修复 软件",
    "医生 甜食 糖分 饮食 健康",
    "博物馆 周一 闭馆 展览 参观",
    "股东大会 分红 股息 公司 投资",
    "猫咪 窗台 睡觉 宠物 日常",
    "歌曲 作词 中学老师 旋律 音乐",
)
"""Five tags for each of the unrelated texts."""

QUESTIONS = (
    "When does the pool open on weekends?",
    "Who was at the meeting about the new office?",
    "What did I say about my sister's birthday?",
    "Where did we park the car?",
    "How much did the new bicycle cost?",
    "Where are the keys of the cellar?",
    "Why was the train late?",
    "which languages does her husband speak",
    "上周五的会议讨论了什么？",
    "用户喜欢吃什么水果",
    "他的生日是哪一天",
    "服务器的密码改了没有",
    "我们去年去哪里旅游了？",
    "孩子在哪个学校上学",
    "为什么项目推迟了",
    "这笔钱花在哪里了",
)
"""What people ask and none of these entries answers. A query may be a statement as well."""


@dataclass(frozen=True, slots=True)
class EntryScale:
    """The zeros of one model, whose version it has."""

    version: str
    entries: Zeros  # of two entries
    questions: Zeros  # of a question (first) and an entry


def measured(model: MakesVectors, version: str) -> EntryScale:
    """What a model makes of the built-in entries and questions; 128 short texts."""
    groups = [[text, *tags.split()] for text, tags in zip(UNRELATED, TAGS, strict=True)]
    entries = np.stack([merged(model.passages(group)) for group in groups])
    asked = (*UNRELATED, *QUESTIONS)
    questions = np.stack([model.query(text) for text in asked])
    kinds = scripts(UNRELATED)
    return EntryScale(
        version,
        zeros(entries @ entries.T, kinds, kinds),
        zeros(questions @ entries.T, scripts(asked), kinds),
    )


def merged(vectors: Vectors) -> Vectors:
    """The mean of some vectors, one a row; it is not of length 1, and must not be made so."""
    mean: Vectors = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    return mean
