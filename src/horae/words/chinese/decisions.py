"""The Chinese of :mod:`horae.words.decisions`: the same keys and placeholders."""

ERRORS = {
    "action_text_outside": "动作用 1 到 {most} 个字符描述。请写明要做什么。",
    "boundary_text_outside": "边界是一段 {least} 到 {most} 个字符的文字，会在智能体所做的事情里查找。",
    "boundary_unreadable": "边界是一段文字，或带有 text 和 effect 的对象；effect 是 {effects} 之一。",
    "cite_unreadable": "{given} 不是对受治理对象的引用。请写明类型和标识，"
    "例如 memory:mem_ab12cd34ef56；类型有 {kinds}。",
    "cites_too_many": "引用了 {count} 个对象；最多引用 {most} 个。",
    "cites_unreadable": "cites 应是引用的列表，例如 memory:mem_ab12cd34ef56，而不是 {given}；类型有 {kinds}。",
    "decision_cites_decision": "决定依据的是对象，而 {cite} 是决定。请引用那个决定所依据的对象。",
    "decision_unknown": "没有决定 {id!r}；`horae decide list` 会列出现有的决定。",
    "erase_not_confirmed": "没有抹除任何内容。抹除无法撤销，请输入标识 {id} 以确认。",
    "erase_one_of": "请给出对象的标识或主题，二者选一。",
    "governed_reason_outside": "原因、备注或问题最多 {most} 个字符。请缩短。",
    "object_unknown": "没有 {kind} {id!r}。",
    "persona_list_unreadable": "人格的 {name} 是一个列表，最多 {most} 项。",
    "persona_unknown": "智能体 {agent!r} 没有人格；可用 `horae persona set` 设置。",
    "persona_version_old": "{agent!r} 的人格版本是 {version}，不是 {expected}。请重新读取后再修改。",
    "question_missing": "复核需要一个人能回答的问题。",
    "review_answered": "复核 {id} 已结束：{answer}，由 {answered_by} 给出。以那个答复为准。",
    "review_during_rollback": "该智能体的回滚尚未完成，不能批准复核 {id}。请稍后再答复。",
    "review_ground_refuted": "不能批准复核 {id}：它的依据已被驳倒。请拒绝它。",
    "review_of_ones_own": "复核 {id} 所涉及的内容由 {actor} 提出或决定。请由另一个人答复。",
    "review_timed_out": "复核 {id} 到 {deadline} 仍未得到答复，已搁置。请重新提问。",
    "review_unknown": "没有复核 {id!r}；`horae review list` 会列出现有的复核。",
    "rollback_unknown": "没有回滚 {id!r}。",
}

# 动作为何等待：它所引用的内容目前不可依赖。
WHY = {
    "cite_contested": "{cite} 有争议",
    "cite_never_verified": "{cite} 从未核实",
    "cite_not_active": "{cite} 的状态是 {state}，不是 active",
    "cite_not_granted": "{cite} 的结果是 {outcome}",
    "cite_rolled_back": "{cite} 已被回滚",
    "cite_verified_long_ago": "{cite} 上次核实于 {verified_at}，已超过 {age:span}",
}
