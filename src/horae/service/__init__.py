"""The HTTP service: the verbs of ``horae.actions`` behind URLs. Needs the extra ``server``."""
