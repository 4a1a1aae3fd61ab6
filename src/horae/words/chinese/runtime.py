"""The Chinese of :mod:`horae.words.runtime`: the same keys and placeholders."""

ERRORS = {
    "annotation_unreadable": "无法读取 {function} 的注解 {annotation!r}：{problem}。请在模块顶部导入该类型，而不"
    "是只给类型检查器用。",
    "child_handler_unknown": "在模块 {module} 中找不到 {qualname}。executor='process' 的处理函数由新的解释器导入："
    "请在模块顶层声明它。",
    "child_in_memory": "子进程中的 ctx.once 无法访问另一个进程内存中的数据库。请使用文件。",
    "child_module_missing": "executor='process' 的处理函数必须位于子进程可以导入的文件中，而不是交互式会话或 "
    "python -c 中。",
    "child_without_app": "子进程中的 ctx.once 需要应用，而处理函数所在的模块没有。请在它自己的模块中用 "
    "@app.job(…) 装饰该函数，或在那里导入 app。",
    "dask_address_missing": "executor='dask' 不知道调度器在哪里。请设置 DASK_SCHEDULER_ADDRESS，或声明 "
    "executor=DaskExecutor('tcp://scheduler:8786')。",
    "executor_away": "无法连接 {executor}：{problem}",
    "executor_extra_missing": "executor={executor!r} 需要 {module!r}，而它没有安装。请运行：pip install "
    "'horae[{extra}]'",
    "executor_not_here": "{handler} 声明了 executor={executor!r}，此进程无法使用它：请在声明它的应用的 worker 中运行。",
    "executor_not_stopping": "已要求 {executor} 停止 {name}，但它仍在运行。",
    "executor_silent": "{executor} 在 {seconds} 秒内没有应答。",
    "factory_async": "{kind} 来自 async 工厂：请在 async 函数中用 `await ctx.get_async({kind})` 获取。",
    "factory_async_not_started": "{kind} 来自 async 工厂，尚未创建：请先启动应用，或用 `await ctx.get_async(…)` 获取。",
    "factory_needed": "{kind} 是一个值；per_run=True 需要每次新建的工厂。",
    "fault_unreadable": "无法读取 HORAE_FAULT={text!r}；请写成 point:action:count，其中 point 取自 {points}，"
    "action 取自 {actions}。",
    "generator_returned": "{name} 返回了生成器，其中的代码都没有运行。请在不含 yield 的普通函数或 async 函数中完"
    "成工作，或在那里遍历该生成器。",
    "kubernetes_call_too_long": "此调用连同参数共 {size} 字节，而一个 pod 最多可接收 {most} 字节。请把大的内容存到"
    "别处，只传递它的名字。",
    "kubernetes_image_missing": "executor='kubernetes' 不知道使用哪个镜像。请设置 {variable}，或声明 "
    "executor=KubernetesExecutor('registry/image:tag')。",
    "kubernetes_url_missing": "executor='kubernetes' 不知道使用哪个集群：此进程不在集群中运行。请设置 {variable}（例如 "
    "`kubectl proxy` 输出的地址），或声明 executor=KubernetesExecutor(url=…)。",
    "listener_is_generator": "{name} 是生成器函数：调用它不会执行其中任何代码。请去掉 yield。",
    "lock_manager_missing": "没有设置锁管理器；请用 app.locks = … 为应用设置。",
    "not_provided": "没有提供 {kind}；请添加 app.provide({kind}, …)。",
    "once_needs_database": "ctx.once({step!r}, …) 把结果保存在数据库事务中，而此 worker 只能访问服务。请在数据库"
    "所在处用 --db 代替 --url 运行 worker，或把 ctx.idempotency_key 交给实际执行工作的一方。",
    "parameter_not_fillable": "{who} 有无法填充的参数 {parameter!r}：请用 app.provide(…) 所提供的类型注解它，或"
    "给出默认值。",
    "remote_handler_in_main": "{handler} 声明在被直接启动的程序中，集群无法导入它。请在两边都已安装的模块中声明它。",
    "remote_without_store": "ctx.{verb} 需要数据库，而集群上的处理函数访问不到。请用 ctx.idempotency_key 把所需内容"
    "保存在自己的存储中，或为此任务声明其他执行器。",
    "service_failed": "服务出错：{problem}",
    "service_refuses_worker": "服务拒绝此 worker：{problem}",
    "store_needs_database": "此进程只能访问服务，而这项操作（{name}）需要数据库。请在数据库所在处用 --db 代替 "
    "--url 运行 worker，或使用服务提供的功能：app.jobs，或不带 owner 和 connection 的 handle.enqueue。",
    "worker_inside_child": "worker 不能在它自己的子进程中启动：此模块在导入时就启动了一个。请把它放到 `if "
    '__name__ == "__main__":` 之后。',
}
