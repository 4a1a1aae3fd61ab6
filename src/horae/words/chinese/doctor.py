"""The sentences of the doctor, by reason, in Chinese."""

ERRORS: dict[str, str] = {}

WHY = {
    "application_declares": "{app} 声明了 {count:jobs}",
    "budget_exceeded": "{owner} 的预算 {budget} 已超支 {amount:,}。",
    "budget_wrong": "编号 {number} 的预算，{period} 起的周期：{problem}。",
    "budgets_well": "没有超支的预算，预留数量一致",
    "check_failed": "这项检查无法进行：{problem}",
    "chores_done": "都按时完成",
    "chores_late": "没有进程做后台维护：{names} 早在 {late:span} 之前就该开始。通过 HTTP 的 worker 和带 "
    "--no-chores 的服务都不做维护：请启动一个会做的进程。",
    "chores_late_and_waiting": "没有进程做后台维护：{names} 早在 {late:span} 之前就该开始。在此期间{waits}。通过 "
    "HTTP 的 worker 和带 --no-chores 的服务都不做维护：请启动一个会做的进程。",
    "chores_never_done": "还没有进程做过后台维护。在此期间{waits}。通过 HTTP 的 worker 和带 --no-chores 的服务都不"
    "做维护：请启动一个会做的进程。",
    "chores_nothing_yet": "目前没有要做的",
    "clock_of_this_machine": "数据库使用本机的时钟",
    "clocks_agree": "本机与数据库的时钟相差 {seconds:.3f} 秒",
    "clocks_differ": "本机与数据库的时钟相差 {seconds:.3f} 秒。worker 以数据库的时钟为准。",
    "database_absent": "{path} 处没有数据库。",
    "database_answers": "{url} 有应答（{took:.0f} 毫秒）",
    "database_trouble": "数据库：{problem}",
    "dead_none": "没有已放弃的任务",
    "dead_some": "{count:jobs}在最后一次尝试后放弃了。",
    "disk_full": "{folder} 里什么也存不下：{problem}。任务会被拒绝，也没有任务能结束。",
    "disk_low": "{folder} 只剩 {free:.1f} GiB 可用。",
    "disk_lowest": "{folder} 只剩 {free:.0f} MiB 可用；很快就什么也存不下了。",
    "bus_behind": "{count:,} 个事件等待发布，最早的自 {since} 起。没有进程发布它们，或总线没有确认：请用 "
    "HORAE_NATS 启动 worker 或服务器。",
    "bus_incomplete": "本应为消息总线记录事件，却缺少触发器：{names}。此间发生的事件会丢失。",
    "bus_off": "没有记录事件",
    "cluster_bus_behind": "数据库 {name} 有 {count:,} 个事件等待发布，最早的自 {since} 起。请用 HORAE_NATS 启动"
    "能访问它的 worker 或服务器。",
    "cluster_bus_incomplete": "数据库 {name} 本应为消息总线记录事件，却缺少触发器：{names}。此间那里发生的事件会丢失。",
    "cluster_bus_well": "{count} 个数据库的消息总线运行正常",
    "cluster_dispatch_missing": "没有进程在消息总线上派发数据库 {name} 的任务。请用 HORAE_NATS 和 "
    "HORAE_NATS_DISPATCH=1 启动能访问它的 worker 或服务器，并查看它的日志。",
    "cluster_member_away": "无法询问集群的数据库 {name}：{problem} 它保存的内容在那里等待。",
    "cluster_settings_behind": "数据库 {name} 缺少 {count} 项其他数据库已有的系统设置。"
    "为它服务的 worker 和服务会在一分钟内补上。",
    "cluster_member_behind": "数据库 {name} 的集群映射是版本 {version}，不是 {newest}。",
    "cluster_member_moving": "{name} 有 {count:,} 个虚拟分片标记为迁移中：其中不能写入。请重新执行被中断的操作。",
    "cluster_member_unserved": "没有存活的工作进程服务于集群的数据库 {name}：其中的任务在等待。请启动一个工作进程，"
    "或查看正在运行的工作进程的日志，其中说明了为何连不上该数据库。",
    "cluster_undelivered": "数据库 {name} 有 {count:,} 条发往 {to} 的消息尚未送达，最早的一条已等待 {age}："
    "{to} 中有任务在等它们。只要 {to} 有应答，且 {name} 有工作进程或服务在运行，消息会一直重发。",
    "cluster_queues_unserved": "集群的数据库 {name} 中没有存活的工作进程服务于 {queues}，而其他数据库中有："
    "那里的任务在等待。请查看工作进程的日志，其中说明了为何连不上该数据库。",
    "cluster_well": "{count:,} 个数据库的映射一致，版本 {version}",
    "bus_flush_accepted": "NATS 可能在写盘之前就确认，HORAE_NATS_FLUSH 已接受这一点：断电可能丢失已确认的事件，"
    "并推迟途中的任务",
    "bus_flush_late": "NATS 在写盘之前就确认（{names}：每 {interval:g} 秒写一次）：断电会丢失已确认的消息。"
    "请在每台服务器的 jetstream 一节设置 sync_interval: always，或用 HORAE_NATS_FLUSH=interval 接受它。",
    "bus_flush_unknown": "不知道 NATS 是否先写盘再确认。请在 HORAE_NATS_MONITOR 中写明每台服务器的监控地址或系统账户，"
    "或用 HORAE_NATS_FLUSH=always 担保。",
    "bus_flush_vouched": "HORAE_NATS_FLUSH 担保 NATS 先写盘再确认",
    "bus_flush_well": "NATS 先写盘再确认：{names}",
    "bus_monitor_away": "{address} 没有说明 NATS 如何写盘：{problem}。",
    "bus_replicas_few": "丢失一台 NATS 服务器可能连同消息一起丢失：保存流的服务器只有 {names}，而不是 {most} 台。"
    "请在创建流之前设置 HORAE_NATS_REPLICAS；已有的流用 NATS 的工具修改。",
    "bus_servers_away": "NATS 服务器没有应答：{problem}",
    "bus_streams_none": "NATS 有应答，还没有 Horae 的流",
    "bus_streams_well": "NATS 在三台或更多服务器上保存 {names}",
    "bus_window_short": "流 {stream} 只在 {window:g} 秒内认得重复的消息；"
    "中继可能离开一段时间，需要 {least:g} 秒或更久。",
    "dispatch_missing": "HORAE_NATS_DISPATCH 要求派发，却没有进程在消息总线上派发任务：请用 HORAE_NATS 和 "
    "HORAE_NATS_DISPATCH=1 启动 worker 或服务器，并查看它的日志。",
    "dispatch_well": "有一个中继在消息总线上派发任务",
    "bus_well": "正在记录事件，{count:,} 个等待发布",
    "disk_well": "{folder} 有 {free:.1f} GiB 可用",
    "doctor_schedules_inactive": "{count} 个已停用（{names}）：{because}",
    "doctor_runs_missing": "{count} 个定时计划或任务本应已成功运行，却没有：{names}。",
    "doctor_schedules_overdue": "{count} 个定时计划已过时间一分钟以上，却没有 worker 触发：{names}。",
    "door_guarded": "服务监听 {host}，要求每个调用方出示令牌",
    "door_local": "服务监听 {host}，只供本机使用",
    "door_without_token": "服务监听 {host}，却没有有效的令牌。",
    "due_late": "{count:jobs}已到期，最早的自 {since} 起在 {queue} 中：进来的比做完的多。",
    "due_none": "没有到期而在等待的任务",
    "due_some": "{count:jobs}已到期，最早的自 {since} 起在 {queue} 中",
    "durability_promise": "{product}：{promise}；{loses}",
    "engine_gave_nothing": "{app} 的引擎在 {patience:g} 秒内没有给出连接。",
    "engine_refused": "{app} 的引擎没有给出连接：{problem}。",
    "engine_well": "{app} 的引擎限制了等待时间",
    "engine_without_limits": "{app} 自带引擎，没有限制 {missing}：数据库一旦失去响应，enqueue() 和 worker 会一直等"
    "下去。",
    "extras_all": "已安装：{installed}",
    "extras_some": "已安装：{installed}；未安装：{missing}",
    "hints_arrive": "LISTEN 和 NOTIFY 能够到达",
    "hints_missing": "NOTIFY 到不了，worker 只能靠轮询发现新任务：中间有事务模式的连接池。",
    "history_aside": "清空兜底分区时，{table} 至少有 {rows:,} 行被暂存在一边。worker 或服务器会把它们放回来；"
    "在此之前列表里看不到它们。",
    "history_beside": "{table} 有 {rows:,} 行落在兜底分区里。worker 会移走它们，除非其结束时间在未来：请检查时钟。",
    "history_overfull": "{table} 有超过 {rows:,} 行落在兜底分区里。worker 或服务器会一边工作一边清空它；如果其角色"
    "无权这样做，或有行的结束时间在未来，请在空闲时段处理。",
    "history_short": "{table} 的分区只够再用 {days} 天，少于 {least} 天。没有 worker 建分区，或其角色无权建：之后结"
    "束的会落入兜底分区。",
    "history_well": "分区还够用 {days} 天",
    "hosts_old_primary": "{hosts} 仍可写入，但 URL 中的另一台主机已被提升（时间线 {timeline}）。"
    "见过新主库的进程会拒绝它；只能连到旧主库的进程无从得知。请停掉它。",
    "hosts_two_primaries": "{hosts} 都可写入且时间线同为 {timeline}：无法判断哪一台正确。请只保留一台，停掉其余。",
    "lanes_driven": "没有智能体的任务在等待驱动它的进程",
    "lanes_undriven": "有任务就绪已超过五分钟，却没有进程驱动所在的通道：{names}。",
    "leases_stuck": "{count:jobs}被失联的 worker 占住，也没有进程把它们转交出去：{names}。",
    "leases_well": "没有被失联 worker 占住的租约",
    "migrations_current": "数据表是最新的（{version}）",
    "migrations_near": "数据库里是版本 {found} 的数据表，比此版 Horae（{wanted}）新；升级之前可以继续使用。",
    "migrations_older": "数据库里是版本 {found} 的数据表；此版 Horae 需要 {wanted}。",
    "migrations_trouble": "数据表：{problem}",
    "orchestrator_missing": "{count} 个定时计划要询问编排服务，但这里没有设置 ORCHESTRATOR_URL。",
    "parents_lost": "{count:jobs}在等待已放弃或已取消的任务，会一直等下去：{names}。",
    "parents_unsettled": "{count:jobs}因其他任务结束或被重新排队，尚待结束、放行或恢复。",
    "parents_well": "没有任务在等待不可能成功的任务",
    "permissions_open": "本机上的所有人都能读取 {path}：参数、错误、审计。",
    "permissions_well": "其他用户读不到 {path}",
    "port_answers": "{host} 端口 {port} 上有服务应答",
    "port_free": "{host} 的端口 {port} 空闲",
    "port_not_ours": "服务无法监听 {host} 端口 {port}：{problem}。",
    "promises_broken": "Horae 保管的内容中有 {count} 项会一直等下去：{names}。运行中的 worker 会修复。",
    "promises_kept": "每个等待都有期限，每个启用的定时计划都有下一次触发",
    "doctor_queue_paused": "队列 {queue} 已被 {actor} 暂停；其中 {count:jobs}已到期。",
    "doctor_queue_paused_because": "队列 {queue} 已被 {actor} 暂停：{because}；其中 {count:jobs}已到期。",
    "queue_unserved": "没有 worker 服务队列 {queue}；自 {since} 起到期：{count:jobs}。",
    "queues_open": "没有暂停的队列",
    "reservations_left": "{count} 笔预算预留属于已结束的尝试：{names}。worker 会结算它们。",
    "schedules_well": "启用的定时计划都已触发或在等待时间到来",
    "secrets_locked": "存有 {count} 个密钥，无法全部打开：{problem}",
    "secrets_open": "存储的 {count} 个密钥都能打开",
    "secrets_without_extra": "存有密钥，但缺少 cryptography。",
    "setting_probably_meant": "{name} 不是 Horae 的设置；你可能想写 {meant}。",
    "setting_unknown": "{name} 不是 Horae 的设置。",
    "settings_known": "环境中的每个 HORAE_… 名称都是已知的",
    "sqlite_may_lose": "SQLite {version} 在写入与检查点恰好相遇时可能丢失页面；3.51.3 和 3.53.0 不会。请保留备份，"
    "或改用 PostgreSQL。",
    "sqlite_well": "SQLite {version} 已修复 WAL-reset 缺陷",
    "tables_missing": "数据库里没有 Horae 的数据表；此版 Horae 需要 {wanted}。",
    "tenants_held": "{count:jobs}属于租户，被留在队列 {queue} 中：处理函数 {handler} 未对租户开放。如果允许租户运行"
    "，请如此声明并重新启动其 worker。",
    "tenants_well": "没有租户的任务在等待未对租户开放的处理函数",
    "token_ends": "{owner} 的令牌 {token} 将于 {at} 失效。",
    "tokens_well": "两周内没有令牌失效",
    "tzdata_missing": "这里没有时区数据库。",
    "tzdata_of_system_older": "系统的时区数据库是 {edition}，已安装的软件包是 {packaged}；使用的是较旧的那个。",
    "tzdata_old": "时区数据库是 {year} 年的；时区每年会变更数次。",
    "tzdata_well": "时区数据库是 {edition}",
    "versions_known": "Horae {version}，运行于 Python {python}",
    "workers_at_work": "{count} 个在工作：{names}",
    "workers_none": "最近三分钟没有见到 worker。",
    "zones_elsewhere": "{count} 个定时计划是用另一版时区数据库（{editions}）计算的，与这里的（{tzdata}）不同："
    "{names}。worker 启动时会重新计算。",
    "zones_well": "所有定时计划都是用这里的时区数据库计算的",
}
