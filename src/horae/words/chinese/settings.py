"""The Chinese of :mod:`horae.words.settings`: the same keys and placeholders."""

ERRORS = {
    "duration_unreadable": "{text!r} 不是 {what}；请写成 250ms、90s、5m、2h 或 1d 这样的形式。",
    "host_not_ours": "{host!r} 不是本机的地址；127.0.0.1 总是可用。",
    "jobs_file_missing": "没有文件 {path!r}；请更正 --config 或 HORAE_JOBS_CONF，或创建它。",
    "locks_unknown": "locks = {value} 无法识别；请选择 'database'、'memory'、redis://localhost 这样的 URL，或给出"
    "你自己的锁管理器。",
    "minutes_unreadable": "{text!r} 不是大于零的分钟数。",
    "origin_unreadable": "{text!r} 不是来源；请像浏览器那样书写，例如 https://app.example:8443，不带路径。",
    "poll_outside": "{text!r} 超出 100ms 至 60s 的范围。",
    "port_taken": "无法监听 {host} 的端口 {port}：{problem}。请用 --port 选择别的端口；0 表示任选一个空闲端口。",
    "queue_served_anyway": "每个 worker 本来就服务队列 {queue!r}；请去掉它。",
    "queue_slots_unreadable": "{text!r} 没有写明队列及其槽位数；请写成 mail=10,reports=2 这样的形式。",
    "rate_setting_not_positive": "{name}={value!r} 不是正数。",
    "rate_setting_not_whole": "{names} 必须是整数，而不是 {value}。",
    "retention_outside": "{text!r} 超出 1h 至 {most_days}d 的范围；请写成 30d 这样的形式。",
    "setting_file_unreadable": "{name}_FILE 指向 {path!r}，它无法读取：{problem}。",
    "setting_invalid": "{name}：{problem}",
    "setting_not_a_bit": "{text!r} 既不是 1 也不是 0。",
    "setting_not_a_choice": "{text!r} 不在 {choices} 之中。",
    "setting_outside": "{text!r} 不是 {least} 到 {most} 之间的整数。",
    "switch_unreadable": "{text!r} 既不是开也不是关；请写 1 或 0。",
    "tracing_extra_missing": "已开启追踪，但没有安装 OpenTelemetry。请运行：pip install 'horae[otel]'",
    "value_invalid": "{where}：{problem}",
}
