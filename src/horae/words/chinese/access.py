"""The Chinese of :mod:`horae.words.access`: the same keys and placeholders."""

ERRORS = {
    "agent_of_token": "此令牌由智能体 {agent!r} 持有，不能代表其他智能体。请去掉 agent。",
    "allow_http_unreadable": "allow_http 只能是 true 或 false。",
    "code_invalid": "登录码无效：已使用、已超过十分钟，或属于另一个数据库。"
    "请针对此服务的数据库重新生成：`horae console link`。",
    "weight_outside": "weight 是 1 到 {most:,} 之间的整数；权重加倍，份额加倍。",
    "max_enabled_tasks_outside": "max_enabled_tasks 是 0（不限）到 {most:,} 之间的数字，或 null。",
    "not_limited_to_queues": "此令牌只限于队列 {queues}，而这项操作与队列无关。请使用签发时未加 --queues 的令牌。",
    "owner_list_unreadable": "{expected}，最多 {most} 项。",
    "person_needed": "这一操作需要由人来做，而 {actor} 不是人。请在数据库所在的机器上用命令行，或用控制台，"
    "或用一个带 review 或 admin 权限、且创建时没有加 --agent 的令牌。",
    "ports_outside": "端口是 1 到 65535 之间的数字。",
    "queue_not_served": "此令牌不服务队列 {queue!r}；它服务 {queues}。",
    "scope_missing": "这需要权限范围 {needed} 之一；你现有的是 {held}。请向管理员申请带有该范围的令牌：horae "
    "token create --scopes …",
    "scope_unknown": "{scope!r} 不是权限范围；请从 {choices} 中选择。",
    "scopes_missing": "没有权限范围的令牌什么也做不了；请从 {choices} 中选择。",
    "session_ended": "你已退出登录：会话已结束，或其令牌已失效。请重新登录。",
    "session_unknown": "没有会话 {id}；它可能已结束。",
    "tenant_unknown": "没有租户 {owner!r}。",
    "tenants_for_operator_only": "只有管理员能查看租户。请使用带 admin 范围的令牌，或系统自身的令牌。",
    "token_invalid": "令牌无效：未知、已过期或已吊销。请向管理员申请新的令牌。",
    "token_life_too_long": "令牌的有效期不能是 {expires_in:span}；expires_in 至多 {most_days:,} 天，或为 None。",
    "token_life_too_short": "令牌的有效期不能是 {expires_in:span}；expires_in 至少为一分钟。",
    "token_missing": "缺少令牌。请发送请求头 Authorization: Bearer <token>。",
    "token_unknown": "没有令牌 {id}；`horae token list` 会列出现有的令牌。",
}
