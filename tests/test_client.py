"""MneloClient against the real server."""

import gc
import inspect
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from config import Config
from mnelo_client import MneloClient, MneloError, MneloUnavailable
from serving import ROOT, Served, serving
from validation import contract

TOKEN = "s3cret-of-the-tests"  # noqa: S105

USERS_EXAMPLE = """\
import sys; sys.path.insert(0, 'api')
from mnelo_client import MneloClient
c = MneloClient()
c.remember('sh600089 build at 18.96', source='trading', importance=0.9)
for h in c.recall('sh600089 建仓', top_k=5):
    print(h['method'], h['chunk_id'], h['content'][:60])
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server with a token, for all tests that leave it as it is."""
    with serving(tmp_path_factory.mktemp("served"), MNELO_AUTH_TOKEN=TOKEN) as served:
        yield served


@pytest.fixture(params=["/sse", "/mcp"])
def client(server: Served, request: pytest.FixtureRequest) -> Iterator[MneloClient]:
    with MneloClient(server.url + request.param, TOKEN) as opened:
        yield opened


def write_token(home: Path) -> None:
    file = home / ".config/mnelo/auth_token"
    file.parent.mkdir(parents=True)
    file.write_text(TOKEN + "\n")


def run_python(code: str, folder: Path) -> str:
    """What a program prints that has its own process and makes an error of any warning."""
    command = [sys.executable, "-W", "error", "-c", code]
    ran = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=30, check=False, cwd=folder
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


# --- The user's example ----------------------------------------------------------------


def test_the_users_example_works_and_ends_in_silence(server: Served, tmp_path: Path) -> None:
    """Word for word, but for the port: a test cannot count on 8086."""
    write_token(tmp_path)
    code = USERS_EXAMPLE.replace("MneloClient()", f"MneloClient({server.url + '/sse'!r})")

    printed = run_python(code, ROOT)

    method, chunk_id, content = printed.splitlines()[0].split(" ", 2)
    assert method in ("vector", "graph", "meta", "entity")
    assert chunk_id.startswith("chunk_")
    assert content == "sh600089 build at 18.96"


def test_the_default_is_the_servers_default() -> None:
    default = inspect.signature(MneloClient).parameters["sse_url"].default

    assert default == f"http://127.0.0.1:{Config.load({}).server_port}/sse"


def test_the_file_works_alone_in_any_folder(tmp_path: Path) -> None:
    shutil.copy(ROOT / "api" / "mnelo_client.py", tmp_path)
    code = "import mnelo_client; mnelo_client.MneloClient(); print(mnelo_client.__file__)"

    assert run_python(code, tmp_path).strip() == str(tmp_path / "mnelo_client.py")


# --- The seven methods -----------------------------------------------------------------


def test_each_method_returns_what_its_caller_needs(client: MneloClient) -> None:
    chunk_id = client.remember(
        "The Riga depot opens on Mondays", tags=["depot"], entities=["riga-depot"]
    )
    relation_id = client.relate("riga-depot", "latvia", "located_in")
    new_id = client.update(chunk_id, "The Riga depot opens on Fridays")
    hits = client.recall("Riga depot", top_k=1)
    graph = client.graph_query("riga-depot", max_hops=1)

    assert hits[0]["chunk_id"] == new_id != chunk_id
    assert hits[0]["content"] == "The Riga depot opens on Fridays"
    assert isinstance(relation_id, int)
    assert {node["id"] for node in graph["nodes"]} >= {"riga-depot", "latvia"}
    assert client.forget(new_id)["forgotten"] == 1
    assert client.forget(str(relation_id), target_kind="relation")["forgotten"] == 1
    assert "chunks" in client.stats()


def test_the_arguments_and_defaults_are_those_of_the_tools() -> None:
    tools = contract(Config.load({}))
    for name, fields in tools.tools.items():
        method = getattr(MneloClient, name.removeprefix("memory_"))
        parameters = dict(inspect.signature(method).parameters)
        del parameters["self"]
        assert list(parameters) == list(fields.fields), name
        for argument, field in fields.fields.items():
            default = parameters[argument].default
            assert (default is inspect.Parameter.empty) == field.required
            if not field.required and not callable(field.default) and default != "":
                assert default == field.default, f"{name}.{argument}"


def test_the_tools_own_sentence_is_the_errors_text(client: MneloClient) -> None:
    with pytest.raises(MneloError) as refusal:
        client.recall("anything at all", top_k=1000)

    assert str(refusal.value) == "top_k must be a whole number from 1 to 100, not 1000."
    assert not isinstance(refusal.value, MneloUnavailable)


def test_a_request_that_is_too_large_says_so_and_the_next_one_works(client: MneloClient) -> None:
    """Over SSE it was refused unseen, and the call waited for its time-out."""
    start = time.monotonic()

    with pytest.raises(MneloError, match="larger than mnelo at http"):
        client.remember("x" * (2 << 20))

    assert time.monotonic() - start < 5
    assert client.recall("x") is not None


def test_threads_may_share_one_client(client: MneloClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda n: client.remember(f"{id(client)} {n}"), range(24)))

    assert len(set(ids)) == 24


# --- The token -------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["MNELO_AUTH_TOKEN", "MNEOLO_AUTH_TOKEN"])
@pytest.mark.parametrize("path", ["/sse", "/mcp"])
def test_the_token_is_found_in_the_variables_that_the_server_reads(
    server: Served, monkeypatch: pytest.MonkeyPatch, path: str, variable: str
) -> None:
    monkeypatch.setenv(variable, TOKEN)

    with MneloClient(server.url + path) as client:
        assert "chunks" in client.stats()


def test_the_token_is_found_in_the_file_that_the_server_reads(
    server: Served, tmp_path: Path
) -> None:
    write_token(tmp_path)

    with MneloClient(server.url + "/sse") as client:
        assert "chunks" in client.stats()


@pytest.mark.parametrize("path", ["/sse", "/mcp"])
@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_wrong_token_is_told_where_the_right_one_goes(
    server: Served, path: str, token: str | None
) -> None:
    with (
        MneloClient(server.url + path, token) as client,
        pytest.raises(MneloUnavailable, match=r"wants another token; .*MNELO_AUTH_TOKEN"),
    ):
        client.stats()


# --- A server that is away -------------------------------------------------------------


def test_a_client_goes_on_after_the_server_was_restarted(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        clients = [MneloClient(server.url + path) for path in ("/sse", "/mcp")]
        written = [client.remember("written before the restart") for client in clients]
        assert server.end() == 0
    with serving(tmp_path, "--port", str(server.port)):
        for client in clients:
            with client:
                assert [hit["chunk_id"] for hit in client.recall("restart")] == written[:1]
                assert client.remember("written before the restart") == written[0] == written[1]


@pytest.mark.parametrize("path", ["/sse", "/mcp"])
def test_no_server_is_one_clear_line_with_the_url(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}{path}"
        with MneloClient(url) as client, pytest.raises(ConnectionError) as error:
            client.stats()

    assert isinstance(error.value, MneloUnavailable)
    assert str(error.value).startswith(f"mnelo at {url} cannot be reached: ")
    assert "\n" not in str(error.value)


def test_a_server_that_stays_silent_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/sse"
        start = time.monotonic()
        with (
            MneloClient(url, timeout=0.3) as client,
            pytest.raises(MneloUnavailable, match=r"has not answered within 0\.3 s"),
        ):
            client.stats()
        assert time.monotonic() - start < 3


def test_a_closed_client_says_so_and_may_be_closed_again(server: Served) -> None:
    client = MneloClient(server.url + "/sse", TOKEN)
    client.stats()

    client.close()
    client.close()

    assert _threads() == []
    with pytest.raises(MneloError, match="This MneloClient is closed"):
        client.stats()


def test_a_client_that_nobody_holds_any_more_closes_itself(server: Served) -> None:
    client: MneloClient | None = MneloClient(server.url + "/sse", TOKEN)
    assert _threads() != []

    client = None
    gc.collect()

    assert (client, _threads()) == (None, [])


def _threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "mnelo-client"]


def test_closing_ends_a_call_that_another_thread_waits_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        client = MneloClient(f"http://127.0.0.1:{silent.getsockname()[1]}/sse", timeout=20)
        waiting = pool.submit(client.stats)
        with silent.accept()[0]:
            client.close()
            with pytest.raises(MneloError):
                waiting.result(5)


def test_the_client_speaks_chinese_where_its_reader_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNELO_MEMORY_LANG", "zh_CN")
    client = MneloClient()
    client.close()

    with pytest.raises(MneloError, match="此 MneloClient 已关闭"):
        client.stats()
