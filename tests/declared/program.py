"""An application whose declared class runs in a child process."""

import os

from horae import Context, Horae

app = Horae("sqlite:///unset.db", name="program")


class Greeting:
    word = "hello"


app.provide(Greeting, Greeting)


@app.job("greet", cron="0 3 * * *", executor="process")
class Greet:
    def __init__(self, greeting: Greeting, ctx: Context) -> None:
        self.greeting, self.ctx = greeting, ctx

    async def run(self, ctx: Context, name: str = "ann") -> list[object]:
        assert ctx is self.ctx
        return [self.greeting.word, name, ctx.name, os.getpid()]
