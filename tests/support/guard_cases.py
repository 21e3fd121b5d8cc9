"""Texts with a secret in them and texts without: 100 and 200, all made up.

No secret stands here as it is: keys are drawn by a generator that always draws the same, and
numbers get their check digits here, so that nobody's scanner takes this file for a leak.
"""

import base64
import json
import random
import string
from collections.abc import Iterator
from typing import NamedTuple

_draw = random.Random(600089)  # noqa: S311 - nothing here is to be kept secret
MIXED = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
BASE32 = string.ascii_uppercase + "234567"
URL_SAFE = MIXED + "-_"


class Case(NamedTuple):
    kind: str
    text: str
    secret: str
    """What no file may have after it was taken out."""


def body(length: int, alphabet: str = MIXED) -> str:
    """A key's random part; it begins with a letter and a digit, so that no draw is a word."""
    return "a7" + "".join(_draw.choices(alphabet, k=length - 2))


def luhn(digits: str) -> str:
    """The number with its check digit."""
    total = 0
    for at, char in enumerate(reversed(digits)):
        doubled = int(char) * (2 if at % 2 == 0 else 1)
        total += doubled // 10 + doubled % 10
    return digits + str(-total % 10)


def identity(beginning: str) -> str:
    """The 17 digits of an identity number with its check character, by the table of GB 11643."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    rest = sum(int(char) * weight for char, weight in zip(beginning, weights, strict=True)) % 11
    return beginning + "10X98765432"[rest]


def grouped(digits: str, sign: str = " ") -> str:
    return sign.join(digits[at : at + 4] for at in range(0, len(digits), 4))


def wide(text: str) -> str:
    """ASCII in full width."""
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def jwt(*parts: object) -> str:
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join([each.rstrip("=") for each in encoded] + [body(43, URL_SAFE)])


def pem(kind: str, lines: int = 3, end: bool = True) -> str:
    middle = "\n".join(body(64) for _ in range(lines))
    dashes = "-" * 5
    last = f"\n{dashes}END {kind}{dashes}" if end else ""
    return f"{dashes}BEGIN {kind}{dashes}\n{middle}{last}"


# --- With a secret ---------------------------------------------------------------------


def _api_keys() -> Iterator[Case]:
    for text, key in (
        ("The key for the OpenAI project is {}", "sk-proj-" + body(80, URL_SAFE)),
        ("OPENAI_API_KEY={}", "sk-" + body(48)),
        ("Claude 的 key：{}，额度每月 50 美元", "sk-ant-" + "api03-" + body(93, URL_SAFE)),
        ("openrouter: {}", "sk-or-" + "v1-" + body(64, HEX)),
        ("DeepSeek 用 {} 调用", "sk-" + body(32, HEX)),
        ("git push needs {} as the password", "ghp_" + body(36)),
        ("fine-grained: {}.", "github_pat_" + body(22) + "_" + body(59)),
        ("oauth {} expires on Friday", "gho_" + body(36)),
        ("CI uses {}", "ghs_" + body(36)),
        ("GitLab 的令牌在这里 {} 请保密", "glpat-" + body(20, URL_SAFE)),
        ("AWS: {} / region eu-west-1", "AKIA" + _base32(16)),
        ("temporary credentials {}", "ASIA" + _base32(16)),
        ("maps key {} (billing: Ann)", "AIza" + body(35, URL_SAFE)),
        ("the OAuth client: {}", "GOCSPX-" + body(28, URL_SAFE)),
        ("slack bot {}", f"xoxb-{_digits(12)}-{_digits(12)}-{body(24)}"),
        ("slack user {}", f"xoxp-{_digits(12)}-{_digits(12)}-{body(32, HEX)}"),
        ("Stripe live: {}", "sk_live_" + body(24)),
        ("restricted {} for the shop", "rk_live_" + body(32)),
        ("hooks are signed with {}", "whsec_" + body(32)),
        ("hugging face {} read only", "hf_" + body(34)),
        ("npm publish 用 {}", "npm_" + body(36)),
        ("twine upload with {}", "pypi-" + "AgEIcHlwaS5vcmc" + body(120, URL_SAFE)),
        ("电报机器人 {}", f"{_digits(10)}:AA{body(33, URL_SAFE)}"),
        ("阿里云 AccessKey {}", "LTAI" + body(20)),
        ("腾讯云 SecretId {}", "AKID" + body(32)),
        ("智谱 {} 已充值", body(32, HEX) + "." + body(16)),
        ("SendGrid {}", f"SG.{body(22, URL_SAFE)}.{body(43, URL_SAFE)}"),
        ("mailgun {}", "key-" + body(32, HEX)),
        ("groq: {}", "gsk_" + body(52)),
        ("docker login -p {}", "dckr_pat_" + body(27, URL_SAFE)),
        ("aws_secret_access_key = {}", body(40, MIXED + "/+")),
        ("api_key: {}", body(32, HEX)),
        ('headers = {{"X-API-Key": "{}"}}', body(24)),
        ("高德地图的 API 密钥是{}", body(32, HEX)),
    ):
        yield Case("api_key", text.format(key), key)


def _base32(length: int) -> str:
    return "".join(_draw.choices(BASE32, k=length))


def _digits(length: int) -> str:
    return "7" + "".join(_draw.choices(string.digits, k=length - 1))


def _private_keys() -> Iterator[Case]:
    private = "PRIVATE " + "KEY"
    for before, key in (
        ("deploy key:\n", pem(f"RSA {private}")),
        ("", pem(f"OPENSSH {private}", 5)),
        ("私钥如下 ", pem(private)),
        ("ec ", pem(f"EC {private}", 2)),
        ("my PGP key ", pem(f"PGP {private} BLOCK", 4)),
        ("cut off: ", pem(f"ENCRYPTED {private}", 2, end=False)),
    ):
        yield Case("private_key", before + key, key)


def _tokens() -> Iterator[Case]:
    header = {"alg": "HS256", "typ": "JWT"}
    basic = base64.b64encode(b"ann:" + body(12).encode()).decode()
    for text, token in (
        ("session {} until noon", jwt(header, {"sub": "ann", "exp": 1893456000})),
        ("登录后得到 {}。", jwt({"alg": "RS256", "kid": "7"}, {"sub": "12"})),
        ("Authorization: Bearer {}", body(40)),
        ("curl -H 'authorization: token {}' localhost", body(32, URL_SAFE)),
        ("Authorization: Basic {}", basic),
        ("token = {}", body(40, HEX)),
        ("refresh_token: {}", body(64, URL_SAFE)),
        ('"access_token": "{}"', body(36)),
        ("client secret: {}", body(32)),
        ("访问令牌为 {}", body(48)),
        ("export SECRET={}", body(50)),
        ("CSRF_TOKEN => '{}'", body(32, HEX)),
    ):
        yield Case("token", text.format(token), token)


def _passwords() -> Iterator[Case]:
    for text, password in (
        ("password = {}", "Tr0ub4" + "dor&3"),
        ("The password is {}", "hunt" + "er2024"),
        ("Wifi password: {} (guests)", "Blau7" + "Fuchs"),
        ("DB_PASSWORD='{}'", "k3tt" + "le!attic"),
        ('{{"user": "ann", "password": "{}"}}', "sword" + "fish"),
        ("pwd: {}", "q7W#" + "n2Lp"),
        ("login ann / pass: {}", "Riga" + "2019!"),
        ("The password for the depot door is {}", "8264" + "19"),
        ("passphrase -> {}", "moss_" + "42_lamp"),
        ("postgres://ann:{}@db.example.org:5432/depot", "s3c" + "r3tPw"),
        ("clone https://bob:{}@git.example.org/x.git", body(20)),
        ("redis://:{}@cache:6379/0", "r3d" + "isPass"),
        ("密码：{}", "Huo" + "guo888"),
        ("密码是{}，不要告诉别人", "lan" + "tian_99"),
        ("WiFi密码{}", "Abc1" + "2345678"),
        ("门锁密码改成了 {}", "73" + "19"),
        ("口令是{}", "Zhima" + "2026"),
        ("邮箱的授权码为 {}", "a9k2" + "m4x7q1"),
        ("服务器口令: {}", "root@" + "2026#"),
        ("登录密码（测试环境）：{}", "Test" + "env#77"),
        ("The new passcode was {}.", "4810" + "2277"),
        ("Server=db;User Id=sa;Password={};Encrypt=true", "P@ss" + "w0rd9"),
        ("保险箱密码现在是{}。", "60" + "2214"),
        ("mysql 的 password 是 {}", "My5ql" + "_root"),
    ):
        yield Case("password", text.format(password), password)


def _numbers() -> Iterator[Case]:
    visa, master, union = (
        luhn("453201511283036"),
        luhn("555812344321987"),
        luhn("622202100112345678"),
    )
    for text, card in (
        ("Ann's card is {}", visa),
        ("card {} exp 12/28", grouped(visa)),
        ("Mastercard {}", grouped(master, "-")),
        ("工资卡号{}，工商银行", union),
        ("银行卡 {}", grouped(union)),
        ("amex 3{} pays for it", "782 " + "822463 " + luhn("37828224631000")[10:]),
        ("卡号：{}", wide(master)),
        ("JCB {} in the drawer", luhn("353011133330000")),
    ):
        yield Case("card", text.format(card), card)
    female, male = identity("11010519491231002"), identity("44052419800101001")
    for text, number in (
        ("李雷的身份证号是{}", male),
        ("身份证 {} 已登记", identity("31011519991122445")),
        ("ID card {} (Han Meimei)", female),
        ("证件号码：{}", wide(identity("51010719870605123"))),
        ("居民身份证{}", identity("62010219931015306")),
        ("id {} checked", " ".join((female[:6], female[6:14], female[14:]))),
    ):
        yield Case("identity", text.format(number), number)
    for text, phone in (
        ("李雷的手机号是{}", "138" + "12345678"),
        ("call +86 {} after six", "139" + " 1234 " + "5678"),
        ("电话：{}", "186-" + "0012-" + "3456"),
        ("联系人韩梅梅（{}）", "+86" + "15900001111"),
        ("手机{}，微信同号", wide("177" + "01234567")),
        ("Ann's number is {}", "+44 20 " + "7946 0958"),
        ("Bob: {}", "+1 (415) " + "555-0132"),
        ("Riga office {}", "+371 " + "6700 1234"),
        ("ring {} in Berlin", "+49" + "30901820"),
        ("tel:{}", "+33 1 " + "42 68 53 00"),
    ):
        yield Case("phone", text.format(phone), phone)


SECRETS = [*_api_keys(), *_private_keys(), *_tokens(), *_passwords(), *_numbers()]

# --- Without one -----------------------------------------------------------------------

INNOCENT = [
    # hashes, ids and code that look random
    f"commit {body(40, HEX)} fixed it",
    f"bisect says {body(7, HEX)}",
    f"sha256:{body(64, HEX)}",
    f"md5 {body(32, HEX)}  depot.tar.gz",
    f"image depot@sha256:{body(64, HEX)}",
    f"etag W/{body(32, HEX)}",
    f"integrity sha512-{body(86, MIXED + '+/')}==",
    "session 550e8400-e29b-41d4-a716-446655440000",
    "uuid 6ba7b810-9dad-11d1-80b4-00c04fd430c8 is the namespace",
    "chunk_20261130T093709123Z_9f8c2d1e7b6a was superseded",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4",
    "data:image/jpeg;base64,/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQE",
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{body(43)} ann@depot",
    f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{body(200)}",
    f"bitcoin address bc1q{body(38, '023456789acdefghjklmnpqrstuvwxyz')}",
    f"ipfs Qm{body(44)}",
    f"youtube.com/watch?v={body(11)}",
    f"https://docs.google.com/document/d/{body(44, URL_SAFE)}/edit",
    f"node_modules/.pnpm/react@18.2.0_{body(26, HEX)}",
    f"layer {body(12, HEX)} pulled",
    f"trace id {body(32, HEX)}, span {body(16, HEX)}",
    "class AbstractSingletonProxyFactoryBean2",
    "the branch is feature/sk-learn-pipelines-for-the-2024-release",
    "sk-SK is the locale of Slovakia, sk-learn the library",
    "pip install scikit-learn-extra-wheels-2024",
    "mac address 00:1B:44:11:3A:B7",
    "font Inter-SemiBold-Italic-v3.19.woff2",
    "s3://depot-backups-eu-west-1/2026/11/30/memory-db-snapshot.tar.zst",
    "arn:aws:iam::123456789012:role/depot-reader",
    "kubectl get pod depot-api-7d9f8b6c5d-x2v4q",
    # orders, parcels, articles and accounts that are no cards and no phones
    "order 20261130123456789",
    "order number 17612345678 arrives tomorrow",
    "订单号：13912345678，周五发货",
    "淘宝订单 3912345678901234567 已签收",
    "微信支付单号 4200001234202611301234567890",
    "支付宝交易号 2026113022001412345678901234",
    "快递单号 SF1390123456789",
    "顺丰 SF3012345678901 在路上",
    "京东 JDVA12345678901",
    "UPS 1Z999AA10123456784",
    "USPS 9400 1000 0000 0000 0000 00",
    "FedEx 612999123456",
    "DHL JD014600003SE",
    "tracking number 18812345678",
    "invoice 2026-004417 is paid",
    "invoice no 15012345678",
    "ISBN 978-3-16-148410-0",
    "ISBN 9787111128069 是那本书",
    "EAN 4006381333931 is a pen",
    "IMEI 356938035643809",
    "VIN 1HGCM82633A004352",
    "customer 100200300400500",
    "batch 20261130-00017",
    "QQ 群 123456789",
    "微信号 depot_riga_88",
    "统一社会信用代码 91310000MA1FL2345X",
    "航班 CA1831 10:30 起飞",
    "train ICE 1601, seat 45, coach 7",
    "Discord id 175928847299117063",
    "tweet https://x.com/depot/status/1729384756102938475",
    "bilibili BV1xx411c7mD",
    "case number 2026-CV-00123",
    "patent US 10,123,456 B2",
    "barcode 6901234567892",
    "snowflake 1541815603606036480",
    # stocks
    "sh600089 build at 18.96",
    "600519.SH 贵州茅台 1688.00",
    "000001.SZ 平安银行",
    "sz300750 宁德时代 加仓 200 股",
    "0700.HK at 388.20",
    "AAPL 189.98 +1.2%",
    "600089 建仓 18.96，止损 17.50",
    "BTC 67,123.45 USD",
    "成交量 1388123456 股",
    "市值 13812345.67 万元",
    # times
    "2026-07-01",
    "2026-11-30T09:37:09.123456+08:00",
    "20261130093709",
    "timestamp 1764495429",
    "timestamp 1764495429123 ms",
    "1764495429123456789 ns since 1970",
    "on 30/11/2026 at 09:37:09",
    "2026年11月30日 9点37分",
    "from 2026-07-01 08:00 to 2026-07-05 18:30",
    "cron 0 3 * * 1-5",
    "uptime 13 days 04:12:55",
    "log_2026-11-30_09-37-09_000123.txt",
    "+20261130093709 in the diff",
    "GMT+0800",
    # numbers of all sorts
    "192.168.178.23",
    "10.0.0.0/8 and 172.16.0.0/12",
    "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
    "version 1.18.3-rc.2+build.20261130",
    "Python 3.12.4, SQLite 3.51.3",
    "Chrome/126.0.6478.127 Safari/537.36",
    "56.9496 N, 24.1052 E",
    "31.230416,121.473701",
    "lat 39.90419989, lon 116.40739950",
    "¥13,812,345,678 元",
    "总价 12800 元，首付 3840 元",
    "pi is 3.14159265358979323846",
    "0.13812345678 of the mass",
    "2^64 = 18446744073709551616",
    "1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144",
    "+12% to +15%",
    "+1000000 users",
    "邮编 200120",
    "room 1381-2345",
    "11 0105 1949 1231 002",
    "110105199013310024 不是身份证号",
    "4111 1111 1111 1112 fails the check",
    f"{luhn('622202100112345678')[:-1]}0 校验位不对",
    # sentences about secrets
    "The password is changed monthly.",
    "the password is stored in 1Password",
    "Password: required",
    "password: min 8 characters, one digit",
    "password policy: rotate every 90 days",
    "The password for the admin panel is changed every 90 days.",
    "passwords are hashed with bcrypt",
    "the password is SHA256-hashed and salted",
    "password: PBKDF2-HMAC, 600000 rounds",
    "She forgot her password again and reset it on Monday.",
    "Ask Bob for the wifi password.",
    "The passphrase is long and only Ann knows it.",
    "Never put an API key into the repository",
    "api key: see the vault",
    "The API key is in the team's vault under depot/prod.",
    "The token expires after 3600 seconds",
    "token budget: 128000",
    "tokens: 8192 in, 1024 out",
    "max_tokens = 4096",
    "The secret is patience.",
    "secret: depot-tls-cert in the namespace prod",
    "secret santa is on 2026-12-20",
    "Bearer tokens are checked on every path",
    "bearer authentication-with-rotation",
    "Basic knowledge of SQL is enough; basic training on Monday",
    "The private key is on the YubiKey",
    "A file that begins with -----BEGIN PRIVATE KEY----- must not be stored",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
    "JWTs begin with eyJ and have three parts",
    "credentials: ask the owner",
    "primary key: id, foreign key: depot_id",
    "key: value pairs in YAML",
    "keyboard layout: us-intl-2024",
    "compass: 270 degrees; bypass: open",
    "pass: 1184, fail: 3, skipped: 27",
    "pwd: /home/me/depot",
    "PWD=/srv/depot",
    "test_password_is_refused_2024 failed",
    "password_hash: argon2id",
    "password123 ist das häufigste Kennwort",
    "密码每月更换",
    "密码由管理员负责，每 90 天更换一次",
    "密码是8位以上的字母和数字",
    "密码为空时不允许登录",
    "密码长度：8-16位",
    "密码强度要求提高了",
    "密码学是2026年的课程",
    "密码2026年统一更新",
    "密码：见 1Password",
    "密码是用SHA256加密的",
    "忘记密码请找李雷",
    "口令是什么，谁也不知道",
    "口令红包 20 元",
    "密钥长度为2048位",
    "密钥由运维保管，不写进文档",
    "令牌有效期为 3600 秒",
    "私钥存放在硬件里",
    "授权码10分钟内有效",
    "手机号码不要写进记忆里",
    "电话打不通，明天再试",
    "身份证下个月到期，要去派出所换",
    "银行卡丢了，已经挂失",
    "信用卡账单日是每月 5 号",
    # code and placeholders
    'password = os.environ["DB_PASSWORD"]',
    "password = getpass.getpass()",
    "const token = process.env.GITHUB_TOKEN",
    "api_key=YOUR_API_KEY",
    "api_key: <your key here>",
    "API_KEY=${API_KEY}",
    "PASSWORD=$DB_PASSWORD",
    "password: {{ vault_db_password }}",
    'password: "********"',
    "token: xxxxxxxxxxxxxxxxxxxxxxxx",
    "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxx",
    "use sk-your-api-key-here-0000 as the key",
    "AKIA" + "IOSFODNN7EXAMPLE is the example of the manual",
    "def login(user: str, password: str) -> Token:",
    "password=self.config.db_password, token=args.token2",
    "if password == confirm_password:",
    "postgres://user:password@localhost/db",
    "https://user:${PASSWORD}@example.org",
    "ssh://git@github.com:22/depot/depot.git",
    "http://localhost:8086/mcp?mail=ann@example.org",
    'label.password = "Password"',
    '<input type="password" name="password">',
    "密码：****",
    "ghp_" + "x" * 36 + " 只是示例",
    "password=[redacted: password], key [redacted: api_key]",
]
