"""智能体框架适配器的错误句子，按原因排列。"""

ERRORS = {
    "adapter_extra_missing": "此适配器需要的框架没有安装（{problem}）。请运行：pip install 'horae[{extra}]'",
    "cloudevent_data_not_json": "webhook 携带 JSON，而此事件的数据是字节。请以 structured 模式发送。",
    "cloudevent_unreadable": "这不是 1.0 版的 CloudEvent：{problem}。",
    "checkpoint_type_refused": "检查点中有类 {type} 的值，读取它会导入并调用该类。如果这是您自己的类，请写明："
    "HoraeSaver(app, types=[…])。",
    "durable_needs_context": "durable(…) 需要任务的上下文、动作的 step 或轮次，而不是 {type}。",
    "graph_without_checkpointer": "此图没有 checkpointer，中断后无法恢复。请用 checkpointer=HoraeSaver(app) 编译。",
    "saver_would_pickle": "拒绝使用会 pickle 的序列化器：读取这样的检查点可能执行代码。请使用 "
    "JsonPlusSerializer(pickle_fallback=False)，或不指定。",
    "tool_outside_cognition": "工具 {tool!r} 是智能体的动作，却在通道之外被调用，因此没有运行。请通过 "
    "AgentCognition 运行。",
}
