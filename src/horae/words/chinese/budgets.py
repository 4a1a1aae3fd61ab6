"""Chinese for :mod:`horae.words.budgets`."""

ERRORS = {
    "adjust_below_zero": "{budget} 在本周期内已使用 {settled}；不能修正 {amount}。",
    "adjust_reason_missing": "请说明为何修正 {budget}：reason=…，或命令行上的 --reason。",
    "amount_unreadable": "{text} 不是整数；请写成 12000 或 12_000。",
    "budget_changed": "编号为 {budget} 的预算刚刚被另一个事务修改。请重试。",
    "budget_on_all_nodes": "每个节点各自运行的任务不能使用预算。请去掉 budget= 或 mode=。",
    "budget_too_small": "{budget} 的容量是 {capacity}，永远无法支出 {amount}。请提高容量，或分成更小的步骤支出。",
    "budget_unknown": "没有预算 {budget}。`horae budget list` 会列出已设置的预算。",
    "budget_unreadable": "{given} 不是预算。请给出名称，例如 llm，或名称加代理：llm/researcher。",
    "cost_without_budget": "cost 表示一次尝试从预算中取用多少。请同时给出 budget=。",
    "spending_key_used": "在这次尝试中，键 {key} 已经代表 {amount} {unit}。请使用另一个键。",
    "spending_unknown": "在这次尝试中，键 {key} 下没有预留任何额度。请先调用 spend，再调用 spent。",
    "spending_without_budget": "{job_id} 没有使用预算，因此不能支出。请在声明 {handler} 时给出 budget=…。",
}
WHY = {
    "budget_empty": "等待预算：{budget} 的 {capacity} 还剩 {left}，需要 {amount}；将在 {run_at} 再次尝试",
    "budget_empty_for_good": "等待预算：{budget} 的 {capacity} 还剩 {left}，需要 {amount}，而它不会再补充；"
    "请用 `horae budget set` 提高",
    "budget_never_enough": "等待预算：一次尝试需要 {amount}，超过 {budget} 的全部容量（{capacity}）；"
    "请用 `horae budget set` 提高",
    "budget_has_room": "曾等待预算 {budget}，现在已有余量；将在 {run_at} 再次尝试",
}
