"""The Chinese of :mod:`horae.words.scheduled_tasks`: the same keys and placeholders."""

ERRORS = {
    "handler_not_for_tasks": "定时任务不能运行 {handler!r}；请从 {choices} 中选择。",
    "next_run_at_missing": "once 任务需要 next_run_at：它应当运行的时刻。",
    "next_run_at_passed": "此 once 任务的时间 {next_run_at} 已经过去。请把 next_run_at 与 enabled 一起发送。",
    "next_run_at_too_early": "next_run_at {text!r} 早于 1970 年；请给出此后的时刻。",
    "payload_key_missing": "{handler} 的载荷需要 {key!r}：哪个智能体，以及哪一类事项。",
    "payload_key_reserved": "载荷不能有键 {key!r}：处理函数要使用这个名称。请换一个。",
    "payload_key_unknown": "{handler} 的载荷没有键 {key!r}；它有 {choices}。",
    "scheduled_task_unknown": "没有这个定时任务；GET /scheduled-tasks 会列出现有的任务。",
    "task_cannot_run": "定时任务无法运行：{problem}",
    "task_field_unknown": "定时任务没有 {field!r}；请从 {choices} 中选择。",
    "task_interval_too_long": "间隔 {seconds} 秒太长；最多 {most:,} 秒。",
    "task_interval_too_short": "间隔 {seconds} 秒太短；最少 {least:g} 秒。",
    "task_interval_unreadable": "interval 的 schedule_expr 是整数秒，例如 60，而不是 {expression!r}。",
    "task_key_in_other_queue": "键 {key!r} 创建的定时任务触发到另一个队列。请换一个键。",
    "task_key_of_deleted": "键 {key!r} 创建了 {id}，而它已被删除。请换一个键。",
    "task_not_running": "定时任务没有在运行，没有可释放的锁。",
    "task_queue_not_served": "运行 {handler!r} 的定时任务进入队列 {queue!r}，而此令牌只限于 {queues}。请使用不带 "
    "--queues 的令牌。",
    "task_running": "定时任务正在运行或等待运行；没有启动新的运行。进展见它的运行记录。",
    "task_version_old": "定时任务现在的版本是 {version}；请重新读取后再试。",
    "too_many_enabled_tasks": "已有 {allowed} 个启用的定时任务，达到上限。请停用或删除一个，或将此任务保存为停用。",
    "zone_name_too_long": "时区有 {length} 个字符；请使用 Asia/Shanghai 这样的 IANA 名称。",
}

WHY = {
    "comes_twice": "next_run_at {text} 在 {zone} 会出现两次；取第一次，即 {first}。第二次是 {second}。",
    "expression_empty": "schedule_expr 为空；定时任务每分钟运行一次（{expression}）。",
    "interval_lengthened": "间隔 {asked} 秒短于操作者目前允许的下限；定时任务每 {runs} 秒运行一次。",
    "interval_replaced": "无法按 {asked} 秒的间隔运行；间隔改为 {runs} 秒。",
    "routing_dropped": "已去掉 {key}：参数不能绕过编排服务；请改为指定 default_agent。",
    "runs_at_once": "next_run_at {next_run_at} 已过去；定时任务会立即运行。",
    "runs_will_fail": "它的运行会失败：{problem}",
    "nothing_in_its_way": "没有阻碍；它将在 next_run_at 运行",
    "task_given_up": "第 {attempt} 次尝试后放弃：{error}。请发送 enabled 和新的 next_run_at 以重试。",
    "task_inactive": "{because}",
    "task_paused_unexplained": "已由 {by} 于 {paused_at} 暂停。",
    "task_paused_because": "已由 {by} 于 {paused_at} 暂停：{because}",
    "task_ran": "已按要求为 {expression} 运行一次。",
}
