# claude_host.py
"""A host of the Claude Agent SDK whose wake-ups survive its process: recorded hook inputs, no SDK, no key, no network.

A real host passes ``hooks=hook_matchers(wake_ups)`` to ``ClaudeAgentOptions`` and resumes with ``resume_session``.
"""

import asyncio
from datetime import timedelta
from typing import Any

from horae import Horae
from horae.adapters.claude import WakeUp, WakeUps
from horae.testing import Lab

RESUMED: list[str] = []

STOP = {  # as the hook gets it at the end of a turn
    "session_id": "0d2c6f0e-5a44-4b0a-9a43-1f7c3a1b5f10",
    "hook_event_name": "Stop",
    "stop_hook_active": False,
    "session_crons": [
        {"id": "a1b2c3d4", "schedule": "*/30 * * * *", "recurring": True, "prompt": "Look whether the build is green."}
    ],
}


async def resume(wake_up: WakeUp) -> str:
    RESUMED.append(wake_up.text)  # a real host: await resume_session(wake_up.session_id, wake_up.text)
    return "ok"


async def main() -> dict[str, Any]:
    app = Horae("sqlite://")
    wake_ups = WakeUps(app, resume, zone="Europe/Athens")
    async with Lab(app) as lab:
        answer = await wake_ups.on_stop(STOP)
        print(answer["systemMessage"])
        await lab.advance(timedelta(minutes=90))
        await wake_ups.on_stop({**STOP, "session_crons": []})
        await lab.advance(timedelta(minutes=90))
        return {"resumed": len(RESUMED), "left": len(wake_ups.of(STOP["session_id"]))}


if __name__ == "__main__":
    print(asyncio.run(main()))
