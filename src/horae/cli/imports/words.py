"""What an import says of an entry, by code: in English and in Chinese."""

from __future__ import annotations

from horae.core.schedules.notes import Note
from horae.words.languages import Language

SENTENCES: dict[str, tuple[str, str]] = {
    # what changes, or is kept on purpose
    "zone_of_host": (
        "zone: read as {zone}, the zone of this host; --tz names another",
        "时区：按本机时区 {zone} 解释；用 --tz 指定其他时区",
    ),
    "zone_default": ("zone: none is set, so UTC; --tz names another", "时区：未设置，按 UTC；用 --tz 指定其他时区"),
    "day_or": (
        "days: day and weekday are both restricted, and one suffices, as in cron (day_match or)",
        "日期：日与星期都有限制，与 cron 一样满足其一即可（day_match or）",
    ),
    "day_and": (
        "days: day and weekday must both match, as there (day_match and)",
        "日期：日与星期须同时满足，与原来相同（day_match and）",
    ),
    "lenient": (
        "dialect: read with names, 7 for Sunday and the other wider forms (lenient)",
        "方言：按宽松语法读取（名称、7 表示星期日等，lenient）",
    ),
    "missed_skip": (
        "missed runs: not made up for, as there (misfire skip); fire_once would run one",
        "错过的运行：与原来一样不补（misfire skip）；fire_once 会补一次",
    ),
    "missed_once": (
        "missed runs: one is made up for, as beat does when it starts again (misfire fire_once)",
        "错过的运行：补一次，与 beat 重启时相同（misfire fire_once）",
    ),
    "overlap_allow": (
        "overlap: a run may start while the one before goes on, as there (overlap allow); skip would prevent it",
        "重叠：前一次未结束也可开始，与原来相同（overlap allow）；skip 可避免",
    ),
    "clocks": (
        "clocks: a time that clocks skip fires right after, one that they repeat fires once",
        "时钟调整：被跳过的时间在其后立即触发，重复的时间只触发一次",
    ),
    "first_fire": (
        "first run: one period after the import, not after the last run there",
        "首次运行：导入后一个周期，而不是原来最后一次运行之后",
    ),
    "command": (
        "command: Horae starts no shell; declare a job {handler} that runs its argument `command`",
        "命令：Horae 不启动 shell；请声明任务 {handler}，由它运行参数 `command`",
    ),
    "environment": (
        "environment: {names} of the file stand in the argument `environment`",
        "环境变量：文件中的 {names} 放入参数 `environment`",
    ),
    "input": (
        "input: what follows the first % stands in the argument `input`",
        "输入：第一个 % 之后的内容放入参数 `input`",
    ),
    "mail": (
        "mail: output is not mailed to {address}; it is what the job returns or logs",
        "邮件：输出不再寄给 {address}，而由任务返回或写入日志",
    ),
    "user": (
        "user: it ran as {user}; with Horae it runs as the user of the worker",
        "用户：原来以 {user} 运行；现在以 worker 的用户运行",
    ),
    "options_dropped": (
        "options: not brought: {names}; declare them on the job",
        "选项：未带来 {names}；请在任务上声明",
    ),
    "named_arguments": (
        "arguments: positional ones got the names of the task's parameters ({names})",
        "参数：位置参数按任务的形参命名（{names}）",
    ),
    "off_there": ("off: it is disabled there, and is stored disabled", "停用：原来已停用，导入后也停用"),
    "one_off": ("once: it runs one more time (max_fires 1)", "一次：只再运行一次（max_fires 1）"),
    "relative": (
        "rhythm: it was rounded to full units of its period; here it counts from the import",
        "节奏：原来取整到周期单位；这里从导入时算起",
    ),
    "missed_always": (
        "missed runs: one is made up for, however late (misfire fire_once)",
        "错过的运行：不论多晚都补一次（misfire fire_once）",
    ),
    "missed_grace": (
        "missed runs: dropped when more than {seconds} s late, as there (misfire skip, grace)",
        "错过的运行：迟到超过 {seconds} 秒即放弃，与原来相同（misfire skip、grace）",
    ),
    "missed_merged": (
        "missed runs: several become one here, each ran there (coalesce off); catch_up makes up for more",
        "错过的运行：原来逐一补（coalesce 关闭），这里合并为一次；catch_up 可补多次",
    ),
    "overlap_skip": (
        "overlap: none, as there (max_instances 1, overlap skip)",
        "重叠：不允许，与原来相同（max_instances 1，overlap skip）",
    ),
    "overlap_some": (
        "overlap: {most} at once there, any number here (overlap allow); limit the job with `horae limit set`",
        "重叠：原来最多 {most} 个，这里不限（overlap allow）；可用 `horae limit set` 限制任务",
    ),
    "handler": ("handler: declare the function as a job named {name}", "处理函数：请把该函数声明为名为 {name} 的任务"),
    # what cannot be brought
    "state_unreadable": (
        "its stored state cannot be read ({problem}); make the schedule by hand",
        "无法读取其存储的状态（{problem}）；请手工建立定时",
    ),
    "field_unknown": (
        "it restricts {name} in a way that cron here does not know; choose other fields",
        "它对 {name} 的限制在这里的 cron 中没有对应写法；请改用其他字段",
    ),
    "zone_unknown": ("its time zone has no IANA name; set one there", "它的时区没有 IANA 名称；请在原处设置"),
    "reboot": (
        "@reboot is not a time. Start it with the machine, as a unit of systemd",
        "@reboot 不是时间。请用 systemd 单元随机器启动",
    ),
    "line_unreadable": (
        "the line has fewer fields than cron needs; write five fields and a command",
        "这一行的字段不够；请写五个字段和一条命令",
    ),
    "solar": (
        "it follows the sun, and Horae has no such rule; choose a time of day",
        "它按日出日落触发，Horae 没有这种规则；请选定时刻",
    ),
    "schedule_unknown": (
        "a schedule of the type {type} cannot be read; write it as crontab or as an interval",
        "无法读取类型为 {type} 的时间规则；请改写为 crontab 或间隔",
    ),
    "task_missing": ("it names no task", "没有指定任务"),
    "arguments_positional": (
        "it has positional arguments, and Horae passes arguments by name; write them as kwargs",
        "它有位置参数，而 Horae 按名称传参；请改写为 kwargs",
    ),
    "arguments_not_fitting": (
        "its arguments do not fit the task: {problem}",
        "参数与任务不符：{problem}",
    ),
    "arguments_not_json": (
        "its arguments are not JSON: {problem}",
        "参数不是 JSON：{problem}",
    ),
    "declared": (
        "the code of an application declares a schedule of this key; choose --prefix",
        "某个应用的代码声明了同名的定时；请用 --prefix",
    ),
    "twice": ("another entry has the same key; rename one", "另一条目的键相同；请改名"),
}


def say(note: Note, language: Language) -> str:
    """Return a note in words."""
    return SENTENCES[note.code][language == "zh"].format(**note.values)
