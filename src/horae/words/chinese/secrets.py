"""The Chinese of :mod:`horae.words.secrets`: the same keys and placeholders."""

ERRORS = {
    "key_file_empty": "{setting}_FILE 指向 {path!r}，其中没有密钥；可以这样生成：python -c 'import secrets; "
    "print(secrets.token_urlsafe(32))'。",
    "key_file_unreadable": "{setting}_FILE 指向 {path!r}，它无法作为文本读取。",
    "key_unreadable": "{setting} 的内容不是 base64 或十六进制的 {length} 字节；可以这样生成：python -c 'import "
    "secrets; print(secrets.token_urlsafe(32))'。",
    "overlap_too_long": "被替换的机密最多可继续有效 {most_days} 天。",
    "reference_unreadable": '引用的形式是 {{"{key}": "name"}}，不含其他内容。',
    "sealing_key_missing": "机密 {name!r} 所用的加密密钥没有在此配置。请管理员把旧密钥放在新密钥之后："
    "{setting}=new,old；或重新保存该机密。",
    "secret_changed": "机密 {name!r} 在数据库中被改动过，或属于另一个所有者。请重新保存。",
    "secret_key_missing": "此处没有设置 HORAE_SECRET_KEY；请设为与服务相同的值。",
    "secret_length_outside": "机密是 {least} 到 {most:,} 个字符的文本。",
    "secret_name_unreadable": "机密的名称有 1 到 100 个字母、数字以及 _ . -，以字母或数字开头，并且不是机密本身。",
    "secret_not_generated": "机密 {name!r} 是你自己的文本，不是能在此生成的签名机密；请写入新的文本。",
    "secret_not_plain": "机密是不含 NUL 和孤立代理字符、首尾没有空格的文本。",
    "secret_unknown": "没有机密 {name!r}；GET /secrets 会列出现有的机密。",
    "secrets_extra_missing": "机密功能需要 {module!r}，但尚未安装。请运行：pip install 'horae[server]'",
    "secrets_without_key": "此处还不能保存机密。请管理员为服务及其 worker 设置 HORAE_SECRET_KEY（或 "
    "HORAE_SECRET_KEY_FILE），然后重启它们。可以这样生成密钥：python -c 'import secrets; "
    "print(secrets.token_urlsafe(32))'。",
    "too_many_references": "一条消息最多引用 {most} 个机密，而不是 {count} 个。",
    "too_many_secrets": "已有 {allowed} 个机密；请删除不需要的。",
    "worker_without_secret_key": "此 worker 无法打开机密：请给它服务所用的 HORAE_SECRET_KEY，然后重启。",
}
