"""The Chinese of :mod:`horae.words.stores`: the same keys and placeholders."""

ERRORS = {
    "bus_does_not_answer": "消息总线没有确认收到事件（{problem}）。事件留在发件箱里，稍后会再次发布；请检查"
    "流和它的服务器。",
    "bus_prefix_unusable": "{prefix!r} 不能作为主题的开头。请使用字母、数字、- 和 _，各部分用点分隔，例如 shop.horae。",
    "bus_triggers_not_permitted": "该角色无权创建触发器，而消息总线的事件由触发器记录。请用有权限的角色运行一次 "
    "horae bus on。",
    "bus_address_unusable": "{address!r} 不能作为 worker 在总线上的地址。请用最多 100 个字母、数字、- 和 _。",
    "bus_arguments_unreadable": "调用 {call} 的参数不合适：{problem}。请按总线参考页列出的内容发送。",
    "bus_call_failed": "中继没能完成（{problem}）；详情见它的日志。",
    "bus_executes_only": "总线上的 worker 只执行任务和入队；{operation} 需要数据库或服务。请在有它们的地方运行："
    "horae worker 加 --db 或 --url。",
    "bus_message_too_large": "消息有 {size} 字节，而总线最多接受 {most} 字节。请调大 NATS 服务器的 max_payload，"
    "少发一些，或交给有数据库的 worker。",
    "bus_message_unreadable": "消息里没有可用的 {field}。请按总线参考页列出的内容发送。",
    "bus_not_in_child": "子进程里的处理函数连不上总线，而 {operation} 要经过总线。请在没有 executor='process' 的"
    "处理函数里入队，或用 --db 或 --url 运行 worker。",
    "bus_of_another_database": "流 {stream} 属于另一个数据库。请为每个数据库设置各自的前缀和流："
    "HORAE_NATS_PREFIX、HORAE_NATS_STREAM。",
    "bus_relay_silent": "{seconds} 秒内没有中继应答。请确认有一个连着数据库的 worker 或服务器以相同的前缀运行，"
    "并设置了 HORAE_NATS 和 HORAE_NATS_DISPATCH=1。",
    "bus_stream_refused": "无法创建流 {stream}（{problem}）。请检查 NATS 服务器和 HORAE_NATS_REPLICAS。",
    "bus_unreachable": "连接不到消息总线（{problem}）。事件留在发件箱里，任务留在数据库里；"
    "请检查 HORAE_NATS 和服务器。",
    "nats_extra_missing": "这需要 NATS 客户端（{problem}）。请运行：pip install 'horae[nats]'",
    "backup_damaged": "{path} 已损坏：{problem}。请使用另一份副本。",
    "backup_exists": "{path} 已存在。请换一个名称，或加上 --force 替换它。",
    "backup_failed": "无法复制 {path}：{problem}。没有任何改动。",
    "backup_locked": "{path} 被另一个进程锁定。没有任何改动；请稍后重试。",
    "backup_missing": "{path} 处没有文件。",
    "backup_no_room": "没有空间存放 {path} 的副本。没有任何改动；请释放一些空间。",
    "backup_not_ours": "{path} 是 SQLite 数据库，但不是 Horae 的；请选择别的文件。",
    "backup_not_sqlite": "{path} 不是 SQLite 数据库；请选择别的副本。",
    "backup_too_new": "{path} 由更新的 Horae 写入（表版本 {version}）；请升级当前的 Horae（表版本 {known}）。",
    "backup_tool_missing": "这里没有安装 {tool}，而 PostgreSQL 由它复制。请安装 PostgreSQL 客户端程序，"
    "或在另一台主机上运行。",
    "backup_too_old": "{path} 中表的版本是 {version}，早于 {oldest}，当前的 Horae 无法迁移。请用写入它的 Horae 恢复它，"
    "在那里运行 `horae db export --out FILE`，再在这里运行 `horae db import FILE`。",
    "backup_unwritable": "无法写入 {path}：{problem}。请检查目录及其权限。",
    "bundle_exists": "{path} 已存在。请换一个名称。",
    "bundle_unwritable": "无法写入 {path}：{problem}。请检查目录及其权限。",
    "commit_refused": "此事务在你返回时连同它的记录一起提交；请不要自行提交。",
    "database_contended": "{product} 因其他事务而一再拒绝；请稍后重试。",
    "database_driver_async": "Horae 需要非 asyncio 的驱动：请写 {kind}://… 而不是 {driver}://…，后者留给你自己的引擎。",
    "database_driver_missing": "没有安装 {kind} 的驱动（{problem}）。请运行：pip install 'horae[{extra}]'",
    "database_file_missing": "{path} 处没有数据库。",
    "database_full": "{product} 已无剩余空间：{problem} 没有写入任何内容；请在其磁盘上释放一些空间。",
    "database_gave_up": "{product} 放弃了：{problem} 没有写入任何内容；请稍后重试。",
    "database_locked": "数据库被另一个进程锁定：{problem}。请稍后重试。",
    "database_no_room": "数据库已无剩余空间：{problem}。请在其磁盘上释放一些空间。",
    "database_not_reached": "无法访问 {product}：{problem} 没有写入任何内容；请稍后重试。",
    "database_refused": "{product} 拒绝了：{problem}",
    "database_unreachable": "无法访问数据库：{problem}。请检查它的 URL 和状态。",
    "database_unsupported": "Horae 不支持 {kind!r}。请使用 sqlite、postgresql 或 mysql（MariaDB）。",
    "database_url_unreadable": "无法读取数据库 URL。它形如 sqlite:///horae.db、postgresql://user@host/name 或 "
    "mysql://user@host/name。",
    "export_changed": "{path} 写出之后被改动过：SHA-256 不符。请使用原样的导出文件。",
    "export_counts_differ": "{path} 的行数与其最后一行所记不符。请重新导出。",
    "export_cut_off": "{path} 不完整：缺少最后一行。请重新导出。",
    "export_bytes_unreadable": "第 {line} 行：{table} 的 {field!r} 不是 base64。请使用原样的导出文件。",
    "export_field_missing": "第 {line} 行：{table} 的一行缺少当前 Horae 需要的 {field!r}。请用更新的 Horae 导出。",
    "export_field_unknown": "第 {line} 行：当前的 Horae 不认识 {table} 的字段 {field!r}。请升级到导出该文件的版本。",
    "export_goes_on": "{path} 在其最后一行之后仍有内容（第 {line} 行）。请使用原样的导出文件。",
    "export_line_unreadable": "无法读取 {path} 的第 {line} 行。请使用原样的导出文件。",
    "export_not_ours": "{path} 不是由 `horae db export` 写出的；请选择别的文件。",
    "export_table_unknown": "第 {line} 行：当前的 Horae 不认识表 {table!r}。请升级到导出该文件的版本。",
    "export_too_new": "{path} 的格式是 {format}，由 Horae {version} 写出，当前的 Horae 不认识。请升级。",
    "folder_unmakable": "无法创建数据库的目录 {folder}：{problem}。",
    "import_done_before": "{path} 已由 {actor} 于 {at} 导入，没有任何缺失。可以直接使用这个数据库。",
    "import_not_empty": "数据库中已有内容，位于 {tables}。请导入到空的数据库，可以这样创建：horae db migrate",
    "import_row_refused": "数据库拒绝了 {table} 的一行：{problem}。没有写入任何内容。",
    "lock_held": "锁 {key!r} 由另一个进程持有。请稍后重试，用 wait=… 等待更久，或用 try_lock 尝试，在它返回 "
    "None 时做别的事。",
    "lock_key_unreadable": "锁需要 1 到 {most} 个字符的可打印键，而不是 {key}。",
    "lock_ttl_too_long": "锁必须会自行结束：ttl {ttl:span} 永远不会结束；最多 {most_days:,} 天。",
    "lock_ttl_too_short": "锁必须会自行结束：请给出至少一毫秒的 ttl，而不是 {ttl:span}。它应长于所做的工作，或在"
    "工作期间延长锁。",
    "migration_too_long": "另一个进程迁移此数据库已达十分钟。请确认它仍在工作，然后重试。",
    "outcome_unknown": "{product} 断开或没有应答：{problem} 结果未知：可能已写入，也可能没有。用相同的 key=… 重"
    "新入队，就不会发生两次。",
    "pool_exhausted": "此进程的数据库连接已全部占用。请尽早结束事务，或给引擎更大的连接池。",
    "redis_client_missing": "没有安装 Redis 客户端。请运行：pip install 'horae[redis]'",
    "redis_prefix_missing": "Redis 键需要前缀，以免与他人的键相混。",
    "redis_refused": "Redis 拒绝了：{problem}。",
    "redis_unreachable": "无法访问 Redis，或它没有应答：{problem}。请确认它在运行，且 URL 正确。",
    "redis_url_unreadable": "无法读取 Redis URL（{problem}）。它形如 redis://host:6379/0。",
    "retry_interval_too_short": "retry_interval 必须为正：等待锁时会休眠，绝不空转。",
    "row_security_unsupported": "行级安全是 PostgreSQL 的功能；在其他数据库上，租户之间只由操作本身隔离。",
    "sqlite_damaged": "无法使用 {path}：{problem}。请检查数据库 URL 中的路径；损坏的文件可用备份替换：horae db restore",
    "sqlite_locked": "另一个事务占用着 SQLite 文件。请尽早结束它，或用 connection=… 交给 Horae；"
    "horae.prepare_sqlite(engine) 能让应用自己的写入排队，而不是失败。",
    "sqlite_unusable": "SQLite 无法读写：{problem}。请检查磁盘和文件权限。",
    "sqlite_url_has_host": "SQLite 文件的数据库 URL 没有主机名：请写 sqlite:///horae.db，三条斜线；绝对路径用四条，"
    "sqlite:////srv/horae.db。",
    "tables_missing": "数据库没有 Horae 的表，或表已过时：{problem}。请运行：horae db migrate",
    "tables_old": "数据库现有 {found}；当前的 Horae 需要 {needed}。请运行：horae db migrate",
    "tables_too_new": "数据库中 Horae 表的版本是 {version}，当前的 Horae（表版本 {known}）不认识它。请把 horae 包"
    "升级到至少是迁移它的那个版本。",
    "tables_too_old": "数据库中 Horae 表的版本是 {version}，早于 {oldest}，当前的 Horae 无法迁移。请用旧版 Horae 运行 "
    "`horae db export --out FILE`，再用当前版本在空数据库上运行 `horae db migrate` 和 `horae db import FILE`。",
    "transaction_nested": "此线程已在此 SQLite 文件的 Horae 事务之中，会等待自己。在 ctx.once 或你自己的事务里，"
    "请传入 connection=…，使调用加入该事务。",
    "transaction_waited": "此进程的另一个事务占用 SQLite 文件已达 {seconds:g} 秒。请尽早结束它：在 ctx.once 中运"
    "行的代码会让其他所有写入等待。",
}
