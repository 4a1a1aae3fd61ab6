"""The example agents, run as they are: offline, with no key and no model but scripted ones."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models.function import FunctionModel

AGENTS = Path(__file__).parents[2] / "examples" / "agents"

PLAIN = """\
  reads source 1
  reads source 2
  pages alice
  reads source 3
  reads source 4
t1  - -> created
t1  created -> ready
t1  ready -> running
t2  - -> created
t2  created -> ready
t1  running -> suspended
t2  ready -> running
t2  running -> waiting
t1  suspended -> ready
t1  ready -> running
t1  running -> completed
Alice answers
t2  waiting -> ready
t2  ready -> running
t2  running -> completed
{'sound': True, 'idle': True}
"""


def example(name: str) -> Any:
    found = importlib.util.spec_from_file_location(f"examples_{name}", AGENTS / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_plain_functions_are_interrupted_wait_and_go_on() -> None:
    result = subprocess.run(
        [sys.executable, str(AGENTS / "plain_functions.py")], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == PLAIN


def test_a_pydantic_ai_agent_acts_after_a_person_has_said_so() -> None:
    module = example("pydantic_ai_agent")
    answer = json.loads(module.main(approve=True))
    assert answer == {"answer": "refund: {'receipt': 'r-A-17'}; mail: {'sent': True}"}
    assert [next(iter(each)) for each in module.SENT] == ["refund", "mail"]  # one by one, in the model's order
    assert len({each["key"] for each in module.SENT}) == 2


def test_a_denied_call_reaches_the_model_and_not_the_world() -> None:
    module = example("pydantic_ai_agent")
    answer = json.loads(module.main(approve=False))
    assert "denied by user/olga: within our terms" in answer["answer"]
    assert [next(iter(each)) for each in module.SENT] == ["mail"]


@pytest.mark.parametrize("approve", [True, False])
def test_a_pydantic_ai_agent_goes_on_in_another_process_than_it_began(tmp_path: Path, approve: bool) -> None:
    """Section 3.11: what is kept is the message history, so nothing but the store has to survive."""
    store = f"sqlite:///{tmp_path}/agent.db"
    first = example("pydantic_ai_agent")
    with first.attended(first.support(FunctionModel(first.scripted)), store) as agent:
        agent.add("ticket", {"text": "Order A-17 never came."})
        agent.run(until="idle")
    second = example("pydantic_ai_agent")
    with second.attended(second.support(FunctionModel(second.scripted)), store) as agent:
        (_, (question,)) = agent.snapshot().waiting[0]
        agent.confirm(question.number, approve, actor="user/olga")
        agent.run(until="idle")
        assert agent.snapshot().is_idle
        assert agent.verify().complaints == ()
    assert first.SENT == []
    assert len(second.SENT) == 1 + approve


def test_a_langgraph_agent_waits_for_a_person_and_then_for_an_event() -> None:
    module = example("langgraph_agent")
    assert module.main() == {"sent": 1, "idle": True, "sound": True}


@pytest.mark.parametrize("approve", [True, False])
def test_an_agent_of_the_openai_sdk_acts_only_after_a_person_has_said_so(approve: bool) -> None:
    module = example("openai_agent")
    assert module.main(approve) == {"sent": int(approve), "idle": True, "sound": True}


async def test_a_durable_pydantic_ai_agent_repeats_no_call_in_its_second_attempt() -> None:
    module = example("durable_pydantic_ai")
    answer = await module.main()
    assert answer == {"answer": "It is sunny.", "attempts": 2, "done": ["request", "weather in Athens", "request"]}


async def test_wake_ups_of_a_claude_session_resume_it_until_the_session_drops_them() -> None:
    module = example("claude_host")
    assert await module.main() == {"resumed": 3, "left": 0}


async def test_a_push_notification_of_an_a2a_server_arrives_when_its_receiver_is_back() -> None:
    module = example("a2a_push")
    assert await module.main() == {"received": 2, "state": "succeeded"}
