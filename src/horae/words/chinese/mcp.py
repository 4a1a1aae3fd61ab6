"""The Chinese of :mod:`horae.words.mcp`: the same keys and placeholders."""

ERRORS = {
    "admin_token_of_agent": "智能体不得持有带 admin 范围的令牌，也不得持有人的 review 令牌：否则它可以批准自己的请求。"
    "请为它签发：horae token create --owner … --scopes tasks",
    "agent_schedule_end_outside": "ends_at 不在未来 {most_days} 天之内；请选择这段时间内的终点。",
    "agent_schedule_too_often": "触发过于频繁：间隔不到 {least:g} 秒，而每次触发都要消耗模型的一轮。请选择更长的间隔。",
    "agent_schedule_unknown": "没有定时计划 {id!r}；schedule_list 会列出现有的计划。",
    "confirmation_not_listed": "没有确认 {id}；confirm_list 会列出等待答复的确认。",
    "confirmation_not_opened": "事项 {id} 处于 {state}，因此没有发起确认。请调用 safe_point 了解该做什么。",
    "context_given_and_cleared": "一次调用不能既给出又清除上下文；context 和 clear_context 请去掉一个。",
    "cron_zone_missing": "cron 定时计划需要时区；请给出 Europe/Berlin 这样的时区。",
    "grant_expired": "事项 {id} 的批准有效至 {deadline}；请用 confirm_request 重新请求。",
    "grant_unknown": "事项 {id} 没有这个授权。授权在事实 `confirmed` 的数据里，只属于提出请求的事项。",
    "grant_used": "事项 {id} 的这个授权已经兑现过，不能再用第二次。请调用 safe_point：会有事实说明动作的结果。",
    "grant_void": "事项 {id} 的这个授权所依据的内容已不成立。请调用 safe_point，并用 confirm_request 重新请求。",
    "interval_expr_unreadable": "间隔的 expr 是秒数，例如 3600，而不是 {expr!r}。",
    "lane_driven_elsewhere": "通道 {lane!r} 由另一个进程驱动，其事项由那个进程决定。请向它添加事项、投递事件，或"
    "停止那个进程后再调用。",
    "mcp_token_missing": "缺少令牌或令牌无效。请发送请求头 Authorization: Bearer horae_…；`horae token create` "
    "可以签发。",
    "once_expr_passed": "{at} 已经过去（现在是 {now}）；请选择更晚的时间，或使用 task_add。",
    "once_expr_unreadable": "单次运行的 expr 是 ISO 时间，例如 2026-11-16T09:00，而不是 {expr!r}。",
    "step_not_open": "事项 {id} 处于 {state}，没有已兑现而待报告的动作。请调用 safe_point："
    "会有事实说明上一个动作的结果。",
    "step_open": "事项 {id} 已兑现 {action!r} 的授权，但还没有报告结果。",
    "task_has_ended": "事项 {id} 处于 {state}，不是焦点；当前焦点是 {focus}。请不带事项调用 safe_point，了解该做什么。",
    "task_has_result": "事项 {id} 已经以另一个结果完成，以那个结果为准。请去掉 result，或者另加一个事项。",
    "task_not_focused": "事项 {id} 处于 {state}，不是焦点；当前焦点是 {focus}。请不带事项调用 safe_point，了解该"
    "做什么。",
    "task_of_context_missing": "上下文或备注属于某个事项；请指明你正在处理的事项。",
    "too_many_calls_wait": "已有 {most} 个调用在等待工作，达到上限。",
    "too_many_live_tasks": "已有 {allowed} 个事项尚未结束，达到上限。请先结束或取消一些。",
    "tool_selection_unknown": "--tools {tools} 无法识别；请选择 all 或 minimal。",
    "turn_not_reached": "事项 {id} 处于第 {current} 轮；还没有第 {turn} 轮。",
    "wait_for_own_task": "通道 {lane!r} 的事项由你自己处理，这个调用会等待你自己。请去掉 wait；"
    "safe_point 会把事项交给你。",
}
