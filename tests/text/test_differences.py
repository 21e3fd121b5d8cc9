"""Texts that read alike and state different facts, and texts that only say it another way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text.differences import difference, read

DIFFERENT = [
    # Numbers.
    ("The database listens on port 5432.", "The database listens on port 5433.", "number"),
    ("数据库端口是5432", "数据库端口是5433", "number"),
    ("The team has three members", "The team has four members", "number"),
    ("团队有三个人", "团队有四个人", "number"),
    ("团队有三个人", "The team has five people", "number"),
    ("The budget is 1,000 dollars", "The budget is 10,000 dollars", "number"),
    ("预算是3万元", "预算是5万元", "number"),
    ("预算是三万元", "预算是三千元", "number"),
    ("Rates went to 4.5%", "Rates went to 4.75%", "number"),
    ("仓位占百分之二十", "仓位占百分之三十", "number"),
    ("build at 18.96", "build at 18.69", "number"),
    ("The trial lasts 3 days", "The trial lasts 3 weeks", "number"),
    ("试用期三天", "试用期三周", "number"),
    ("She owns one cat", "She owns two cats", "number"),
    ("他有一台服务器", "他有两台服务器", "number"),
    ("The second attempt worked", "The third attempt worked", "number"),
    ("第二个方案通过", "第三个方案通过", "number"),
    ("He pays $20 a month", "He pays €20 a month", "number"),
    ("The temperature is -5 degrees", "The temperature is 5 degrees", "number"),
    ("twenty-one people came", "twenty-two people came", "number"),
    ("The meeting takes two hours", "会议要三个小时", "number"),
    ("The dose is 5 mg", "The dose is 5 g", "number"),
    ("半年后复查", "一年后复查", "number"),
    ("The price went from 3 to 5", "The price went from 5 to 3", "number"),
    ("价格从3元涨到5元", "价格从5元涨到3元", "number"),
    (f"The account is {'7' * 40}1", f"The account is {'7' * 40}2", "number"),
    # Dates and times.
    ("The release is on 2026-07-01", "The release is on 2026-07-02", "date"),
    ("The release is on July 1", "The release is on July 2", "date"),
    ("生日是3月5日", "生日是3月6日", "date"),
    ("生日是三月五日", "Her birthday is March 6", "date"),
    ("He arrives tomorrow", "He arrives today", "date"),
    ("明天开会", "昨天开会", "date"),
    ("明天开会", "The meeting was yesterday", "date"),
    ("They moved last year", "They moved this year", "date"),
    ("去年搬家", "今年搬家", "date"),
    ("The trip is in May", "The trip is in June", "date"),
    ("会议在上午", "会议在下午", "date"),
    ("The call is at 3 am", "The call is at 3 pm", "date"),
    ("The call is at 15:00", "The call is at 15:30", "date"),
    ("下午三点开会", "下午四点开会", "date"),
    ("下午三点开会", "Meeting at 2pm", "date"),
    ("上周五交的报告", "下周五交的报告", "date"),
    ("He leaves today", "He leaves tonight", "date"),
    # Weekdays.
    ("The depot opens on Friday", "The depot opens on Monday", "weekday"),
    ("Standup is every Tue", "Standup is every Thu", "weekday"),
    ("周会在周五", "周会在周四", "weekday"),
    ("每星期一锻炼", "每礼拜三锻炼", "weekday"),
    ("周五开会", "The meeting is on Monday", "weekday"),
    # Codes.
    ("Runs v1.2 in production", "Runs v1.3 in production", "code"),
    ("Upgraded to version 3.11.2", "Upgraded to version 3.11.4", "code"),
    ("Holds AAPL in the account", "Holds MSFT in the account", "code"),
    ("The ticket is ABC-123", "The ticket is ABC-124", "code"),
    ("持有sh600089", "持有sh600090", "code"),
    ("持有sh600089", "持有sz600089", "code"),
    ("The file is /etc/hosts", "The file is /etc/passwd", "code"),
    ("Docs at https://example.com/a", "Docs at https://example.com/b", "code"),
    ("Write to ann@example.com", "Write to bob@example.com", "code"),
    ("Fixed in commit 3f2a9bc", "Fixed in commit 3f2a9bd", "code"),
    ("Meet in room A1", "Meet in room A2", "code"),
    ("The host is 10.0.0.1", "The host is 10.0.0.2", "code"),
    ("入口文件是main.py", "入口文件是server.py", "code"),
    ("The board uses an ESP32", "The board uses an ESP8266", "code"),
    ("US users get it first", "UK users get it first", "code"),
    ("She chose plan A", "She chose plan B", "code"),
    ("选了方案A", "选了方案B", "code"),
    # Negations and opposites.
    ("She does eat meat", "She does not eat meat", "negation"),
    ("He doesn't smoke", "He does smoke", "negation"),
    ("He never drinks coffee", "He drinks coffee", "negation"),
    ("The plan works without a key", "The plan works with a key", "negation"),
    ("He no longer works there", "He works there", "negation"),
    ("Deploys cannot be rolled back", "Deploys can be rolled back", "negation"),
    ("他会说德语", "他不会说德语", "negation"),
    ("合同已签", "合同未签", "negation"),
    ("他有车", "他没有车", "negation"),
    ("他喜欢咖啡", "He does not like coffee", "negation"),
    ("别吃药", "吃药", "negation"),
    ("Use Postgres, not MySQL", "Use MySQL, not Postgres", "negation"),
    ("Use port 80, not 8080", "Use port 8080, not 80", "negation"),
    ("用苹果不用香蕉", "用香蕉不用苹果", "negation"),
    ("买入茅台", "卖出茅台", "negation"),
    ("He bought the shares", "He sold the shares", "negation"),
    ("Take it before meals", "Take it after meals", "negation"),
    ("饭前服药，睡觉之前", "饭前服药，睡觉之后", "negation"),
    ("Logging is enabled", "Logging is disabled", "negation"),
    ("The light is on", "The light is off", "negation"),
    ("股价上涨", "股价下跌", "negation"),
    ("Sales increased", "Sales fell", "negation"),
    ("Turn left at the church", "Turn right at the church", "negation"),
    ("允许访问", "禁止访问", "negation"),
    ("他对花生过敏", "他对花生不过敏", "negation"),
    ("数据库开启了备份", "数据库关闭了备份", "negation"),
    ("启用缓存", "The cache is disabled", "negation"),
]

SAME = [
    ("The port is 5432.", "the port is 5432"),
    ("Port: 5432", "Port ５４３２"),
    ("The team has three members", "The team has 3 members"),
    ("团队有三个人", "The team has 3 people"),
    ("The budget is 10,000 dollars", "The budget is $10000"),
    ("预算是3万元", "预算是三万元"),
    ("预算是三万元", "The budget is 30,000 yuan"),
    ("Rates went to 20%", "Rates went to 20 percent"),
    ("仓位占百分之二十", "仓位占20%"),
    ("利率是百分之3.5", "利率是3.5%"),
    ("She owns one cat", "She owns 1 cat"),
    ("She owns a cat", "She owns one cat"),
    ("他有一台服务器", "他有1台服务器"),
    ("The second attempt worked", "第二次尝试成功了"),
    ("twenty-one people came", "21 people came"),
    ("He walked two hundred and thirty km", "He walked 230 km"),
    ("The release is on 2026-07-01", "The release is on July 1, 2026"),
    ("发布日期是2026年7月1日", "The release is on 2026-07-01"),
    ("生日是3月5日", "生日是三月五日"),
    ("Her birthday is March 5", "她的生日是3月5号"),
    ("明天开会", "The meeting is tomorrow"),
    ("去年搬家", "They moved last year"),
    ("Call at 3pm", "Call at 15:00"),
    ("下午三点开会", "Meeting at 3 pm"),
    ("下午三点半开会", "15:30开会"),
    ("周会在周五", "周会在星期五"),
    ("周五开会", "The meeting is on Friday"),
    ("The depot opens on Fri", "The depot opens on Fridays"),
    ("Runs v1.2 in production", "In production runs version 1.2"),
    ("持有sh600089", "Holds 600089.SH"),
    ("持有600089", "持有SH600089"),
    ("The ticket is ABC-123", "The ticket is abc-123."),
    ("She does not eat meat", "She doesn't eat meat"),
    ("Meat she does not eat", "She never eats meat"),
    ("他不会说德语", "He cannot speak German"),
    ("他不吃肉", "他从不吃肉"),
    ("她不同意这个方案", "她不赞成这个方案"),
    ("这家店不错", "这家店很好"),
    ("无论如何他都喜欢猫", "他特别喜欢猫"),
    ("他非常喜欢猫", "他很喜欢猫"),
    ("未来他想当医生", "他想当医生"),
    ("别人也用这个工具", "其他人也用这个工具"),
    ("我们统一用一个工具", "我们都用这个工具"),
    ("试一下这个方案", "试试这个方案"),
    ("他一直住在里加", "他住在里加"),
    ("The user likes green tea", "Green tea is what the user likes"),
    ("User prefers dark mode", "The user prefers DARK mode!"),
    ("USER PREFERS DARK MODE", "user prefers dark mode"),
    ("The servers run in Riga", "The server runs in Riga"),
    ("用户喜欢绿茶", "用户喜欢绿茶。"),
    ("One of the users lives in Riga", "A user lives in Riga"),
    ("他十分喜欢音乐", "他很喜欢音乐"),
    ("他四处旅行", "他到处旅行"),
    ("今晚8点开会", "Meeting tonight at 8 pm"),
    ("明天上午九点出发", "Departure is tomorrow at 9 am"),
    ("工作时间上午九点到下午五点", "Working hours 9am to 5pm"),
    ("他喜欢猫，不过住在里加", "他喜欢猫，住在里加"),
    ("They meet in half a year", "半年后见面"),
    ("这个方案不仅便宜而且快", "这个方案又便宜又快"),
    ("He is unable to swim", "He can't swim"),
    ("", ""),
]

TEXTS = st.text() | st.lists(
    st.sampled_from([word for one, other, _ in DIFFERENT for word in (one, other)]), max_size=3
).map(" ".join)


def differs(one: str, other: str) -> str | None:
    return difference(read(one), read(other))


@pytest.mark.parametrize(("one", "other", "reason"), DIFFERENT)
def test_other_facts_are_told_apart(one: str, other: str, reason: str) -> None:
    assert (differs(one, other), differs(other, one)) == (reason, reason)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_other_words_for_the_same_are_not(one: str, other: str) -> None:
    assert (differs(one, other), differs(other, one)) == (None, None)


@given(TEXTS)
def test_a_text_does_not_differ_from_itself(text: str) -> None:
    assert differs(text, text) is None
    assert differs(text, f"  {text}\n") is None


@given(TEXTS, TEXTS)
def test_two_texts_differ_in_the_same_either_way(one: str, other: str) -> None:
    assert differs(one, other) == differs(other, one)


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "1",
        "一",
        "百",
        "a-",
        "1.",
        "a.",
        "/a",
        " 1",
        "two ",
        "not ",
        "不",
        "周",
        "@",
        "1:",
        "万",
        "hundred ",
    ],
)
def test_a_long_text_of_one_thing_only_is_read_before_the_time_limit_of_a_test(unit: str) -> None:
    text = unit * (5000 // len(unit))
    assert differs(text, text) is None


def test_a_text_that_is_read_once_is_compared_with_many() -> None:
    """That a number is a stock code in one comparison leaves it a number in the next."""
    bare, listed, other = map(read, ("买入 600089", "买入 sh600089", "买入 600090"))
    for _ in range(2):
        assert difference(bare, listed) is None
        assert difference(bare, other) == "number"
        assert difference(listed, other) == "code"
