"""LangGraph on Horae: a saver of checkpoints, and graphs whose interrupts are actions and waits.

Needs the extra ``langgraph``.
"""

from horae.adapters.answers import Answer
from horae.adapters.langgraph.graphs import GraphCognition, act, wait_for
from horae.adapters.langgraph.saver import HoraeSaver

__all__ = ["Answer", "GraphCognition", "HoraeSaver", "act", "wait_for"]
