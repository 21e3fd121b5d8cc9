"""Secrets: what is found and what is left alone, and what each mode does with it."""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.types import CallToolResult, TextContent

from core.errors import InvalidInput
from guard_cases import INNOCENT, SECRETS, Case, wide
from hash_embedder import HashEmbedder
from memories import Open
from memory import Memory
from server import tools
from text.guard import KINDS, Finding, Guard, clean, redact, scan

PHONE = "138" + "12345678"
PASSWORD = "Blau7" + "Fuchs"
KEY = next(case.secret for case in SECRETS if case.secret.startswith("sk-ant-"))

# --- What is found ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_secret_of_a_kind_is_found_as_what_it_is_where_it_is(kind: str) -> None:
    cases = [case for case in SECRETS if case.kind == kind]
    assert len(cases) >= 6
    assert [case.text for case in cases if not is_found(case)] == []


def is_found(case: Case) -> bool:
    findings = scan(case.text)
    return [each.kind for each in findings] == [case.kind] and case.secret not in redact(
        case.text, findings
    )


def test_there_are_100_texts_with_a_secret_and_200_without() -> None:
    assert (len(SECRETS), len(INNOCENT)) == (100, 200)
    assert len({case.text for case in SECRETS} | set(INNOCENT)) == 300


def test_at_most_two_of_the_innocent_texts_are_suspected() -> None:
    assert len([text for text in INNOCENT if scan(text)]) <= 2


def test_what_is_said_around_a_secret_stays() -> None:
    text = f"李雷：手机 {PHONE}，密码：{PASSWORD}。下周见"
    assert redact(text, scan(text)) == (
        "李雷：手机 [redacted: phone]，密码：[redacted: password]。下周见"
    )


def test_of_an_address_only_the_password_goes() -> None:
    text = f"postgres://ann:{PASSWORD}@db.example.org/depot"
    assert redact(text, scan(text)) == "postgres://ann:[redacted: password]@db.example.org/depot"


def test_the_secret_of_an_aws_key_is_found_beside_it() -> None:
    cases = {case.text.split()[0]: case.secret for case in SECRETS if case.kind == "api_key"}
    key, secret = cases["AWS:"], cases["aws_secret_access_key"]
    text = f"{key} and then {secret}"
    assert redact(text, scan(text)) == "[redacted: api_key] and then [redacted: api_key]"
    assert scan(f"and then {secret}") == []


@pytest.mark.parametrize("value", ["plain", "plain " * 40])
def test_a_jwt_is_known_by_a_header_that_can_be_read(value: str) -> None:
    token = next(case.secret for case in SECRETS if case.secret.startswith("eyJ"))
    assert [each.kind for each in scan(value + " " + token)] == ["token"]
    assert scan(value + " eyJ" + "x" + token[4:]) == []


def test_a_value_longer_than_what_is_judged_is_taken_out_whole() -> None:
    text = f"api_key={'a1b2c3d4e5' * 99} and more"
    assert redact(text, scan(text)) == "api_key=[redacted: api_key] and more"


def test_a_wrong_check_digit_makes_no_card_and_no_identity() -> None:
    for kind in ("card", "identity"):
        for case in SECRETS:
            if case.kind == kind and case.secret.isdigit() and case.secret.isascii():
                last = (int(case.secret[-1]) + 1) % 10
                assert scan(f"{case.secret[:-1]}{last} ") == []


# --- Where it is -----------------------------------------------------------------------

UNSEEN = "\u200b"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (wide(PHONE), wide(PHONE)),
        (f"手机：{wide(PHONE)}。", wide(PHONE)),
        (UNSEEN.join(PHONE), UNSEEN.join(PHONE)),
        (f"{UNSEEN}电话 138{UNSEEN}{PHONE[3:]}{UNSEEN}！", f"138{UNSEEN}{PHONE[3:]}"),
        (f"密{UNSEEN}码：{wide(PASSWORD)}，", wide(PASSWORD)),
        (f"ＰＡＳＳＷＯＲＤ＝{PASSWORD}", PASSWORD),
        (f"密码：\u3000{PASSWORD}\ufeff", PASSWORD),
        (f"İİ password: {PASSWORD}", PASSWORD),
        (f"{UNSEEN * 3}{KEY}", KEY),
    ],
)
def test_positions_are_those_of_the_text_as_it_was_given(text: str, found: str) -> None:
    (finding,) = scan(text)
    assert text[finding.start : finding.end] == found


def test_what_shows_only_once_its_neighbour_is_gone_is_taken_out_as_well() -> None:
    text = f"门锁密码改成了 7319+33 1 42 68 {'53 00'}"
    assert redact(text, scan(text)) == "门锁密码改成了 7319[redacted: phone]"
    assert clean(text) == "门锁密码改成了 [redacted: password][redacted: phone]"


def test_findings_that_overlap_are_one_of_the_surest_kind() -> None:
    text = f"password = {KEY}"
    assert scan(text) == [Finding("api_key", 11, 11 + len(KEY))]


FRAGMENTS = st.sampled_from(
    [
        *(case.text for case in SECRETS),
        *(case.secret for case in SECRETS),
        *INNOCENT,
        *(
            "password",
            "password=",
            "password is ",
            "密码",
            "密码：",
            "token: ",
            "api_key='",
            "order ",
        ),
        *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "://a:", "@", "+", "Bearer "),
        *(
            "[redacted: phone]",
            "[redacted: ",
            '"',
            "'",
            "“",
            "”",
            "\n",
            "\u200b",
            " ",
            "=",
            ".",
            "-",
        ),
    ]
)
TEXTS = st.lists(FRAGMENTS | st.text(max_size=6), max_size=6).map("".join)


@given(TEXTS)
def test_any_text_can_be_scanned_and_keeps_no_secret_once_redacted(text: str) -> None:
    findings = scan(text)
    places = [place for each in findings for place in (each.start, each.end)]
    assert places == sorted(places)
    assert all(0 <= each.start < each.end <= len(text) for each in findings)
    assert {each.kind for each in findings} <= set(KINDS)
    cleaned = clean(text)
    assert scan(cleaned) == []
    assert bool(findings) == (cleaned != text)


@given(st.text())
def test_no_text_is_too_strange_to_be_scanned(text: str) -> None:
    assert all(text[each.start : each.end] for each in scan(text))


REPEATED = [
    *("1 ", "4111 ", "-eyJaaaaaaaaaa", "password=", 'token: "a', "://a:b", "\u200b1"),
    *("sk-", "-----BEGIN PRIVATE KEY-----"),
]
MORE_REPEATED = [
    *("a", "1-", "+1 ", "138 1234 ", "AKIA" + "A" * 16 + " ", "12345678:AA", "api_key ", "密码("),
    *("password for a ", "bearer ", "-----BEGIN PRIVATE KEY-----" + "A" * 40 + "\n", 'pwd\\"'),
]


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "piece", [*REPEATED, *(pytest.param(each, marks=pytest.mark.long) for each in MORE_REPEATED)]
)
def test_half_a_million_characters_that_nearly_match_take_no_longer_than_their_length(
    piece: str,
) -> None:
    # A pattern that looks at the rest of the text from each place would not be done in the time
    # after which this test is ended.
    text = piece * (500_000 // len(piece))
    assert redact(text, scan(text)).startswith((piece[:1], "[redacted"))


# --- What becomes of it ----------------------------------------------------------------

GIVEN: dict[str, Any] = {
    "content": f"Ann rings {PHONE} at noon",
    "source": f"mail of {PHONE}",
    "session_id": f"call {PHONE}",
    "tags": [PHONE, "depot"],
    "entities": [
        {
            "id": "ann",
            "name": f"Ann {PHONE}",
            "summary": f"password: {PASSWORD}",
            "aliases": [f"tel:{PHONE}"],
            "properties": {
                "phone": int(PHONE),
                "login": {"password": PASSWORD, "name": "ann"},
                "old passwords": ["swordfish", PASSWORD],
                KEY: "her key",
                f"{KEY}x": "another",
                "age": 41,
            },
        },
        f"phone {PHONE}",
    ],
    "relations": [
        {
            "source_id": "ann",
            "target_id": f"line {PHONE}",
            "relation": "answers",
            "properties": {"api key": KEY},
        }
    ],
}
VALUES = (PHONE, PASSWORD, KEY, "swordfish")


def use(memory: Memory) -> list[dict[str, Any]]:
    """Every way in, with secrets wherever there is room; the answers."""
    first = memory.remember(**GIVEN)
    second = memory.update(
        first["chunk_id"],
        reason=f"not {PHONE}",
        new_content=f"It is {PHONE} now",
        new_properties={"pwd": PASSWORD},
    )
    memory.recall(f"who rings {PHONE}?")
    related = memory.relate("ann", "depot", "knows", properties={"key": KEY})
    memory.forget(second["new_chunk_id"], reason=f"password: {PASSWORD}")
    memory.stats()
    return [dict(answer) for answer in (first, second, related)]


def stored(folder: Path) -> bytes:
    """All that the files of a memory hold, in lower case as some indexes do."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("memory.db*"))).lower()


def leaked(folder: Path) -> list[str]:
    content = stored(folder)
    assert content
    return [value for value in VALUES if value.lower().encode() in content]


def test_a_memory_that_warns_stores_all_as_given_and_says_what_it_was(
    open_memory: Open, tmp_path: Path
) -> None:
    memory = open_memory(model=HashEmbedder())
    answers = use(memory)
    assert [answer["secrets"] for answer in answers] == [
        *(["api_key", "password", "phone"], ["password", "phone"], ["api_key"])
    ]
    assert answers[2]["notice"] == (
        "Stored as given, though it seems to hold an API key: whoever reads the file can read it"
        " ([guard] mode)."
    )
    assert memory.show_chunk(answers[0]["chunk_id"])["content"] == GIVEN["content"]
    assert sorted(leaked(tmp_path)) == sorted(VALUES)


def test_a_memory_that_redacts_lets_nothing_of_a_value_into_file_answer_or_log(
    open_memory: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        memory = open_memory(model=HashEmbedder(), guard_mode="redact")
        answers = use(memory)
    entity = memory.show_entity("ann")
    assert leaked(tmp_path) == []
    memory.close()
    assert leaked(tmp_path) == []
    assert b"ann rings [redacted: phone] at noon" in stored(tmp_path)
    assert b"who rings [redacted: phone]?" in stored(tmp_path)
    said = json.dumps(answers, ensure_ascii=False) + caplog.text
    assert not [value for value in VALUES if value in said]
    assert answers[0]["secrets"] == ["api_key", "password", "phone"]
    assert answers[0]["notice"].startswith(
        "Stored without what seems to be an API key and a password"
    )
    assert entity["properties"] == {
        "phone": "[redacted: phone]",
        "login": {"password": "[redacted: password]", "name": "ann"},
        "old passwords": ["[redacted: password]"] * 2,
        "[redacted: api_key]": "her key",
        "[redacted: api_key]*": "another",
        "age": 41,
    }


def test_a_redacted_memory_has_the_vector_of_what_is_stored(open_memory: Open) -> None:
    seen: list[str] = []

    class Watching(HashEmbedder):
        def passages(self, texts: Sequence[str]) -> Any:
            seen.extend(texts)
            return super().passages(texts)

    memory = open_memory(model=Watching(), guard_mode="redact")
    use(memory)
    assert any("[redacted: phone]" in text for text in seen)
    assert not [text for text in seen for value in VALUES if value in text]


WAYS = [
    ("content", "a phone number", {"content": GIVEN["content"]}),
    ("source", "a phone number", {"content": "x", "source": GIVEN["source"]}),
    ("tags[0]", "a phone number", {"content": "x", "tags": GIVEN["tags"]}),
    ("entities[0].name", "a phone number", {"content": "x", "entities": GIVEN["entities"]}),
    ("entities[0].id", "a phone number", {"content": "x", "entities": [PHONE]}),
    ("entities[0].properties", "a password", {"content": "x", "entities": []}),
    ("relations[0].target_id", "a phone number", {"content": "x", "relations": GIVEN["relations"]}),
]
WAYS[5][2]["entities"].append({"id": "ann", "properties": {"a": [{"password": "swordfish"}]}})


@pytest.mark.parametrize(("name", "kind", "arguments"), WAYS)
def test_a_memory_that_refuses_names_argument_and_kind_and_stores_nothing(
    open_memory: Open, tmp_path: Path, name: str, kind: str, arguments: dict[str, Any]
) -> None:
    memory = open_memory(guard_mode="refuse")
    with pytest.raises(InvalidInput) as refusal:
        memory.remember(**arguments)
    assert str(refusal.value) == (
        f"{name} seems to hold {kind}; nothing was stored. Leave it out and say it again"
        " ([guard] mode is refuse)."
    )
    assert memory.stats()["chunks"]["total"] == 0
    assert leaked(tmp_path) == []


def test_what_is_refused_of_many_is_named_by_its_place_and_none_is_stored(
    open_memory: Open, tmp_path: Path
) -> None:
    memory = open_memory(guard_mode="refuse")
    with pytest.raises(InvalidInput, match=r"items\[1\]\.tags\[0\] seems to hold a phone number"):
        memory.remember_many([{"content": "one"}, {"content": "two", "tags": [PHONE]}])
    assert memory.stats()["chunks"]["total"] == 0
    assert leaked(tmp_path) == []


def test_updates_relations_and_reasons_are_refused_too(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory(guard_mode="refuse")
    chunk_id = memory.remember("Ann keeps the keys")["chunk_id"]
    refused: list[tuple[str, Callable[[], object]]] = [
        ("new_content", lambda: memory.update(chunk_id, new_content=GIVEN["content"])),
        ("new_properties", lambda: memory.update(chunk_id, new_properties={KEY: 1})),
        ("properties", lambda: memory.relate("a", "b", "c", properties={"x": f"pwd: {PASSWORD}"})),
        ("reason", lambda: memory.forget(chunk_id, reason=f"was {PHONE}")),
    ]
    for name, attempt in refused:
        with pytest.raises(InvalidInput, match=f"^{name} seems to hold a"):
            attempt()
    memory.recall(f"whose number is {PHONE}?")
    memory.close()
    assert leaked(tmp_path) == []


def test_each_of_many_memories_is_told_of_its_own_secrets(open_memory: Open) -> None:
    memory = open_memory()
    one, two = memory.remember_many([{"content": "one"}, {"content": f"two {PHONE}"}])
    assert "secrets" not in one
    assert "notice" not in one
    assert two["secrets"] == ["phone"]


def test_a_guard_that_is_off_does_not_look(open_memory: Open, tmp_path: Path) -> None:
    answers = use(open_memory(guard_mode="off"))
    assert not any("secrets" in answer or "notice" in answer for answer in answers)
    assert sorted(leaked(tmp_path)) == sorted(VALUES)


def test_innocent_arguments_come_out_of_a_guard_as_they_were() -> None:
    given = {
        "content": "北门",
        "entities": [{"id": "a", "properties": {"n": [1, 2.5, None, True]}}],
    }
    assert Guard("redact").check(given) == (given, [])


def test_a_guard_speaks_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LANG", "zh")
    with pytest.raises(InvalidInput) as refusal:
        Guard("refuse").check({"content": f"电话 {PHONE}，密码：{PASSWORD}"})
    assert str(refusal.value) == (
        "content 似乎含有密码和电话号码；未存储任何内容。请去掉后重试（[guard] mode 为 refuse）。"
    )
    assert Guard("redact").notice(["phone"])["notice"] == (
        "存储时已去除疑似电话号码的内容，原处写为 [redacted: ...]。"
    )


# --- Over MCP --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["warn", "redact", "refuse"])
def test_a_client_is_told_and_gets_no_value_back(
    open_memory: Open, tmp_path: Path, mode: str
) -> None:
    memory = open_memory(guard_mode=mode)

    async def say() -> CallToolResult:
        async with Client(
            tools.build_server(memory, [tools.core(memory, memory.config)])
        ) as client:
            return await client.call_tool("memory_remember", {"content": f"电话 {PHONE}"})

    result = asyncio.run(say())
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert PHONE not in block.text
    assert "a phone number" in block.text
    assert bool(result.is_error) == (mode == "refuse")
    if result.structured_content:
        assert result.structured_content["secrets"] == ["phone"]
    assert (PHONE in leaked(tmp_path)) == (mode == "warn")
