"""The Chinese of :mod:`horae.words.common`: the same keys and placeholders."""

ERRORS = {
    "already_ended": "{thing} 处于 {state}，不能再 {event}：它已经结束。",
    "choice_unknown": "{name}={value!r} 无法识别；请从 {choices} 中选择。",
    "clock_backwards": "时钟显示 {now}，不能退回到 {instant}。",
    "cursor_invalid": "游标无效。请原样传入上一页的 `next_cursor`。",
    "instant_unreadable": "{name} {text!r} 不是 ISO-8601 时间；请写成 2030-01-07T06:00:00Z 这样的形式。",
    "key_not_text": '{what} 含有键 {key}，它不是文本，而 JSON 只接受文本键。请写成字符串，例如 "{text}"。',
    "label_unreadable": "{value} 不能作为 {what}：请使用 1 到 {most} 个可打印字符，不含换行，首尾没有空格。",
    "language_unknown": "没有语言 {language!r} 的文字；请选择 'en' 或 'zh'。",
    "lone_surrogate": "{what} 含有孤立的代理字符，不是合法文本。请先正确解码其来源字节。",
    "name_unreadable": "{value} 不能作为 {what} 的名称：请使用最多 {most} 个字母、数字以及 _ . : / @ -，并以字母"
    "或数字开头。",
    "no_time_left": "{name}={value:span} 没有留下任何时间；请给出大于零的值，或用 None 表示不限。",
    "not_boolean": "{name} 只能是 True 或 False，不能是 {value}。",
    "not_json": "{what} 不是纯 JSON：{problem}。只能发送 dict、list、str、int、有限的 float、bool 和 None。",
    "nul_character": "{what} 含有 NUL 字符，数据库无法将其存为文本。请删除它。",
    "offset_missing": "{text!r} 没有时区；UTC 请写 {without_zone}Z，或加上偏移量，例如 {without_zone}+08:00。",
    "not_a_whole_number": "{name}={value!r} 不是整数。请只写数字，或留空。",
    "out_of_range": "{name} {value} 超出范围 {least:,} 至 {most:,}。",
    "outside_calendar": "{name} {value} 换算成 UTC 后超出日历范围；请给出公元 1 年至 9999 年之间的时间。",
    "parameter_unknown": "此调用没有参数 {name!r}；可用参数见 /openapi.json。",
    "span_too_long": "{name}={value:span} 太长，无法保存；最多 {most_days:,} 天。",
    "span_unreadable": "{value} 既不是秒数，也不是 timedelta 或 5m 这样的文本。",
    "text_not_storable": "{name} 含有 NUL 或半个字符，无法存为文本。请删除它。",
    "too_deep": "{what} 的嵌套超过 {most} 层。请将其展平，或作为字符串发送。",
    "too_large": "{what} 有 {size:,} 字节；最多接受 {most:,} 字节。请把数据存到别处，只发送引用。",
    "transition_refused": "{thing} 处于 {state}，不能 {event}。从 {state} 出发可以：{possible}。",
    "type_wrong": "{name}={value} 不是 {expected}。",
    "zone_missing": "{name} {value} 没有时区。请给出带时区的 datetime，例如 datetime(2030, 1, 7, 6, tzinfo=UTC)。",
    "zone_unknown": "没有时区 {name!r}。请使用 IANA 名称，例如 Europe/Berlin、Asia/Shanghai 或 UTC；若名称无误，"
    "请更新 tzdata 包。",
}
