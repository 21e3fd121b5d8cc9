"""Secrets in what is to be stored: found by their shape, then reported, taken out or refused.
Orders to agents (text/instructions.py) are reported or refused, and what is shown is marked.

`scan` looks at one text and `redact` takes out what it found; `Guard` does both to all the
arguments of a tool, before anything is embedded, indexed or logged: text, tags, source, session,
ids, entities, properties (names, values and numbers) and reasons.

A secret is known by its shape (a service's prefix, a JWT's header, a check digit), or by the name
before it (`password:`, 密码是) together with a value that is no word of a language. `warn` stores
it and the answer says which kinds were seen; `redact` puts `[redacted: kind]` in its place, until
nothing more is found; `refuse` stores nothing. A recall is never refused; with `redact` and
`refuse` the log gets its query redacted. Messages name the argument and the kind, never the value.
Positions are found in a text without zero-width signs and full-width letters, and given as in the
text as it is.

Every pattern is bounded or starts where no other match can, so time grows with length alone: 250
characters take 14 to 32 µs (Python 3.11, one core, the best of 200 measurements), the worst million
that was tried 3 s. Luhn's check and that of GB 11643 are ten lines each, so no library is needed:
`python-stdnum` has 6 MB, `phonenumbers` 48.

Not found: a name or number without any of these signs, a password that is a plain word, and what
was stored before the mode was set. Redacted ids are alike, so two phone numbers as ids of entities
become one. What test_guard.py finds in the 300 made-up texts of guard_cases.py, and in 200 innocent
ones (of each kind: 0):

    private_key   6 of 6    PEM, OpenSSH, PGP
    api_key      34 of 34   of some 30 services, or named so
    token        12 of 12   JWT, bearer, basic, or named so
    password     24 of 24   named so, or in an address
    identity      6 of 6    Chinese identity numbers
    card          8 of 8    payment cards
    phone        10 of 10   Chinese mobile, and others with +

The rules were made with these texts in view. Of 30 others, written afterwards and not kept, 11 are
missed: passwords that are words, PINs and door codes, a passport, a hotline, sentences in German
and French. Of 57 more innocent ones a single one is suspected.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from core.errors import InvalidInput
from core.results import Cautioned, Guarded
from mnelo_locale import message
from text.folding import fold
from text.instructions import speaks

KINDS = ("private_key", "api_key", "token", "password", "identity", "card", "phone")
"""What is looked for. Where two overlap, the one that stands first here gives its name."""

SPEAKS = "instructions"
"""No secret, but told of like one: a text that gives orders to the agent that reads it."""

MAX_VALUE = 256  # characters of a value that are judged


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret's kind and where it stands in the text: from `start` up to before `end`."""

    kind: str
    start: int
    end: int


def scan(text: str) -> list[Finding]:
    """What looks like a secret, in order and without overlaps.

    >>> scan("the password is changed monthly"), scan("密码：Blau7Fuchs")
    ([], [Finding(kind='password', start=3, end=13)])
    """
    folded, places = fold(text)
    found = [each for look in _LOOKS for each in look(folded)]
    joined = _joined(found) if found else []
    if places is None:
        return joined
    return [Finding(each.kind, places[each.start], places[each.end - 1] + 1) for each in joined]


def redact(text: str, findings: Iterable[Finding]) -> str:
    """The text with `[redacted: kind]` in place of each finding.

    >>> redact("密码：Blau7Fuchs!", scan("密码：Blau7Fuchs!"))
    '密码：[redacted: password]'
    """
    parts, at = [], 0
    for each in findings:
        parts += [text[at : each.start], f"[redacted: {each.kind}]"]
        at = each.end
    return "".join([*parts, text[at:]])


def clean(text: str) -> str:
    """The text with every secret redacted, also what shows only once its neighbour is gone.

    >>> clean("密码：Blau7Fuchs")
    '密码：[redacted: password]'
    """
    while findings := scan(text):
        text = redact(text, findings)
    return text


def _joined(found: Iterable[Finding]) -> list[Finding]:
    """Findings in order, those that overlap made one."""
    joined: list[Finding] = []
    for each in sorted(found, key=lambda each: each.start):
        if joined and each.start < joined[-1].end:
            last = joined.pop()
            kind = min(last.kind, each.kind, key=KINDS.index)
            each = Finding(kind, last.start, max(last.end, each.end))
        joined.append(each)
    return joined


# --- Keys of services ------------------------------------------------------------------

_KEYS = re.compile(
    r"(?<![A-Za-z0-9])("
    + "|".join(
        (
            # OpenAI, Anthropic (sk-ant-), OpenRouter, DeepSeek and others
            r"sk-(?:[A-Za-z0-9]{1,15}[_-]){0,8}[A-Za-z0-9]{16,}[\w-]*",
            r"gh[opsur]_[A-Za-z0-9]{36,}|github_pat_\w{40,}",
            r"gl(?:pat|dt|rt|ft|ptt|soat|cbt|agent|sa)[-_][\w-]{20,}",  # GitLab, Grafana
            r"A[KS]IA[A-Z2-7]{16}(?![A-Za-z0-9])",  # AWS
            r"AIza[\w-]{35,}|GOCSPX-[\w-]{24,}|ya29\.[\w-]{20,}",  # Google
            r"xox[abceoprs]-[A-Za-z0-9-]{12,}|xapp-[0-9]-[A-Za-z0-9-]{12,}"  # Slack
            r"|hooks\.slack\.com/services/T\w{8,12}/B\w{8,12}/\w{20,}",
            r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,}",  # Stripe
            r"hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36,}|pypi-[\w-]{50,}|dckr_pat_[\w-]{20,}",
            r"(?:bot)?[0-9]{8,10}:AA[\w-]{32,}",  # Telegram bots
            r"LTAI[A-Za-z0-9]{12,}|AKID[A-Za-z0-9]{28,}",  # Alibaba, Tencent
            r"ALTAK[A-Za-z0-9]{20,}|AKLT[A-Za-z0-9]{40,}",  # Baidu, Volcengine
            r"[0-9a-f]{32}\.[A-Za-z0-9]{16}(?![A-Za-z0-9])",  # Zhipu
            r"SG\.[\w-]{22}\.[\w-]{43,}|key-[0-9a-f]{32}(?![A-Za-z0-9])",  # SendGrid, Mailgun
            r"(?:dop_v1_[0-9a-f]{64}|shp[a-z]{2}_[0-9A-Fa-f]{32}|dapi[0-9a-f]{32})(?![A-Za-z0-9])",
            r"gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{40,}|pplx-[A-Za-z0-9]{40,}|r8_[A-Za-z0-9]{30,}",
            r"nvapi-[\w-]{40,}|tvly-[\w-]{20,}|ntn_[A-Za-z0-9]{40,}|lin_api_[A-Za-z0-9]{32,}",
        )
    )
    + ")",
    re.ASCII,
)
_AWS_SECRET = re.compile(
    r"A[KS]IA[A-Z2-7]{16}[^A-Za-z0-9].{0,60}?(?<![A-Za-z0-9/+])([A-Za-z0-9/+]{40})(?![\w/+=])",
    re.ASCII | re.DOTALL,
)
_RUN = re.compile("[A-Za-z0-9_-]{15}")
_CALL = re.compile(r"[(\[{]")
_FILLER = re.compile(
    r"x{4}|\*{3}|\.{3}|…|example|your[_-]|placeholder|change_?me|redacted|dummy|sample"
    r"|0123456|1234567|abcdefg|(.)\1{5}",
    re.IGNORECASE,
)
"""What stands in documents in the place of a key."""


def _api_keys(text: str) -> Iterator[Finding]:
    if not _RUN.search(text):
        return
    yield from _those(text, _KEYS, "api_key", lambda match: _is_key(match[1]))
    if "IA" in text:
        yield from _those(text, _AWS_SECRET, "api_key", lambda match: _is_random(match[1]))


def _is_key(key: str) -> bool:
    # By chance a long one without a digit is one in thousands.
    return not _FILLER.search(key) and (len(key) < 30 or any(map(str.isdigit, key)))


def _is_random(value: str) -> bool:
    """Whether a value is made by a machine: a part of it mixes letters and digits at length."""
    if len(value) < 12 or _FILLER.search(value) or len(set(value)) < 8:
        return False
    parts = re.split(r"[^A-Za-z0-9]", value)
    return not _CALL.search(value) and any(
        len(part) >= 8 and not part.isalpha() and not part.isdigit() for part in parts
    )


# --- Private keys ----------------------------------------------------------------------

_MARK = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINES = re.compile(r"(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{16,})*")
_KEY_RUN = re.compile("[A-Za-z0-9+/]{32}")


def _private_keys(text: str) -> Iterator[Finding]:
    """From a BEGIN to its END, or as far as lines of a key go; one that has no key is a remark."""
    marks = list(_MARK.finditer(text)) if "PRIVATE KEY" in text else []
    for at, mark in enumerate(marks):
        if mark[1] == "END":
            continue
        following = marks[at + 1] if at + 1 < len(marks) else None
        if following and following[1] == "END":
            end = following.end()
        else:
            end = _end_of_lines(text, mark.end())
        if _KEY_RUN.search(text, mark.end(), end):
            yield Finding("private_key", mark.start(), end)


def _end_of_lines(text: str, start: int) -> int:
    lines = _KEY_LINES.match(text, start)
    return lines.end() if lines else start


# --- Tokens ----------------------------------------------------------------------------

_JWT = re.compile(r"(?<![A-Za-z0-9])((eyJ[\w-]{10,1000})\.[\w-]{4,}(?:\.[\w-]*){1,3})", re.ASCII)
_BEARER = re.compile(r"\b(?:bearer|token)\s{1,3}([\w.~+/=-]{16,})", re.ASCII | re.IGNORECASE)
_BASIC = re.compile(r"\bbasic\s{1,3}([A-Za-z0-9+/]{8,}={0,2})", re.ASCII | re.IGNORECASE)
_URL_LOGIN = re.compile(r"://[^\s/:@?#\"'<>]{0,256}:([^\s/@?#\"'<>]{1,256})@")


def _tokens(text: str) -> Iterator[Finding]:
    lower = text.lower()
    if "eyj" in lower:
        yield from _those(text, _JWT, "token", lambda match: '"alg"' in _decoded(match[2]))
    if "bearer" in lower or "token" in lower:
        yield from _those(text, _BEARER, "token", lambda match: _is_random(match[1]))
    if "basic" in lower:
        yield from _those(text, _BASIC, "token", lambda match: ":" in _decoded(match[1]))


def _those(
    text: str, pattern: re.Pattern[str], kind: str, is_one: Callable[[re.Match[str]], bool]
) -> Iterator[Finding]:
    """Where a pattern's first group stands, if the match is one of the kind."""
    return (Finding(kind, *each.span(1)) for each in pattern.finditer(text) if is_one(each))


def _decoded(value: str) -> str:
    """What base64 of either alphabet says; empty where it is no text."""
    try:
        said = base64.urlsafe_b64decode(value.replace("+", "-").replace("/", "_") + "==")
        return said.decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _url_logins(text: str) -> Iterator[Finding]:
    """The password of `scheme://user:password@host`; the rest of the address stays."""
    if "://" in text and "@" in text:
        yield from _those(text, _URL_LOGIN, "password", lambda match: not _is_said(match[1]))


# --- Values that a name gives away -----------------------------------------------------

# Looked for in lower case.
_NAMED = (
    r"(?:(?P<api_key>(?:api|app|private)[ _-]?key|access[ _-]?key(?:[ _-]?(?:id|secret))?"
    r"|secret[ _-]?(?:access[ _-]?)?key|密钥|密鑰|秘钥|私钥)"
    r"|(?P<token>token|secret|credentials?|令牌)"
    r"|(?P<password>pass(?:word|wd|phrase|code)|pwd|\bpass|\bpw|密码|密碼|口令|授权码))s?"
)
_ABOUT = r"(?:\s(?:for|of|to|on|at)\s[^\n:=.,;]{1,40}?|[(（][^()（）\n]{1,20}[)）])?"
_SAYS = (
    r"(?:\s{0,3}(?:=>|->|:=|==?|[:：＝→])\*{0,2}\s{0,3}"
    r"|\s{1,3}(?:is|was)\s{1,3}(?:(?:now|still|(?:re)?set to|changed to)\s)?"
    r"|\s?(?:现在|目前|已经|已|都|就|我|统一|暂)?"
    r"(?:是|为|用的是|用|定为|改成|改为|换成|设成|设为|设置为|更新为|重置为)了?[:：]?\s{0,3}"
    r"|(?<=[码碼令钥鑰])\s{0,3})"
)
_STOPS = "\\s\u3000-\u303f\u3400-\u9fff\uff01-\uff5e“”‘’"
_GIVEN = re.compile(
    rf"{_NAMED}\\?[\"'`*]{{0,2}}{_ABOUT}{_SAYS}(?P<quote>\\?[\"'`“‘「]?)"
    rf"(?=(?P<value>[^{_STOPS}]{{1,{MAX_VALUE}}}))"
)
_LABEL = re.compile(f"{_NAMED}$")
_REST = re.compile(f"[^{_STOPS}]*")
_HINTS = (
    *("pass", "pw", "secret", "token", "key", "credential"),
    *("密", "口令", "令牌", "私", "授权码"),
)
_BEGINNING = re.compile(
    "pass|pw|secret|token|credential|(?:api|app|access|private)[ _-]?key"
    "|密[码碼钥鑰]|口令|令牌|[秘私]钥|授权码"
)
"""What a name begins with: found in a quarter of the time that all of _GIVEN needs."""
_CLOSING = {"“": "”", "‘": "’", "「": "」"}
_NEXT = re.compile(r"[&;,|]\s?[\w.-]{1,40}[=:]|\[redacted:", re.ASCII)
_UNIT = re.compile("[年月日号位次天个种级小分秒]")


class _Value(NamedTuple):
    text: str
    start: int
    quoted: bool = False
    chinese: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _given(text: str) -> Iterator[Finding]:
    """Values of assignments, and of sentences such as `the password is` and 密码是."""
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return
    done = 0
    for beginning in _BEGINNING.finditer(lower):
        match = _GIVEN.match(lower, beginning.start())
        if match is None:
            continue
        value = _value(text, match)
        if value.start < done or not _is_secret(_kind(match), value, text):
            continue
        # What is longer than what was judged belongs to it as well.
        rest = _REST.match(text, value.end) if len(value.text) == MAX_VALUE else None
        done = rest.end() if rest else value.end
        yield Finding(_kind(match), value.start, done)


def _kind(match: re.Match[str]) -> str:
    return next(kind for kind in ("api_key", "token", "password") if match[kind])


def _value(text: str, match: re.Match[str]) -> _Value:
    """What is given: all between quotes, else one word without what follows it in a list."""
    start, end = match.span("value")
    chinese = not match[0].isascii()
    if quote := match["quote"][-1:]:
        closing = text.find(_CLOSING.get(quote, quote), start, start + MAX_VALUE)
        if closing > start and "\n" not in text[start:closing]:
            return _Value(text[start:closing].rstrip("\\"), start, True, chinese)
    following = _NEXT.search(text, start, end)
    word = text[start : following.start() if following else end]
    return _Value(word.rstrip(".,;:)]}>\"'`\\"), start, False, chinese)


_STAND_IN = re.compile(
    r"\$[{(]|\$[A-Z_]{2,}|[{<[]|%[A-Z_]{2,}|[*•.…?-]{2,}|x{3,}\W*$|(?:your|the|some|any)[ _-]"
    r"|change_?me|[~.]{0,2}/[\w.-]+(?:/|$)|[a-z]:\\|\w+://",
    re.IGNORECASE,
)
"""What points to a value and is none: variables, gaps to fill in, paths, addresses."""
_CODE = re.compile(
    r"(?:self|cls|this|os|env|environ|process|config|settings|secrets|args|opts|options|vars?|ctx"
    r"|request|req|data|params|local|module|app|user|inputs|github|st)\.[a-z_]"
    r"|[A-Za-z_][A-Za-z_.]*[\[(]|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\W*$"
)
_WORDS = re.compile(
    r"[\d.,:/~+-]*[.,:/~+-][\d.,:/~+-]*"  # dates, times, versions, ranges
    r"|\d+-?(?:days?|hours?|h|min(?:ute)?s?|s(?:ec(?:ond)?s?)?|months?|weeks?|years?|bits?|bytes?"
    r"|char(?:acter)?s?|digits?|words?|times?|password|factor)"
    r"|(?:sha|md|pbkdf|bcrypt|argon|scrypt|base|aes|rsa|oauth|hmac|utf|ed)-?\d+[\w()-]*"
    r"|v\d[\d.]*(?:-[\w.]+)?|[\w.+-]+@[\w-]+(?:\.[a-z]{2,})+"
    r"|pass|passwd|password|passphrase|passcode|secret|pwd|token|passwort|hidden|string|text|value"
    r"|required|optional|invalid|incorrect|wrong|missing|empty|unknown|default|changed|hashed"
    r"|encrypted|bcrypt|scrypt|forgotten|expired|reset",
    re.IGNORECASE,
)
"""What is said about passwords."""


def _is_secret(kind: str, value: _Value, text: str) -> bool:
    if kind != "password":
        return not _points_elsewhere(value.text) and _is_random(value.text)
    if value.text.isdigit():
        enough = 4 if value.quoted or value.chinese else 6
        return len(value.text) >= enough and not _UNIT.match(text, value.end)
    return not _is_said(value.text) and _is_password(value)


def _points_elsewhere(word: str) -> bool:
    return bool(_STAND_IN.match(word) or _CODE.match(word))


def _is_said(word: str) -> bool:
    """Whether it is no password but points to one, or says something about it."""
    return _points_elsewhere(word) or bool(_WORDS.fullmatch(word))


def _is_password(value: _Value) -> bool:
    """Whether a word is none of a language: it mixes letters with digits or signs."""
    word = value.text
    if len(word) < 6:
        return False
    if value.quoted and word.isalpha() and word.isascii():
        return True
    letters, digits = any(map(str.isalpha, word)), any(map(str.isdigit, word))
    signs = any(char in "!@#$%^&*+=?~" for char in word[:-1])
    return letters + digits + signs >= 2


def _labelled(label: str, text: str) -> list[Finding]:
    """What scan finds in the value of a property, and the whole of it where its name says so."""
    match = _LABEL.search(fold(label)[0].lower())
    words = fold(text)[0].split()
    alone = len(words) == 1
    if match and any(_is_secret(_kind(match), _Value(each, 0, alone), "") for each in words):
        return [Finding(_kind(match), 0, len(text))]
    return scan(text)


# --- Numbers ---------------------------------------------------------------------------

_DIGITS = re.compile(r"[0-9](?:[ -]?[0-9]){10}|\+[0-9]")
# What begins with a digit is found sooner if what stands before is looked at after it.
_IDENTITY = re.compile(
    r"([1-9](?<![A-Za-z0-9].)\d{5}[ -]?\d{8}[ -]?\d{3}[\dXx])(?![A-Za-z0-9])", re.ASCII
)
_CARD = re.compile(
    r"(\d(?<![\w./].)(?:\d{12,18}|\d{3}([ -])\d{4}\2\d{4}\2(?:\d{4}\2\d{3}|\d{1,7})"
    r"|\d{3}[ -]\d{6}[ -]\d{4,5}|\d{5}[ -]\d{10,13}))(?!\w)(?!\.\d)",
    re.ASCII,
)
_ISSUERS = re.compile(
    # Visa, Mastercard, Mir; American Express; Diners Club
    r"(?=\d{16}$)(?:4|5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720|220[0-4])\d*"
    r"|3[47]\d{13}|3(?:0[0-5]|[689]\d)\d{11}"
    # UnionPay, Discover, JCB, Maestro
    r"|(?=\d{16,19}$)(?:62|9558|603367|6011|64[4-9]|65|352[89]|35[3-8])\d*"
    r"|(?=\d{13,19}$)(?:5018|5020|5038|5893|6304|6759|676[1-3])\d*"
)
"""Numbers by the beginnings and lengths that issuers use."""
_MOBILE = re.compile(
    r"(?<![A-Za-z0-9.])((?:(?:\+|00)?86[ -]?)?1(?:3\d|4[014-9]|5[0-35-9]|6[2567]|7[0-8]|8\d"
    r"|9[0-35-9])[ -]?\d{4}[ -]?\d{4})(?![A-Za-z0-9])(?!\.\d)",
    re.ASCII,
)
_ABROAD = re.compile(
    r"(?<![.+])(\+(?:[17](?:[ .()-]{0,2}\d){10}|[2-689](?:[ .()-]{0,2}\d){9,14}))"
    r"(?![A-Za-z0-9])(?!\.\d)",
    re.ASCII,
)
_NO_PHONE = re.compile(r"\+(?:\d+\.\d+$|(?:19|20)\d\d(?:0[1-9]|1[0-2])[0-3]\d)")
_NUMBERED = re.compile(
    r"(?:(?:\b|_)(?:order|invoice|ticket|tracking|parcel|waybill|ref(?:erence)?|serial|sku|issue|build"
    r"|batch|id|bytes|size|count|offset)(?:[ _-]?(?:number|no|nr|id|code))?"
    r"|(?:订单|单号|编号|流水|序列|运单|发票|快递|批次)号?码?)"
    r"[\"'\s.:#：=是为]{0,4}$",
    re.IGNORECASE,
)
"""What stands before a number that counts things and calls nobody."""
_PROVINCES = re.compile("1[1-5]|2[1-3]|3[1-7]|4[1-6]|5[0-4]|6[1-5]|71|8[1-3]|91")


def _numbers(text: str) -> Iterator[Finding]:
    if not _DIGITS.search(text):
        return
    yield from _those(text, _IDENTITY, "identity", lambda match: _is_identity(match[1]))
    yield from _those(text, _CARD, "card", lambda match: _is_card(match[1]) and _alone(match))
    yield from _those(text, _MOBILE, "phone", _alone)
    yield from _those(text, _ABROAD, "phone", lambda match: not _NO_PHONE.match(match[1]))


def _alone(match: re.Match[str]) -> bool:
    """Whether nothing before a number says that it is an order's or the like."""
    start = match.start()
    return not _NUMBERED.search(match.string, max(0, start - 24), start)


def _is_identity(number: str) -> bool:
    """Whether it is a number of GB 11643: province, day of birth and check digit fit."""
    digits = re.sub("[ -]", "", number).upper()
    try:
        born = date(int(digits[6:10]), int(digits[10:12]), int(digits[12:14]))
    except ValueError:
        return False
    # ISO 7064, MOD 11-2: Horner's scheme with 2, an X at the end is 10.
    rest = 0
    for char in digits:
        rest = rest * 2 + (10 if char == "X" else int(char))
    known = _PROVINCES.match(digits) and 1900 <= born.year <= date.today().year
    return bool(known) and rest % 11 == 1


def _is_card(number: str) -> bool:
    """Whether an issuer has such numbers and the last digit fits (Luhn)."""
    digits = re.sub("[ -]", "", number)
    if not _ISSUERS.fullmatch(digits):
        return False
    doubled = [int(each) * 2 for each in digits[-2::-2]]
    total = sum(map(int, digits[::-2])) + sum(each - 9 * (each > 9) for each in doubled)
    return total % 10 == 0


_LOOKS: Sequence[Callable[[str], Iterator[Finding]]] = (
    *(_private_keys, _api_keys, _tokens, _url_logins, _given, _numbers),
)


# --- The guard -------------------------------------------------------------------------


class Checked(NamedTuple):
    """The arguments as they may be stored, and the kinds of secrets in them; SPEAKS too."""

    arguments: dict[str, Any]
    kinds: list[str]


class Guard:
    """Does what `[guard]` says with secrets, and with orders to agents, in what is to be stored."""

    def __init__(self, mode: str, instructions: str = "mark") -> None:
        self._mode, self._instructions = mode, instructions

    def check(self, arguments: Mapping[str, Any], place: str = "") -> Checked:
        """Look at every text in a tool's arguments, which `place` stands before in an error.

        Raises InvalidInput for the first text that is to be refused.
        """
        kinds: set[str] = set()
        safe = self._fields(place, arguments, kinds)
        return Checked(safe, sorted(kinds, key=(*KINDS, SPEAKS).index))

    def unlogged(self, text: str) -> str:
        """The text as it may stand in a log."""
        return clean(text) if self._mode in ("redact", "refuse") else text

    def notice(self, kinds: Sequence[str]) -> Guarded:
        """The part of an answer that says what was found; empty where that is nothing."""
        told: Guarded = {}
        notices: list[str] = []
        if secrets := [each for each in kinds if each != SPEAKS]:
            told["secrets"] = secrets
            done = "guard.redacted" if self._mode == "redact" else "guard.stored"
            notices.append(message(done, kinds=_named(secrets)))
        if SPEAKS in kinds:
            notices.append(message("guard.speaks"))
        if notices:
            told["notice"] = " ".join(notices)
        return told

    def caution(self, *shown: Any) -> Cautioned:
        """What is to stand beside what is shown to an agent: a caution where a text in it speaks.

        It is looked at as it is shown, so that what was stored long ago is marked as well.
        """
        if self._instructions == "warn" or not any(map(_speaks, shown)):
            return {}
        return {"caution": message("guard.caution")}

    def _fields(self, place: str, table: Mapping[str, Any], kinds: set[str]) -> dict[str, Any]:
        """An object of known fields, each named by its place."""
        dot = "." if place else ""
        return {
            name: self._value(
                f"{place}{dot}{name}", each, kinds, "" if name in _PROPERTIES else None
            )
            for name, each in table.items()
        }

    def _value(self, place: str, value: Any, kinds: set[str], label: str | None) -> Any:
        """Within properties `label` is the name of the one; names there are in no error."""
        if isinstance(value, str):
            return self._text(place, value, kinds, label or "")
        if isinstance(value, int) and not isinstance(value, bool):
            safe = self._text(place, str(value), kinds, label or "")
            return value if safe == str(value) else safe
        if isinstance(value, (list, tuple)):
            at = (place if label is not None else f"{place}[{i}]" for i in range(len(value)))
            return [self._value(next(at), each, kinds, label) for each in value]
        if isinstance(value, dict):
            fields = self._fields if label is None else self._properties
            return fields(place, value, kinds)
        return value

    def _properties(self, place: str, table: Mapping[str, Any], kinds: set[str]) -> dict[str, Any]:
        safe: dict[str, Any] = {}
        for label, value in table.items():
            name = self._text(place, label, kinds, "")
            while name in safe:  # two that were redacted alike
                name += "*"
            safe[name] = self._value(place, value, kinds, label)
        return safe

    def _text(self, place: str, text: str, kinds: set[str], label: str) -> str:
        if speaks(text):
            if self._instructions == "refuse":
                raise InvalidInput("guard.speaks_refused", name=place)
            kinds.add(SPEAKS)
        if self._mode == "off":
            return text
        findings = _labelled(label, text) if label else scan(text)
        if findings and self._mode == "refuse":
            found = sorted({each.kind for each in findings}, key=KINDS.index)
            raise InvalidInput("guard.refused", name=place, kinds=_named(found))
        kinds.update(each.kind for each in findings)
        return clean(redact(text, findings)) if findings and self._mode == "redact" else text


_PROPERTIES = ("properties", "new_properties", "metadata")


def _speaks(shown: Any) -> bool:
    """Whether a text in any value of JSON does; names of properties are texts too."""
    if isinstance(shown, str):
        return speaks(shown)
    if isinstance(shown, Mapping):
        return any(_speaks(key) or _speaks(each) for key, each in shown.items())
    return isinstance(shown, (list, tuple)) and any(map(_speaks, shown))


def _named(kinds: Iterable[str]) -> str:
    return message("guard.and").join(message(f"guard.kind_{kind}") for kind in kinds)
