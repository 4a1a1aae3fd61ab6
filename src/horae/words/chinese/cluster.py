"""The Chinese of :mod:`horae.words.cluster`: the same keys and placeholders."""

INCOMPLETE = "不完整：{databases} 没有应答。这里缺少它们保存的内容。"
PARTLY_APPLIED = "已在 {count} 个数据库中的 {applied} 个生效：{databases} 没有应答。其余的恢复后会自动跟上。"
ERRORS = {
    "connection_outside_cluster": "此连接的数据库不是该集群的成员，因此它的事务不能保存任务。请添加它："
    "horae cluster add NAME URL --no-shards。",
    "job_on_the_way": "{id} 保存在另一个数据库的事务中，还在送往其分片的途中。请稍后重试；horae cluster list "
    "会显示尚未送达的内容。",
    "cluster_address_exists": "{address} 已经是这个集群的数据库。",
    "cluster_database_in_memory": "内存数据库不能加入集群；请使用文件或服务器。",
    "cluster_database_taken": "{address} 属于另一个集群，或已是本集群的 {number} 号数据库。请使用空数据库。",
    "cluster_database_unsupported": "{kind} 不能作为集群的数据库。请使用 PostgreSQL 或 SQLite。",
    "cluster_database_used": "{address} 里已有数据。请添加空数据库：加入之前产生的编号可能与其他行重复。",
    "cluster_draws_used_up": "集群的 {number} 号数据库已用完它的任务编号，再用就会与另一个数据库重复。"
    "没有存入任何内容。请把它的分片迁移到新的数据库（horae cluster add、drain）。",
    "cluster_exists": "这个数据库已经是集群的成员（{name}，映射版本 {version}）。",
    "cluster_drain_last": "{name!r} 是集群中唯一的数据库，没有其他数据库可以接收它的分片。",
    "cluster_drain_undelivered": "{name!r} 的分片已迁走，但那里还有 {count} 个任务和消息没有送达。"
    "请让该数据库继续运行并重试；horae cluster list 会显示哪些数据库没有接收。",
    "cluster_map_busy": "集群映射正被其他进程不断修改。没有丢失任何内容：请稍后运行 horae cluster check --repair。",
    "cluster_map_changed": "集群的映射已被修改：现在是版本 {version}，不是 {expected}。"
    "请查看 horae cluster list 后重试。",
    "cluster_member_exists": "集群中已有名为 {member!r} 的数据库。请换一个名字。",
    "cluster_map_older": "第一个数据库的映射是版本 {version}，而 {name!r} 是版本 {newest}：第一个数据库是从副本恢复的。"
    "没有任何更改；请运行 horae cluster restored 或 horae cluster check --repair。",
    "cluster_member_restored": "数据库 {member!r} 是从副本恢复的，还没有与其他数据库一致。在运行 "
    "horae cluster restored --db URL 之前它不提供服务。",
    "cluster_old_answers": "{member!r} 在 {address} 仍有应答。请先停止那个数据库：两个同号的数据库会给出相同的编号。",
    "cluster_restore_wrong": "这个副本属于集群的 {found} 号，而数据库是 {number} 号。请恢复这个数据库自己的副本。",
    "cluster_restore_needs_all": "恢复的数据库重新提供服务之前，所有数据库都必须应答；这些没有应答：{databases}。"
    "它保持关闭，其他数据库继续工作。请重复：horae cluster restored --db URL",
    "cluster_restore_forced": "有进程在使用时不能恢复集群的数据库：请先停止它们，并去掉 --force。",
    "cluster_member_shardless": "{member!r} 是用 --no-shards 添加的：它只用于调用方的事务，不保存分片。"
    "请指定另一个数据库。",
    "cluster_member_unknown": "集群中没有数据库 {member!r}。现有：{known}。",
    "cluster_member_wrong": "{member!r} 的地址指向的数据库是 {found}，不是本集群的 {number} 号。"
    "请检查映射（horae cluster list）和 HORAE_CLUSTER_URLS。",
    "cluster_missing": "这个数据库不属于任何集群。请先运行 horae cluster init。",
    "cluster_name_unusable": "{name!r} 不能作为数据库的名字。请使用最多 40 个小写字母、数字、- 和 _。",
    "cluster_numbers_used_up": "无法再添加数据库：{most} 个编号已全部用完，编号不会重复使用。",
    "cluster_partly_stored": "{count} 个任务中有 {stored} 个已存入各自分片的数据库，其余的没有：{problem} "
    "请带上键重试，或只重新入队错误的 answers 所指出的任务。",
    "cluster_urls_unreadable": "HORAE_CLUSTER_URLS 必须是以空格分隔的 name=url；{name!r} 这一项不是。",
    "limit_below_databases": "上限 {max_running} 无法分给集群的 {databases} 个数据库，每个数据库只遵守自己的一份。"
    "请至少设为 {databases}，或使用指向同一数据库的键。",
    "shard_key_needed": "{handler} 同时有 {kinds}，它们可能位于集群的不同数据库。"
    "请用 shard_key= 统一决定，或只保留一种键。",
    "shows_one_database": "这个列表只读取一个数据库，而系统的数据分布在集群的所有数据库中。"
    "请使用 Horae 自己接口的列表（会合并各库），或指定租户。",
    "shard_key_long": "shard_key={shard_key!r} 与 {name!r} 合起来太长：最多 {most} 个字符。",
    "stale_map": "这个分片已经迁移，或其数据库的集群映射比本进程的新。没有写入任何内容；请重试。",
    "token_on_the_way": "有分片正在数据库之间迁移，这个令牌可能在其中。请稍后重试。",
    "vshard_busy": "这个分片正在迁移到另一个数据库。没有写入任何内容；请稍后重试。",
    "vshard_home_stays": "0 号虚拟分片存放系统自身的全部内容，不能离开它的数据库。",
    "vshard_rows_split": "这些分片中的行引用了其他不迁移的行：{what}。请一并迁移，或等它们结束。没有迁移任何内容。",
    "vshard_act_open": "系统的批量操作 {id} 处于 {state} 状态，仍在遍历这个数据库的任务，因此不能迁移它的分片。"
    "请用 `horae act resume {id}` 和一个 worker 让它完成，或用 `horae act cancel {id}` 结束它；"
    "然后重复该命令，它会从停下的地方继续。",
    "vshard_rows_stay": "这些分片中的所有者有 {what}，目前还不能迁移。请排除他们的分片。这些分片没有迁移任何内容。",
    "vshards_moved_meanwhile": "这些分片或集群映射（此处版本 {version}）已经改变。没有迁移任何内容；"
    "请查看 horae cluster list 后重试。",
    "vshards_unreadable": "{text!r} 不是虚拟分片。请写 0 到 4095 的数字和范围，例如 17-40,99。",
}
