"""Without the extra that it needs, a public name says which one to install (and is an ImportError, as everywhere)."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("hidden", "statement", "extra"),
    [
        ("httpx", "from horae import Client", "client"),
        ("httpx", "from horae import AsyncClient", "client"),
        ("httpx", "from horae.client import Client", "client"),
        ("httpx", "from horae.outgoing import register", "server"),
        ("cryptography", "from horae.outgoing import register", "server"),
        ("redis", "from horae.stores.limits.redis import RedisCalls", "redis"),
        ("fastapi", "from horae import Horae; Horae('sqlite://').asgi()", "server"),
        ("psycopg", "from horae import Horae; Horae('postgresql://localhost/x').engine", "postgres"),
        ("pymysql", "from horae import Horae; Horae('mysql://localhost/x').engine", "mysql"),
        ("opentelemetry", "from horae.telemetry import OpenTelemetry; OpenTelemetry()", "otel"),
    ],
)
def test_a_name_whose_extra_is_missing_says_which_to_install(hidden: str, statement: str, extra: str) -> None:
    program = (
        f"import sys; sys.modules[{hidden!r}] = None\n"
        "from horae.errors import HoraeError\n"
        f"try:\n    {statement}\n"
        "except ImportError as problem:\n    print(isinstance(problem, HoraeError), problem)\n"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert ended.stdout.startswith("True "), ended.stderr
    assert f"pip install 'horae[{extra}]'" in ended.stdout
