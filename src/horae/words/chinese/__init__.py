"""Simplified Chinese, module by module beside the English tables: the same keys, the same placeholders."""
