"""Chinese for :mod:`horae.words.statistics`."""

ERRORS = {
    "error_group_mixed": "这个分组包含的错误种类太多，无法区分，因此不能据此找到相应的已放弃的任务。"
    "请按处理函数或队列恢复它们："
    "`horae job revive`。",
    "error_group_unknown": "{owner!r} 没有错误分组 {fingerprint!r}。{days} 天内未再出现的分组会被移除；"
    "`horae errors list` 列出现有的分组。",
    "mute_passed": "until {until} 已经过去；请给出将来的时间，或不给时间，一直静音到手动取消。",
    "mute_reason_missing": "静音 {fingerprint} 需要理由，以便日后有人问起为何没有收到通知。",
    "statistics_of_others": "你只能查看 {owner!r} 的统计：请按 owner 查询，且不要给出名称。",
    "too_many_points": "按 {grain} 共有 {points:,} 个数据点，太多了；最多返回 {most:,} "
    "个。请选择更粗的粒度或更短的时间窗口。",
    "window_empty": "从 {since} 到 {until} 的时间窗口为空；since 必须早于 until。",
}
WHY = {
    "all_well": "一切正常，没有需要处理的事。",
    "confirmations_open": "等待答复的智能体提问：{shown} 个。",
    "errors_new": "最近一天的新错误：{count} 种（{names}）。",
    "expected_jobs_missing": "本应已成功的任务：{names}。",
    "jobs_dead": "已放弃的任务：{shown} 个。",
    "jobs_late": "到期已超过一分钟的任务：{shown} 个。",
    "jobs_stuck": "被失联 worker 占住的任务：{shown} 个。",
    "nothing_ran_yet": "已就绪，还没有运行过任何任务。",
    "one_thing_needs_you": "有一件事需要你处理。",
    "queues_paused": "已暂停的队列：{names}。",
    "queues_unserved": "有到期任务却没有 worker 的队列：{names}。",
    "reviews_open": "等待答复的复核：{shown} 个。",
    "runs_missing": "本应已成功运行的定时计划：{names}。",
    "schedules_inactive": "因所需条件不足而停用的定时计划：{names}。",
    "schedules_overdue": "已过时间却未触发的定时计划：{names}。",
    "things_need_you": "有 {count} 件事需要你处理。",
}
