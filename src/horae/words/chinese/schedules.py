"""The Chinese of :mod:`horae.words.schedules`: the same keys and placeholders."""

ERRORS = {
    "after_and_times": "定时计划要么有自己的时间（{kind}），要么跟随其他计划（after=[…]），不能两者兼有。",
    "after_missing": "跟随其他计划的定时计划必须在 after=[…] 中至少写明一个。",
    "after_not_keys": "after={value} 不是定时计划键的列表；请写成 after=['nightly'] 这样的形式。",
    "backfill_too_many": "自 {begin} 起缺少超过 {most:,} 次触发；请缩短范围。",
    "backfill_too_wide": "{begin} 到 {until} 之间有 {count:,} 次触发，而一次补跑最多查看 {most:,} 次；请缩短范围。",
    "cron_has_seconds": "cron {expression!r} 有六个字段；定时任务是五个字段，每分钟最多运行一次。需要更快的节奏请"
    "用 schedule_type interval。",
    "calendar_day_unreadable": "{text!r} 不是日历中的日子；请写 2030-12-25、2030-12-24..2030-12-31、"
    "每年的 12-25，或 sat。",
    "calendar_has_every_day": "该日历包含了一周的每一天；请至少留出一天。",
    "calendar_in_use": "日历 {name} 正被 {schedules} 使用；请先从这些计划中去掉它。",
    "calendar_just_made": "日历 {name} 刚刚由另一个调用者创建；再设置一次即可替换其中的日子。",
    "calendar_missing": "该计划使用的日历 {name!r} 不存在；请用 `horae calendar set {name} DAY …` 创建，"
    "或改用其他日历。",
    "calendar_unknown": "没有日历 {name!r}；请用 `horae calendar set {name} DAY …` 创建。",
    "calendar_version_old": "日历 {name} 现在是版本 {version}，而不是 {expected}；请重新读取。",
    "move_too_often": "只有每天最多 {most} 次的 cron 才能顺延到另一天；请改为排除这些日子。",
    "pause_end_passed": "暂停不能在 {until} 结束：该时刻已过；请给出更晚的时刻，或不给。",
    "quiet_all_day": "静默时段 {text!r} 没有留下任何时间；请缩短。",
    "quiet_unreadable": "{text!r} 不是静默时段；请写 22:00-07:00，多个时段用逗号分隔。",
    "window_without_rhythm": "静默时段和日历需要 cron 或时间间隔，而这是 {kind}；请去掉它们。",
    "cron_unreadable": "cron {expression!r}：位置 {position}（{character}），字段 {field}：实际为 {found}；允许："
    "{allowed}。{advice}",
    "end_before_start": "终点 {end} 早于起点 {start}；请对调两者。",
    "ends_before_start": "ends_at {ends_at} 不晚于 starts_at {starts_at}；请给出更晚的终点。",
    "expect_bare_span": "expect={text!r} 没有说明从何时算起；请写 'within {text}'（自到期起）或 'every {text}'。",
    "expect_bare_time": "expect={text!r} 是一个时刻；请写 'by {text}'。",
    "expect_before_due": "任务在 {run_at} 到期，不可能满足期望 {expect}；请期望更晚的时间。",
    "expect_every_of_job": "单个任务只运行一次，不能期望 {expect!r}；请写 'within 10m'（自到期起）或 'by 06:00'，"
    "或者对定时计划设置期望。",
    "expect_instant_on_schedule": "定时计划会反复运行，而 {expect!r} 是单个时刻；请写 'by 06:00'、"
    "'within 10m' 或 'every 1d'。",
    "expect_not_one": "Expect 只能有 within、by 和 every 之一，而给出的是 {given}。",
    "expect_on_all_nodes": "在每个节点上各自运行的任务不会在存储中留下可供期望的运行记录；请去掉 expect，"
    "或使用 mode SINGLE_NODE。",
    "expect_span_outside": "期望 {name} {value:span} 超出 1 秒至 {most_days:,} 天的范围。",
    "expect_time_unreadable": "{text!r} 不是一天中的时刻；请写成 'by 06:00' 这样的形式，包含小时和分钟。",
    "expect_unreadable": "{text!r} 不是期望；请写 'within 10m'（自到期起）、'by 06:00'、'by 06:00 Europe/Berlin' 或 "
    "'every 1d'。",
    "expect_without_times": "跟随其他计划的定时计划没有自己的时间，{expect!r} 无从算起；请写 'by 06:00' 或 'every 1d'，"
    "或把期望写在它所跟随的计划上。",
    "expect_zone_unused": "只有时刻（'by 06:00'）才有时区，{name} 没有；请去掉时区。",
    "expression_too_long": "表达式有 {length} 个字符；最多 {most} 个。",
    "field_not_changeable": "定时计划的 {field!r} 不能修改；请从 {choices} 中选择。",
    "followed_unknown": "定时计划 {key} 不能跟随 {missing!r}：没有这个计划。",
    "hours_outside": "hours={hours:g} 超出范围：须大于 0 且不超过 {most:g}。",
    "interval_invalid": "{name}={value} 既不是秒数，也不是 timedelta。",
    "interval_too_short": "{name}={value} 无法维持：请给出至少 {least:g} 秒，并且是整数毫秒。",
    "interval_unreadable": "{name}={value} 既不是秒数，也不是 timedelta。",
    "no_rule_given": "定时计划需要 cron、every、once 和 after 之一。",
    "no_times_to_backfill": "定时计划 {key} 没有自己的时间可补：它从其他运行结束时算起。",
    "reading_skipped": "{zone} 不存在 {name} {reading}：时钟跳过了它。其后的第一个时刻是 {next_local}（{next}）。",
    "reading_zone_missing": "{name} {text!r} 没有时区；UTC 请写 {without_zone}Z，或加上偏移量，例如 "
    "{without_zone}+08:00，或指明所属时区。",
    "schedule_exists": "已有定时计划 {key!r}；请修改它，或换一个键。",
    "schedule_field_unknown": "定时计划没有 {field!r}；请从 {choices} 中选择。",
    "schedule_followed": "定时计划 {key} 被 {followers} 跟随；请先修改或删除它们。",
    "schedule_key_used": "那个键创建了 {key}，而它已被删除。请换一个键。",
    "schedule_just_changed": "定时计划 {key} 在此期间已被修改；请重新读取后再试。",
    "schedule_just_made": "另一个进程刚刚创建了定时计划 {key!r}；请重新查看。",
    "schedule_path_ambiguous": "此地址既指 {meaning}，也指定时计划 {key!r}，因此什么也没有做。请使用命令行（"
    "horae schedule），或给该计划换一个键。",
    "schedule_payload_no_object": "定时计划的载荷是一个对象：按名称给出的处理函数参数。",
    "schedule_unknown": "没有定时计划 {key!r}；`horae schedule list` 会列出现有的计划。",
    "schedules_partly_in_line": "除了没有应答的 {databases}，所有数据库中的计划都已与代码和文件一致。"
    "它们恢复后，worker 会在那里补上。",
    "schedule_version_old": "定时计划 {key} 的版本是 {version}，而不是 {expected}；请重新读取后再试。",
    "schedules_in_circle": "这些定时计划会循环等待：{circle:path}。请从其中一个的 after=[…] 中去掉一项。",
    "several_rules_given": "定时计划只能有 cron、every、once 和 after 之一，而不是 {rules}。",
    "span_negative": "{name} 不能为负；请给出零或更大的值。",
    "spread_outside": "spread={spread:span} 超出 0 至 {most_days:,} 天的范围。",
    "title_unprintable": "标题是一行最多 {most} 个可打印字符；请缩短它，或不写。",
    "too_many_schedules": "已有 {allowed} 个定时计划，达到上限。请先删除一个。",
}

WHY = {
    "starts_after_quiet": "下一个任务于 {until} 开始，即其所有者 {owner} 的静默时段结束之时",
    "kept_by_calendar": "它的下一次 {planned} 因日历 {calendar} 而不触发；将在 {next} 触发",
    "kept_by_quiet": "它的下一次 {planned} 落在静默时段 {quiet} 内；将在 {next} 触发",
    "pause_ends": "暂停将于 {until} 自动结束",
    "begins_later": "它从 {starts_at} 开始",
    "counts_from_end": "它从其任务结束时算起，而该任务尚未结束",
    "disabled_by": "它已停用（来自 {source}）",
    "ends_before_next": "它在 {ends_at} 结束，在此之前不再触发",
    "fired_often_enough": "它已触发 {count} 次，上限为 {most} 次",
    "follows_others": "它没有自己的时间：在 {leaders} 成功之后运行",
    "inactive_because": "它未激活：{because}",
    "instant_passed": "它唯一的时刻 {expression} 已经过去",
    "no_fire_left": "不会再触发",
    "missed_deadline": "它本应在 {due_at} 之前成功（期望 {expect}），但至今没有；下一次成功会结束此状态",
    "overdue_since": "它自 {due_at} 起已到期，而没有 worker 来触发它",
    "runs_on_each_node": "每个节点按自己的定时器运行它；触发不会保存",
    "schedule_paused_unexplained": "它已由 {by} 于 {paused_at} 暂停",
    "schedule_paused_because": "它已由 {by} 于 {paused_at} 暂停：{because}",
    "switched_off": "它已关闭，直到其应用的 worker 重新启动",
}
