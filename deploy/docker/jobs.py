"""The jobs that the worker of compose.yaml runs: the built-in ones, and yours."""

from horae import Horae
from horae.outgoing import register

app = Horae()
register(app)


@app.job("hello")
def hello(name: str = "world") -> str:
    """Enqueue it with: horae job enqueue hello --arg name=you"""
    return f"Hello, {name}."
