"""The sentences of errors about adapters of agent frameworks, by reason."""

ERRORS = {
    "adapter_extra_missing": "This adapter needs a framework that is not installed ({problem}). Run: pip install "
    "'horae[{extra}]'",
    "cloudevent_data_not_json": "A webhook carries JSON, and the data of this event are bytes. Send it in "
    "structured mode.",
    "cloudevent_unreadable": "This is no CloudEvent of version 1.0: {problem}.",
    "checkpoint_type_refused": "A checkpoint holds a value of the class {type}, and reading it would import and call "
    "that. If it is yours, name it: HoraeSaver(app, types=[…]).",
    "durable_needs_context": "durable(…) takes the context of a job, the step of an action or a turn, not {type}.",
    "graph_without_checkpointer": "The graph has no checkpointer, so an interrupt could not be resumed. Compile it "
    "with checkpointer=HoraeSaver(app).",
    "saver_would_pickle": "A serialiser that pickles is refused: reading such a checkpoint can run code. Use "
    "JsonPlusSerializer(pickle_fallback=False), or none.",
    "tool_outside_cognition": "The tool {tool!r} is an action of an agent and was called outside its lane, so it has "
    "not run. Run the agent by AgentCognition.",
}
