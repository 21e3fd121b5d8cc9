"""Every sentence a person reads, in each language. A new language is one more key per line.

A sentence that is missing in a language is said in English; one that is missing altogether
shows its id, so that it can be found.
"""

MESSAGES: dict[str, dict[str, str]] = {
    # --- settings ---
    "config.wrong": {
        "en": "Setting {key} is {value!r}; allowed: {allowed}.",
        "zh": "设置 {key} 的值为 {value!r}；允许：{allowed}。",
    },
    "config.unknown": {
        "en": "{file}: there is no setting {key}; config.toml.example lists them all.",
        "zh": "{file}：没有名为 {key} 的设置；全部设置见 config.toml.example。",
    },
    "config.unreadable": {
        "en": "{file} cannot be read as TOML: {error}.",
        "zh": "无法按 TOML 读取 {file}：{error}。",
    },
    "config.missing": {
        "en": "MNELO_MEMORY_CONFIG names {file}, which does not exist.",
        "zh": "MNELO_MEMORY_CONFIG 指向的 {file} 不存在。",
    },
    # --- arguments ---
    "input.wrong": {
        "en": "{name} must be {wanted}, not {got}.",
        "zh": "{name} 必须是{wanted}，而不是 {got}。",
    },
    "input.missing": {"en": "{name} is missing.", "zh": "缺少 {name}。"},
    "input.blank": {
        "en": "{name} is blank; it needs some text.",
        "zh": "{name} 为空；需要一些文字。",
    },
    "input.long": {
        "en": "{name} is {size} bytes long; at most {limit} are allowed.",
        "zh": "{name} 长 {size} 字节；最多允许 {limit} 字节。",
    },
    "input.chars": {
        "en": "{name} is {size} characters long; at most {limit} are allowed.",
        "zh": "{name} 长 {size} 个字符；最多允许 {limit} 个。",
    },
    "input.items": {
        "en": "{name} has {size} items; at most {limit} are allowed.",
        "zh": "{name} 有 {size} 项；最多允许 {limit} 项。",
    },
    "input.control": {
        "en": "{name} has a control or invisible character; only printable ones are allowed.",
        "zh": "{name} 含有控制字符或不可见字符；只允许可打印字符。",
    },
    "input.json": {
        "en": "{name} must be plain JSON: no NaN, no infinity, not too deep.",
        "zh": "{name} 必须是普通 JSON：不含 NaN 或无穷大，嵌套不能过深。",
    },
    "input.unknown": {
        "en": "{name} does not know {unknown}; allowed: {allowed}.",
        "zh": "{name} 不认识 {unknown}；允许：{allowed}。",
    },
    "wanted.text": {"en": "text", "zh": "文字"},
    "wanted.number": {
        "en": "a number from {low:g} to {high:g}",
        "zh": "{low:g} 到 {high:g} 之间的数",
    },
    "wanted.integer": {
        "en": "a whole number from {low} to {high}",
        "zh": "{low} 到 {high} 之间的整数",
    },
    "wanted.flag": {"en": "true or false", "zh": " true 或 false"},
    "wanted.choice": {"en": "one of {options}", "zh": "以下之一：{options}"},
    "wanted.time": {
        "en": "an ISO 8601 time such as 2026-07-01 or 2026-07-01T10:00:00+08:00",
        "zh": " ISO 8601 时间，例如 2026-07-01 或 2026-07-01T10:00:00+08:00",
    },
    "wanted.list": {"en": "a list", "zh": "列表"},
    "wanted.object": {"en": "an object", "zh": "对象"},
}
