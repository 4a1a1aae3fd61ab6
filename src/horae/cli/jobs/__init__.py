"""``horae job``, ``horae queue``, ``horae limit``."""
