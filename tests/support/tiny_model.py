"""A text embedding model of a few hundred kilobytes, laid out as the hub's cache holds them.

Its vector of a text is the mean of its words' random vectors, so texts that share words are
near each other and the same text has the same vector everywhere. fastembed loads it as it
loads the real ones: tokenizer, ONNX graph, the first token's vector.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

DIM = 512
MOST_TOKENS = 64
REVISION = "0123456789abcdef0123456789abcdef01234567"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = "the a is to of and in my dog cat pet boat harbour price stock meeting friday blue tea"
HAN = "我你的是在北京上海门项目周会股票价格猫狗船茶喜欢一二三"
SIGNS = ".,!?:;'\"-_/&()"


def write_model(cache: Path, repo: str, model_file: str = "model_optimized.onnx") -> Path:
    """Put the model into a hub cache as `repo`, and return the folder of its files."""
    folder = cache / f"models--{repo.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(REVISION)
    files = folder / "snapshots" / REVISION
    (files / model_file).parent.mkdir(parents=True)
    vocabulary = _vocabulary()
    (files / model_file).write_bytes(_graph(len(vocabulary)).SerializeToString())
    _tokenizer(vocabulary).save(str(files / "tokenizer.json"))
    named = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL}
    for name, table in {
        "config.json": {"model_type": "bert", "hidden_size": DIM, "pad_token_id": 0},
        "tokenizer_config.json": {"model_max_length": MOST_TOKENS, **named},
        "special_tokens_map.json": named,
    }.items():
        (files / name).write_text(json.dumps(table))
    return files


def _vocabulary() -> dict[str, int]:
    pieces = [*SPECIAL, *WORDS.split(), *HAN, *LETTERS, *SIGNS, *(f"##{c}" for c in LETTERS)]
    return {piece: at for at, piece in enumerate(dict.fromkeys(pieces))}


def _tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def _graph(words: int) -> onnx.ModelProto:
    """Every token's output is the mean of all of them, and so is the first one's."""
    table = np.random.default_rng(7).standard_normal((words, DIM)).astype(np.float32)
    table[: len(SPECIAL)] *= 0.05  # what a text says is in its words
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["vectors"]),
        helper.make_node("Cast", ["attention_mask"], ["flat"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["flat", "last"], ["mask"]),
        helper.make_node("Mul", ["vectors", "mask"], ["present"]),
        helper.make_node("ReduceSum", ["present", "tokens"], ["sum"]),
        helper.make_node("ReduceSum", ["mask", "tokens"], ["count"]),
        helper.make_node("Div", ["sum", "count"], ["mean"]),
        helper.make_node("Mul", ["present", "nothing"], ["zeros"]),
        helper.make_node("Add", ["zeros", "mean"], ["last_hidden_state"]),
    ]
    constants: dict[str, NDArray[Any]] = {
        "table": table,
        "tokens": np.array([1], np.int64),
        "last": np.array([2], np.int64),
        "nothing": np.array(0, np.float32),
    }
    shape = ["batch", "tokens_in_batch"]
    graph = helper.make_graph(
        nodes,
        "mean-of-words",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, shape)
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, DIM])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model
